// A server on an empty SQLite file, and a page in Chromium that reports all that a person would
// find wrong in the browser's console.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chromium } from "playwright-core";

// Long enough for a loaded machine; a test that passes waits no longer than it needs.
export const PATIENCE_MS = 60_000;

async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => probe.once("listening", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/** Starts `snaphook serve`; `stop` ends it as an operator would and takes its files away. */
export async function startSnaphook() {
  const folder = await mkdtemp(join(tmpdir(), "snaphook-browser-"));
  const url = `http://127.0.0.1:${await freePort()}`;
  const server = spawn(process.env.SNAPHOOK_TEST_BIN, ["serve"], {
    cwd: folder,
    env: {
      ...process.env,
      SNAPHOOK_DATABASE: `sqlite:${join(folder, "snaphook.db")}`,
      SNAPHOOK_LISTEN: url.slice("http://".length),
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  server.stdout.on("data", (text) => (log += text));
  server.stderr.on("data", (text) => (log += text));
  const ended = new Promise((resolve) => server.once("exit", resolve));

  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const ready = await fetch(`${url}/readyz`).catch(() => undefined);
    if (ready?.ok) break;
    if (server.exitCode !== null || Date.now() > deadline) throw new Error(`not ready:\n${log}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return {
    url,
    async stop() {
      server.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

export function startBrowser() {
  // Chromium's own sandbox does not work for root, who runs this in a container.
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: process.env.SNAPHOOK_TEST_BROWSER, args });
}

/** A new page, and the list that fills with its errors, refusals by the CSP and foreign requests. */
export async function openPage(browser, home) {
  const page = await browser.newPage();
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("requestfailed", (request) => complaints.push(`${request.url()} failed`));
  page.on("request", (request) => {
    if (!request.url().startsWith(home)) complaints.push(`asks elsewhere: ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
  });
  return { page, complaints };
}

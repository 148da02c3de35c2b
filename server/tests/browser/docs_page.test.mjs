// The readable page of the API.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openPage, startBrowser, startSnaphook } from "./support.mjs";

let snaphook, browser;
before(async () => {
  snaphook = await startSnaphook();
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await snaphook?.stop();
});

test("the page opens under its own content security policy, without a word in the console", async () => {
  const { page, complaints } = await openPage(browser, snaphook.url);
  const answer = await page.goto(`${snaphook.url}/docs`);

  assert.equal(answer.status(), 200);
  const policy = answer.headers()["content-security-policy"] ?? "";
  assert.match(policy, /default-src 'none'|default-src 'self'/, "no policy");
  assert.doesNotMatch(policy, /unsafe-eval|unsafe-inline|\*/);
  assert.ok(await page.title(), "a page has a title");
  assert.ok(await page.getAttribute("html", "lang"), "a page says its language");
  assert.deepEqual(complaints, []);
});

test("the page lists every route of the OpenAPI document", async () => {
  const { page, complaints } = await openPage(browser, snaphook.url);
  await page.goto(`${snaphook.url}/docs`);
  const text = await page.innerText("body");

  const { paths } = await (await fetch(`${snaphook.url}/openapi.json`)).json();
  assert.ok(Object.keys(paths).length > 10, "the document lists few routes");
  const missing = Object.keys(paths).filter((path) => !text.includes(path));
  assert.deepEqual(missing, []);
  assert.deepEqual(complaints, []);
});

test("the page can be read on a narrow screen", async () => {
  const { page } = await openPage(browser, snaphook.url);
  await page.setViewportSize({ width: 360, height: 700 });
  await page.goto(`${snaphook.url}/docs`);

  const [wide, screen] = await page.evaluate(() => [
    document.documentElement.scrollWidth,
    document.documentElement.clientWidth,
  ]);
  assert.ok(wide <= screen, `the page is ${wide} wide on a screen of ${screen}`);
});

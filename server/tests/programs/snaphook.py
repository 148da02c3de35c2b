"""A running snaphook and a receiver that trusts nothing but the official library.

The tests of this folder do what a customer of snaphook does: they start the program, configure it
by its API, and write to the database with their own tools.
"""

import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook

BINARY = os.environ["SNAPHOOK_TEST_BIN"]

# Long enough for a loaded machine; a test that passes waits for what it needs and no longer.
PATIENCE_SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Receiver:
    """An HTTP server that answers 204 to what verifies, 401 to the rest, and keeps both."""

    def __init__(self):
        self.genuine = []
        self.forged = []
        self.secret = None
        self.arrived = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                try:
                    Webhook(receiver.secret).verify(body, dict(self.headers))
                    status, kept = 204, receiver.genuine
                except Exception as error:  # the library's own, or whatever bad input makes of it
                    status, kept, body = 401, receiver.forged, repr(error).encode()
                self.send_response(status)
                self.end_headers()
                with receiver.arrived:
                    kept.append((dict(self.headers), body))
                    receiver.arrived.notify_all()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait_for(self, data):
        """The first event whose data is `data`, once it has arrived."""

        def found():
            for _, body in self.genuine:
                event = json.loads(body)
                if event["data"] == data:
                    return event
            return None

        with self.arrived:
            if not self.arrived.wait_for(lambda: found() or self.forged, PATIENCE_SECONDS):
                raise AssertionError(f"{data} did not arrive; what did: {self.genuine}")
            if self.forged:
                raise AssertionError(f"the official library refused a request: {self.forged}")
            return found()

    def data(self):
        """The data of all that has arrived."""
        with self.arrived:
            return [json.loads(body)["data"] for _, body in self.genuine]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Snaphook:
    """The program on a database, with one tenant `acme` whose one endpoint wants everything."""

    def __init__(self, database, folder):
        self.receiver = Receiver()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.environment = os.environ | {
            "SNAPHOOK_DATABASE": database,
            "SNAPHOOK_LISTEN": f"127.0.0.1:{port}",
            "SNAPHOOK_GUARD_ALLOW": "127.0.0.1/32",
            "SNAPHOOK_MASTER_KEY": os.urandom(32).hex(),
            "SNAPHOOK_URL": self.url,
        }
        self.log = open(os.path.join(folder, "snaphook.log"), "w+")
        self.run("migrate")
        self.key = self.run(
            "keys", "create", "--role", "operator", "--scope", "read", "--scope", "emit", "--scope", "manage"
        ).strip()
        self.process = subprocess.Popen(
            [BINARY, "serve"], env=self.environment, stdout=self.log, stderr=self.log, cwd=folder
        )
        self._wait_until_ready()
        self.call("PUT", "/v1/tenants/acme", {})
        endpoint = self.call(
            "POST", "/v1/tenants/acme/endpoints", {"url": self.receiver.url, "event_types": ["*"]}
        )
        self.receiver.secret = self._secret_of(endpoint["id"])

    def run(self, *arguments):
        """What a subcommand prints."""
        done = subprocess.run(
            [BINARY, *arguments], env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise AssertionError(f"snaphook {arguments} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def call(self, method, path, body=None):
        """What the API answers, as JSON."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"authorization": f"Bearer {self.key}", "content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def _secret_of(self, endpoint):
        path = f"/v1/tenants/acme/endpoints/{endpoint}/secrets"
        secret = self.call("GET", path)["data"][0]["id"]
        return self.call("POST", f"{path}/{secret}/reveal")["secret"]

    def _wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.url + "/readyz", timeout=5).close()
                return
            except OSError:
                time.sleep(0.05)
        self.log.seek(0)
        raise AssertionError(f"the server did not become ready:\n{self.log.read()}")

    def close(self):
        self.process.terminate()
        status = self.process.wait(timeout=PATIENCE_SECONDS)
        self.receiver.close()
        self.log.close()
        if status != 0:
            raise AssertionError(f"on SIGTERM the server ended with {status}, not 0")

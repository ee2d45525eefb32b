"""Starts what the stories of the clients need, and runs a command in it.

Usage: world.py BINARY COMMAND [ARGUMENT …]

The command finds a description of the world in `AUSPEX_TEST_WORLD` (JSON), and an account of the first service in `AUSPEX_URL`,
`AUSPEX_KEY` and `AUSPEX_SECRET`, as the examples of the READMEs expect it. Only the standard library is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Settings of all services: fast, and never refusing for coming too often or for want of money.
SETTINGS = {
    "AUSPEX_LISTEN": "127.0.0.1:0",
    "AUSPEX_LOG": "error",
    "AUSPEX_ANALYZER": "words",
    "AUSPEX_DEBOUNCE_MS": "50",
    "AUSPEX_DEBOUNCE_MAX_MS": "500",
    "AUSPEX_RATE_LIMIT_PER_MINUTE": "1000000",
    "AUSPEX_SIGNUP_CREDIT_CENTS": "10000000",
    "AUSPEX_ALLOW_PRIVATE_TARGETS": "true",
    "AUSPEX_TRUSTED_PROXIES": "127.0.0.1/32",
}
# The services, and what is special about each.
SERVICES: dict[str, dict[str, str]] = {
    "service": {},
    # Its analyzer cannot be reached: verdicts are refused, but their events are recorded.
    "without_analyzer": {
        "AUSPEX_ANALYZER": "openai",
        "AUSPEX_ANALYZER_URL": "http://127.0.0.1:9/v1",
        "AUSPEX_ANALYZER_MODEL": "none",
    },
    # It refuses for coming too often.
    "rate_limited": {"AUSPEX_RATE_LIMIT_PER_MINUTE": "5"},
}


@contextlib.contextmanager
def service(binary: str, name: str, directory: Path) -> Iterator[str]:
    """A running service; yields its URL."""
    directory.mkdir()
    settings = SETTINGS | SERVICES[name] | {"AUSPEX_DATA_DIR": str(directory)}
    log = directory / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [binary, "serve"], env=settings, cwd=directory, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        assert process.stdout is not None
        greeting = process.stdout.readline()
        if " listens on " not in greeting:
            sys.exit(f"The service did not start: {greeting}{log.read_text()}")
        yield greeting.split(" listens on ")[1].strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()


class LossyHandler(socketserver.StreamRequestHandler):
    """Passes a request on. The first response to each idempotency key, and to each DELETE, is lost on the way; the first export
    of each API key breaks off in the middle."""

    server: LossyProxy

    def handle(self) -> None:
        head = bytearray()
        while line := self.rfile.readline():
            head += line
            if line == b"\r\n":
                break
        if not head:
            return
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
        }
        body = self.rfile.read(int(fields.get("content-length", "0")))
        request_line = head.split(b"\r\n", 1)[0].decode("latin-1")
        with socket.create_connection(self.server.upstream) as upstream:
            upstream.sendall(close_connection(bytes(head)) + body)
            response = b"".join(iter(lambda: upstream.recv(65536), b""))
        memorable = fields.get("idempotency-key") or (request_line if request_line.startswith("DELETE") else None)
        if memorable is not None and self.server.is_first(memorable):
            return
        if " /v1/export" in request_line and self.server.is_first(f"export {fields['authorization'].split('.')[0]}"):
            response = response[: len(response) // 2]
        self.wfile.write(response)


def close_connection(head: bytes) -> bytes:
    lines = [line for line in head.split(b"\r\n") if line and not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"connection: close", b"", b""])


class LossyProxy(socketserver.ThreadingTCPServer):
    """A proxy in front of a service that loses responses."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, upstream: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), LossyHandler)
        self.upstream = upstream
        self._seen: set[str] = set()
        self._lock = threading.Lock()

    def is_first(self, memorable: str) -> bool:
        with self._lock:
            is_new = memorable not in self._seen
            self._seen.add(memorable)
            return is_new


def call(url: str, body: dict[str, Any], bearer: str | None = None) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        answer: dict[str, Any] = json.loads(response.read())
    return answer


def account(url: str) -> dict[str, str]:
    """A new account with a key, on the service at this URL."""
    email = f"story-{os.urandom(8).hex()}@example.com"
    register = {"tenant_name": "Stories", "email": email, "password": "seven lamps along the quay"}
    token = call(f"{url}/auth/console/register", register)["token"]
    made = call(f"{url}/v1/api_keys", {"name": "stories"}, token)
    return {"url": url, "key": made["key"], "secret": made["secret"]}


def run(binary: str, command: list[str]) -> int:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="auspex-clients-")))
        world = {name: stack.enter_context(service(binary, name, directory / name)) for name in SERVICES}
        host, _, port = world["service"].partition("://")[2].partition(":")
        lossy = stack.enter_context(LossyProxy((host, int(port))))
        threading.Thread(target=lossy.serve_forever, daemon=True).start()
        stack.callback(lossy.shutdown)
        world["lossy"] = f"http://127.0.0.1:{lossy.server_address[1]}"
        # It takes connections, and never responds.
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        world["silent"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        mine = account(world["service"])
        environment = os.environ | {
            "AUSPEX_TEST_WORLD": json.dumps(world),
            "AUSPEX_URL": mine["url"],
            "AUSPEX_KEY": mine["key"],
            "AUSPEX_SECRET": mine["secret"],
        }
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit((__doc__ or "").strip())
    sys.exit(run(str(Path(sys.argv[1]).resolve()), sys.argv[2:]))

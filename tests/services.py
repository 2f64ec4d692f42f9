"""A service in a process of its own, for tests that speak to it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

POSTED = b"POST /api/v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
HOSTILE = '<img src=x onerror="alert(1)">{{7*7}}%s'  # the title of e007 in what is served


@dataclass
class Service:
    process: subprocess.Popen
    port: int
    token: str | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes, dict]:
        """One request on a connection of its own; underscores of header names become hyphens."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()

    def post(self, path: str, body: object, **headers: str) -> tuple[int, dict]:
        """A body of JSON, or of bytes as they are: the status and the parsed answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, text, _ = self.ask("POST", path, data, **{"Content_Type": "application/json"} | headers)
        return status, json.loads(text)

    def raw(self, data: bytes, seconds: float = 30.0) -> bytes:
        """Sends bytes and reads until the service closes or ``seconds`` are over."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(data)
            found = b""
            try:
                while part := connection.recv(65536):
                    found += part
            except TimeoutError:
                pass
            return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(run: Path, *options: str, token: str | None = None, wait: bool = True) -> Iterator[Service]:
    """``tuckerkg serve`` on a free port until the block ends."""
    port = free_port()
    words = [sys.executable, "-m", "tuckerkg", "serve", str(run), "--port", str(port), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} | ({"TUCKERKG_TOKEN": token} if token else {})
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    service = Service(process, port, token)
    try:
        if wait:
            wait_until_ready(service)
        yield service
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_until_ready(service: Service, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if service.process.poll() is not None:
            raise AssertionError(service.process.stderr.read().decode())
        try:
            if service.ask("GET", "/ready")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError("the service was not ready in time")

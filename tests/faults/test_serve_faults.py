"""The service watched from outside: no socket goes out (S5), slow connections do not starve others (F23)."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from services import running, wait_until_ready

from tuckerkg.serve.client import Client

pytestmark = pytest.mark.faults


def test_s5_serving_opens_no_outgoing_socket(toy_run, tmp_path):
    log = tmp_path / "connects"
    with running(toy_run.path, wait=False) as service:
        watching = subprocess.Popen(
            ["strace", "-f", "-qq", "-e", "trace=connect", "-o", str(log), "-p", str(service.process.pid)]
        )
        try:
            wait_until_ready(service)
            client = Client(service.address)
            client.predict(head="e000", relation="plus1")
            client.explain("e000", "plus1", "e001")
            client.missing()
            assert service.ask("GET", "/")[0] == 200
        finally:
            watching.terminate()
            watching.wait()
    asked = [line for line in log.read_text().splitlines() if "connect(" in line]
    assert not [line for line in asked if re.search(r"AF_INET6?\b", line)], asked


def test_f23_slow_connections_are_cut_off_and_others_are_answered(toy_run):
    with running(toy_run.path) as service:
        client = Client(service.address)
        slow = [socket.create_connection(("127.0.0.1", service.port), timeout=30) for _ in range(200)]
        start = time.monotonic()
        closed: set[int] = set()
        while time.monotonic() - start < 20 and len(closed) < len(slow):
            for place, connection in enumerate(slow):
                if place in closed:
                    continue
                try:
                    connection.setblocking(False)
                    connection.sendall(b"G")
                    if connection.recv(10) == b"":
                        closed.add(place)
                except BlockingIOError:
                    pass
                except OSError:
                    closed.add(place)
            assert client.predict(head="e000", relation="plus1")
            time.sleep(0.5)
        assert len(closed) == len(slow)
        for connection in slow:
            connection.close()

"""Clients that read nothing of their answer are cut off, and others are served (F23)."""

from __future__ import annotations

import json
import socket
import time

import pytest
from services import POSTED, running

QUESTION = {"head": "e000", "k": 60, "known": True, "typed": False}


def unread(port: int, questions: int) -> socket.socket:
    """A connection that asks for much and reads nothing."""
    body = json.dumps({"questions": [QUESTION] * questions}).encode()
    head = POSTED.replace(b"/predict ", b"/predict/batch ") + f"Content-Length: {len(body)}\r\n\r\n".encode()
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    found.connect(("127.0.0.1", port))
    found.sendall(head + body)
    return found


def test_f23_who_does_not_read_is_cut_off_by_a_reset(served_run):
    with running(served_run.path, "--limit", "write_seconds=1") as found:
        with unread(found.port, 256) as silent:
            time.sleep(4.0)
            assert found.post("/api/v1/predict", QUESTION)[0] == 200  # others are served
            with pytest.raises(ConnectionResetError):
                for _ in range(100):
                    if not silent.recv(1 << 16):
                        raise AssertionError("an orderly end")
        metrics = found.ask("GET", "/metrics")[1].decode()
        assert "tuckerkg_held_bytes 0.0" in metrics
        assert found.process.poll() is None

"""How the service begins and ends, and what clients that go away leave behind (F22-F25)."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import threading
import time
from http.client import HTTPConnection

import pytest
from services import POSTED, running

import tuckerkg
from tuckerkg.errors import TuckerkgError
from tuckerkg.serve.client import Client


def test_f24_not_ready_until_loaded_and_every_request_finishes_after_sigterm(served_run):
    with running(served_run.path, wait=False) as found:
        statuses = set()
        end = time.monotonic() + 60
        while time.monotonic() < end and 200 not in statuses:
            try:
                statuses.add(found.ask("GET", "/ready")[0])
            except OSError:
                time.sleep(0.02)
        assert statuses <= {200, 503}
        lost, done, stop = [], [], threading.Event()

        def hammer():
            while not stop.is_set():
                try:
                    status, _ = found.post("/api/v1/predict", {"head": "e000", "relation": "plus1"})
                    done.append(status)
                except ConnectionRefusedError:
                    return  # the door is closed
                except Exception as error:
                    lost.append(error)
                    return

        threads = [threading.Thread(target=hammer) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(15) in (0, -signal.SIGTERM, 143)
        stop.set()
        for thread in threads:
            thread.join()
        assert set(done) == {200}
        # A connection that the listener had taken in but not yet handed over may be reset: it had no request at work.
        assert all(isinstance(error, ConnectionResetError) for error in lost), lost


def test_f24_no_request_on_a_kept_connection_is_lost_by_sigterm(served_run):
    """Each client stops once it is told to: an answer that closes its connection."""
    body = json.dumps({"head": "e000", "relation": "plus1"}).encode()
    with running(served_run.path) as found:
        lost, done, told = [], [], []

        def hammer():
            connection = HTTPConnection("127.0.0.1", found.port, timeout=30)
            try:
                while True:
                    connection.request("POST", "/api/v1/predict", body, {"Content-Type": "application/json"})
                    answer = connection.getresponse()
                    answer.read()
                    done.append(answer.status)
                    if answer.getheader("connection") == "close":
                        told.append(True)
                        return
            except Exception as error:
                lost.append(error)

        threads = [threading.Thread(target=hammer) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        found.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert found.process.wait(15) in (0, -signal.SIGTERM, 143)
        assert lost == []
        assert len(told) == 8
        assert set(done) == {200}


def test_a_run_that_cannot_be_loaded_ends_the_service_with_the_reason(tmp_path):
    with running(tmp_path / "nowhere", wait=False) as found:
        assert found.process.wait(60) != 0
        said = found.process.stderr.read().decode()
        assert "nowhere" in said
        assert "Traceback" not in said


def test_a_damaged_best_checkpoint_ends_the_service_at_its_start(served_run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(served_run.path, copy)
    step = json.loads((copy / "best.json").read_text())["step"]
    weights = copy / "checkpoints" / f"step-{step:08}" / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with running(copy, wait=False) as found:
        assert found.process.wait(60) == 1
        said = found.process.stderr.read().decode()
        assert said.count(str(weights)) == 1
        assert "the SHA-256 differs" in said
        assert "Traceback" not in said
        assert "ready: http" not in said


def test_an_address_that_is_taken_ends_the_service_before_the_run_is_loaded(served_run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running(served_run.path, "--port", str(port), wait=False) as found:
            assert found.process.wait(60) == 1
            said = found.process.stderr.read().decode()
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in said
    assert "ready: http" not in said


def test_f25_a_folder_that_is_replaced_or_deleted_does_not_reach_what_is_served(served_run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(served_run.path, copy)
    with running(copy) as found:
        asked = Client(found.address)
        before = asked.predict(head="e003", relation="plus2", k=3)
        shutil.rmtree(copy)
        assert asked.predict(head="e003", relation="plus2", k=3) == before
        assert asked.explain("e000", "plus1", "e001", k=1)["edges"]
        assert asked.facts("e003")["total"] > 0


def test_f22_clients_that_go_away_leave_nothing_behind(service, client):
    def open_files():
        from pathlib import Path

        return len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))

    client.predict(head="e000", relation="plus1")
    before = open_files()
    body = json.dumps({"head": "e000", "relation": "plus1"}).encode()
    head = POSTED + f"Content-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", service.port), timeout=10) as gone:
            gone.sendall(head + body)
    time.sleep(1.0)
    assert client.predict(head="e000", relation="plus1")
    assert open_files() <= before + 5


def test_the_client_says_when_nobody_answers():
    with pytest.raises(TuckerkgError, match="Is `tuckerkg serve` running"):
        Client("http://127.0.0.1:9").about()
    with pytest.raises(TuckerkgError, match="no address of a service"):
        Client("file:///etc/passwd")
    assert tuckerkg.__version__

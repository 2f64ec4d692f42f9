"""Several workers on one port: all answer, one that dies is started again, and SIGTERM loses nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest
from services import Service, running

import tuckerkg
from tuckerkg.serve.client import Client

QUESTION = {"head": "e000", "relation": "plus1"}


def children(process_id: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]


def wait_for(condition, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def metric(found: Service, name: str) -> float:
    text = found.ask("GET", "/metrics")[1].decode()
    return sum(float(line.split()[-1]) for line in re.findall(rf"^{name}(?:\{{.*\}})? .*$", text, re.MULTILINE))


def is_alive(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def two(served_run, tmp_path_factory):
    place = tmp_path_factory.mktemp("workers") / "run"
    shutil.copytree(served_run.path, place)
    with running(place, "--workers", "2") as found:
        wait_for(lambda: metric(found, "tuckerkg_workers") == 2)
        yield found


def test_both_answer_and_metrics_count_what_both_did(two, served_run):
    expected = [fact.tail_label for fact in served_run.predict(**QUESTION)]
    before = metric(two, "tuckerkg_questions_total")
    asked = Client(two.address)
    for _ in range(40):
        assert [fact["tail_label"] for fact in asked.predict(**QUESTION)] == expected
    assert metric(two, "tuckerkg_questions_total") == before + 40
    assert two.ask("GET", "/ready")[0] == 200
    for stopped in children(two.process.pid):  # whoever of the two is left answers
        os.kill(stopped, signal.SIGSTOP)
        try:
            with socket.create_connection(("127.0.0.1", two.port), timeout=1.0):
                pass
            answers = [answer_within(two, 3.0) for _ in range(4)]
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert 200 in answers


def answer_within(found: Service, seconds: float) -> int | None:
    """The status; None where the connection was taken by a worker that does not answer."""
    connection = HTTPConnection("127.0.0.1", found.port, timeout=seconds)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status
    except TimeoutError:
        return None
    finally:
        connection.close()


def test_a_worker_that_dies_is_started_again_while_the_other_answers(two):
    for _ in range(2):
        workers = children(two.process.pid)
        os.kill(workers[0], signal.SIGKILL)
        wait_for(lambda gone=workers[0]: not is_alive(gone))
        for _ in range(20):
            assert two.post("/api/v1/predict", QUESTION)[0] == 200
            assert two.ask("GET", "/ready")[0] == 200
        wait_for(lambda old=workers: len(set(children(two.process.pid)) - set(old)) == 1)
        wait_for(lambda: metric(two, "tuckerkg_workers") == 2)


def test_a_new_version_and_jobs_are_seen_by_both(two):
    place = folder_of(two)
    tuckerkg.load(place).add([("e000", "plus1", "e009")])

    def versions() -> set[int]:
        return {json.loads(two.ask("GET", "/api/v1/run")[1])["run"]["version"] for _ in range(12)}

    wait_for(lambda: all(versions() == {2} for _ in range(4)))  # each worker may be the one that answers
    status, said = two.post("/api/v1/jobs", {"kind": "missing"})
    assert status == 202
    number = said["job"]["id"]
    seen = [two.ask("GET", f"/api/v1/jobs/{number}")[0] for _ in range(12)]
    assert set(seen) == {200}


def folder_of(found: Service) -> Path:
    """The run folder that a service was started with."""
    words = Path(f"/proc/{found.process.pid}/cmdline").read_bytes().split(b"\0")
    return Path(words[words.index(b"serve") + 1].decode())


def test_they_share_one_mapped_table(two):
    for worker in children(two.process.pid):
        assert "/tables/step-" in Path(f"/proc/{worker}/maps").read_text()


def test_f24_sigterm_ends_all_and_loses_no_request(served_run):
    body = json.dumps(QUESTION).encode()
    with running(served_run.path, "--workers", "2") as found:
        wait_for(lambda: metric(found, "tuckerkg_workers") == 2)
        workers = children(found.process.pid)
        lost, told, done = [], [], []

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
        assert found.process.wait(30) == 0
        assert lost == []
        assert len(told) == 8
        assert set(done) == {200}
        assert not any(is_alive(worker) for worker in workers)


def test_f24_not_ready_until_the_first_is(served_run):
    with running(served_run.path, "--workers", "2", wait=False) as found:
        statuses = []
        end = time.monotonic() + 60
        while time.monotonic() < end and 200 not in statuses:
            try:
                statuses.append(found.ask("GET", "/ready")[0])
            except OSError:
                time.sleep(0.02)
        assert set(statuses) <= {200, 503}
        for _ in range(30):  # the second one does not say 503 while it loads
            assert found.ask("GET", "/ready")[0] == 200
            time.sleep(0.05)


def test_workers_end_with_the_process_that_started_them(served_run):
    with running(served_run.path, "--workers", "2") as found:
        wait_for(lambda: len(children(found.process.pid)) == 2)
        workers = children(found.process.pid)
        found.process.kill()
        found.process.wait(10)
        wait_for(lambda: not any(map(is_alive, workers)), 30.0)


def test_a_run_that_cannot_be_loaded_ends_all_with_the_reason_once(tmp_path):
    with running(tmp_path / "nowhere", "--workers", "3", wait=False) as found:
        assert found.process.wait(60) == 1
        said = found.process.stderr.read().decode()
        assert said.count("there is no such folder") == 1
        assert "Traceback" not in said
        assert "started again" not in said

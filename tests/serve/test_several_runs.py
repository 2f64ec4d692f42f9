"""Several runs in one service: asked by name, switched under load, made of a graph that was sent."""

from __future__ import annotations

import json
import shutil
import threading
import time
from http.client import HTTPConnection

import pytest
from services import running

import tuckerkg
from tuckerkg.errors import TuckerkgError
from tuckerkg.serve.client import Client, ServiceError
from tuckerkg.serve.sources import named_sources

FACT = ("e000", "plus1", "e009")


@pytest.fixture(scope="module")
def places(served_run, toy_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    shutil.copytree(served_run.path, folder / "first")
    shutil.copytree(toy_run.path, folder / "second")
    return folder / "first", folder / "second"


@pytest.fixture(scope="module")
def service(places):
    first, second = places
    with running(first, str(second), "--allow-training", "--limit", "train_minutes=0.05") as found:
        client = Client(found.address)
        end = time.monotonic() + 60
        while client.runs()["runs"][1]["state"] != "ready":
            assert time.monotonic() < end
            time.sleep(0.05)
        yield found


def test_each_run_answers_under_its_name(service, toy_run):
    first, second = Client(service.address), Client(service.address, run="second")
    assert [(run["name"], run["default"]) for run in first.runs()["runs"]] == [("first", True), ("second", False)]
    assert (first.about()["run"]["name"], second.about()["run"]["name"]) == ("first", "second")
    expected = toy_run.predict(head="e003", relation="plus2", k=4)
    found = second.predict(head="e003", relation="plus2", k=4)
    assert [row["probability"] for row in found] == pytest.approx([fact.probability for fact in expected], rel=1e-3)
    assert found != first.predict(head="e003", relation="plus2", k=4)
    with pytest.raises(ServiceError) as refused:
        Client(service.address, run="secnd").about()
    assert (refused.value.status, refused.value.code) == (404, "unknown-run")
    assert refused.value.problem["near"][0]["label"] == "second"


def test_a_switch_under_load_loses_no_request_and_mixes_none(service, places):
    tuckerkg.load(places[0]).add([FACT])
    head, relation, tail = FACT
    body = json.dumps({"head": head, "relation": relation, "k": 100, "known": True, "typed": False})
    versions, wrong, stop = set(), [], threading.Event()

    def hammer():
        connection = HTTPConnection("127.0.0.1", service.port, timeout=30)
        try:
            while not stop.is_set():
                connection.request("POST", "/api/v1/predict", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                said = json.loads(answer.read())
                version = said["run"]["version"]
                (known,) = (row["known"] for row in said["answers"] if row["tail_label"] == tail)
                versions.add(version)
                if answer.status != 200 or known != (version == 2):
                    wrong.append(said)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 60
    while 2 not in versions:  # it is noticed in the folder
        assert time.monotonic() < end
        time.sleep(0.05)
    for version in (1, 2, 1):
        status, said = service.post(f"/api/v1/runs/first/switch?version={version}", {})
        assert (status, said["run"]["version"]) == (200, version)
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert versions == {1, 2}
    time.sleep(2.5)  # nobody goes on to the newest one by himself
    assert Client(service.address).about()["run"]["version"] == 1
    assert service.post("/api/v1/runs/first/switch?version=9", {})[0] == 409


def test_a_graph_that_is_sent_becomes_a_run(service):
    client = Client(service.address)
    rows = "".join(f"a{i % 40}\tnext\ta{(i * 7 + i // 40) % 40}\n" for i in range(240))
    kind = {"Content_Type": "application/octet-stream"}
    status, text, _ = service.ask("POST", "/api/v1/uploads?name=my.tsv", rows.encode(), **kind)
    said = json.loads(text)
    assert status == 200, said
    assert said["report"]["counts"]["entities"] == 40
    assert said["estimate_minutes"] > 0
    job = client.start("train", upload=said["upload"], name="mine", minutes=0.05)
    with pytest.raises(ServiceError, match="there is a run called 'first'"):
        client.start("train", upload=said["upload"], name="first")
    end = time.monotonic() + 180
    while (job := client.job(job["id"]))["state"] in ("waiting", "working"):
        assert time.monotonic() < end
        time.sleep(0.2)
    assert (job["state"], job["problem"]) == ("done", None)
    assert job["curve"]
    assert Client(service.address, run="mine").predict(head="a1", relation="next", k=2)


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("my.tsv", b"", 422),
        ("my.tsv", b"one column\n", 422),
        ("../my.tsv", b"a\tb\tc\n", 422),
        ("my.exe", b"a\tb\tc\n", 422),
    ],
)
def test_what_is_no_graph_is_refused_in_words(service, name, body, status):
    from urllib.parse import quote

    kind = {"Content_Type": "application/octet-stream"}
    found, text, _ = service.ask("POST", f"/api/v1/uploads?name={quote(name, safe='')}", body, **kind)
    said = json.loads(text)
    assert found == status
    assert said["detail"]
    assert "/tmp" not in said["detail"]


def test_a_job_is_cancelled_and_one_that_cannot_be_done_is_refused(service):
    client = Client(service.address, run="second")
    job = client.start("report")
    assert client.cancel(job["id"])["id"] == job["id"]
    end = time.monotonic() + 60
    while (state := client.job(job["id"])["state"]) not in ("cancelled", "done"):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert state == "cancelled"
    for asked, status in (
        (lambda: client.cancel(job["id"]), 409),
        (lambda: client.job("0" * 16), 404),
        (lambda: client.start("add"), 409),
        (lambda: client.start("train", upload="0" * 16, name="x"), 404),
        (lambda: client.start("dance"), 422),
    ):
        with pytest.raises(ServiceError) as refused:
            asked()
        assert refused.value.status == status


def test_two_runs_of_one_name_are_refused(tmp_path):
    with pytest.raises(TuckerkgError, match="another run is called 'run' too"):
        named_sources([tmp_path / "a" / "run", tmp_path / "b" / "run"], lambda path, version: None)

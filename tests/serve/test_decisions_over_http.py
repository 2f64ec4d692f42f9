"""Decisions over HTTP: made, taken back, exported, seen by all; accepted ones added, the new version served."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from services import running

from tuckerkg.review.decisions import Decision, Decisions
from tuckerkg.serve.client import Client, ServiceError


@pytest.fixture(scope="module")
def place(served_run, tmp_path_factory):
    found = tmp_path_factory.mktemp("decided") / "run"
    shutil.copytree(served_run.path, found)
    return found


@pytest.fixture(scope="module")
def service(place):
    with running(place) as found:
        yield found


@pytest.fixture(scope="module")
def client(service):
    return Client(service.address)


def fact(head: int, relation: int, tail: int) -> tuple[str, str, str]:
    return f"e{head:03}", f"plus{relation}", f"e{tail:03}"


def test_a_decision_is_kept_with_who_when_and_what_was_said(client, service, place):
    said = client.decide([fact(0, 1, 9), fact(0, 2, 9)], "accept", by="ann", note="I know")
    assert (said["counts"], said["revision"]) == ({"accept": 2, "reject": 0, "defer": 0}, 2)
    (first, _) = said["decisions"]
    assert (first["by"], first["note"], first["line"], first["version"]) == ("ann", "I know", 1, 1)
    assert first["probability"] == pytest.approx(client.score([fact(0, 1, 9)])[0]["probability"], rel=1e-3)
    (row,) = (row for row in client.predict("e000", "plus1", k=30, typed=False) if row["tail_label"] == "e009")
    assert row["decision"] == "accept"
    client.decide([fact(0, 2, 9)], "reject", by="bob")
    assert client.decisions(choice="reject")["total"] == 1
    assert [each["tail_label"] for each in client.undo(1, by="bob")["decisions"]] == ["e009"]
    assert client.decisions()["counts"] == {"accept": 2, "reject": 0, "defer": 0}
    _, text, headers = service.ask("GET", "/api/v1/decisions/export?choice=accept")
    assert text.decode() == "e000\tplus1\te009\ne000\tplus2\te009\n"
    assert headers["content-disposition"] == 'attachment; filename="run-accept.tsv"'
    assert service.ask("GET", "/api/v1/decisions/export?format=nt")[1].count(b" .\n") == 2


def test_what_another_process_decides_is_seen(client, place):
    before = client.decisions()["revision"]
    Decisions(place).add([Decision.now(fact(5, 1, 9), "defer", "the command line")])
    found = client.decisions(choice="defer")
    assert found["revision"] == before + 1
    assert [each["by"] for each in found["decisions"]] == ["the command line"]


def test_several_at_once_lose_none(client, place):
    before = client.decisions()["revision"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: client.decide([fact(number % 20, 3, 1)], "defer", by=f"p{number}"), range(24)))
    assert client.decisions()["revision"] == before + 24
    assert len(Decisions(place).history()) == before + 24


def test_all_or_none_and_somebody_decides(client, service):
    before = client.decisions()["revision"]
    with pytest.raises(ServiceError) as refused:
        client.decide([fact(0, 1, 9), ("e000", "plus1", "nobody")], "accept", by="ann")
    assert (refused.value.status, refused.value.code) == (404, "unknown-name")
    for body in ({"decisions": []}, {"decisions": [{}]}, {"count": 1}):
        assert service.post("/api/v1/decisions", body)[0] == 422
    head, relation, tail = fact(0, 1, 9)
    unnamed = {"decisions": [{"head": head, "relation": relation, "tail": tail, "choice": "accept"}]}
    status, said = service.post("/api/v1/decisions", unnamed)
    assert (status, said["errors"][0]["pointer"]) == (422, "/by")
    assert client.decisions()["revision"] == before


def test_accepted_facts_become_a_version_that_is_served_without_a_restart(client, service):
    status, said = service.post("/api/v1/decisions/add", {})
    assert status == 202
    end = time.monotonic() + 120
    while (job := client.job(said["job"]["id"]))["state"] in ("waiting", "working"):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert (job["state"], job["problem"]) == ("done", None)
    assert job["result"]["run"]["version"] == client.about()["run"]["version"] == 2
    held = {(each["head_label"], each["relation_label"], each["tail_label"]) for each in client.facts("e000")["facts"]}
    assert {fact(0, 1, 9), fact(0, 2, 9)} <= held
    _, text, _ = service.ask("GET", "/api/v1/changes?from=1")
    assert json.loads(text)["added_total"] == 2
    assert service.process.poll() is None
    _, events, headers = service.ask("GET", f"/api/v1/jobs/{job['id']}/events")
    assert headers["content-type"].startswith("text/event-stream")
    assert events.endswith(b"\n\n")
    assert b'event: end\ndata: {"event": "end", "state": "done"' in events

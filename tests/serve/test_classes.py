"""A run of classes over HTTP, behind the service's guard."""

from __future__ import annotations

import pytest
from people import write_people
from starlette.testclient import TestClient

from tuckerkg.config.settings import parse_settings
from tuckerkg.config.toml import put_all
from tuckerkg.serve.access import Access
from tuckerkg.serve.routes.classes import class_app
from tuckerkg.tasks.choosing import base_settings
from tuckerkg.tasks.classify import LabelOptions, read_task_files, train_task
from tuckerkg.training.callbacks import NullCallback

SMALL = {"model.dim": 4, "model.relation_dim": 4, "encoder.bases": 2, "train.epochs": 5.0, "classify.members": 2}
TOKEN = "a token of sixteen or more"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    graph, labels = write_people(folder)
    read = read_task_files(str(graph), LabelOptions(labels=labels, target="group"))
    settings = parse_settings(put_all(base_settings("nodes", "people"), SMALL))
    return train_task(read, settings, folder / "run", NullCallback())


@pytest.fixture(scope="module")
def client(run):
    return TestClient(class_app(run, Access(None, None)), base_url="http://localhost")


def test_it_says_what_it_is_and_finds_names(client):
    about = client.get("/api/v1/run").json()
    assert (about["kind"], about["classes"], about["items"]) == ("nodes", ["blue", "red"], 51)
    assert about["test"]["count"] == 8
    assert client.get("/api/v1/items", params={"q": "P0", "limit": 2}).json() == {"items": ["p00", "p01"], "total": 10}


def test_classes_and_reasons_are_those_of_the_run(run, client):
    found = client.post("/api/v1/classify", json={"items": ["p00", "p07"]}).json()["classes"]
    assert found == [each.as_dict() for each in run.predict(["p00", "p07"])]
    why = client.post("/api/v1/explain", json={"item": "p07", "k": 2}).json()
    assert (why["item"], len(why["facts"])) == ("p07", 2)


def test_bad_requests_are_problems(client):
    unknown = client.post("/api/v1/classify", json={"items": ["nobody"]})
    assert (unknown.status_code, unknown.headers["content-type"]) == (404, "application/problem+json")
    assert client.post("/api/v1/classify", json={"items": []}).status_code == 422
    assert client.post("/api/v1/explain", json={"item": "p00", "more": 1}).status_code == 422
    assert client.post("/api/v1/classify", content="{").status_code == 415
    assert client.get("/api/v1/run", headers={"host": "elsewhere"}).status_code == 403


def test_a_token_is_asked_for(run):
    closed = TestClient(class_app(run, Access(TOKEN, None)), base_url="http://localhost")
    assert closed.get("/api/v1/run").status_code == 401
    assert closed.get("/api/v1/run", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200

"""The HTTP service: its answers."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from services import HOSTILE

from tuckerkg.serve.schemas.links import Answers, AnswersOfBatch


def test_predictions_are_those_of_the_run(served_run, client):
    for question in (
        {"head": "e003", "relation": "plus2", "k": 5},
        {"relation": "plus1", "tail": "e004", "k": 3},
        {"head": "e001", "tail": "e002", "k": 3},
        {"head": "e001", "k": 4},
    ):
        expected = served_run.predict(**question)
        found = client.predict(**question)
        assert [fact["tail_label"] for fact in found] == [fact.tail_label for fact in expected]
        # Fitted in another process, perhaps with another number of threads.
        chances = [fact.probability for fact in expected]
        assert [fact["probability"] for fact in found] == pytest.approx(chances, rel=1e-3)
    known = client.predict(head="e003", relation="plus2", k=20, known=True, typed=False)
    assert [fact["tail_label"] for fact in known if fact["known"]] == ["e005"]


def test_answers_have_the_form_that_the_document_says(client, service):
    asked = {"head": "e003", "relation": "plus2"}
    Answers.model_validate(service.post("/api/v1/predict", asked)[1], extra="forbid")
    several = {"questions": [asked, {"head": "nobody", "relation": "plus2"}]}
    AnswersOfBatch.model_validate(service.post("/api/v1/predict/batch", several)[1], extra="forbid")
    document = json.loads(service.ask("GET", "/api/v1/openapi.json")[1])
    assert {"/api/v1/predict", "/api/v1/explain", "/api/v1/entities", "/ready"} <= set(document["paths"])


def test_a_batch_is_answered_in_order(served_run, client):
    questions = [{"head": f"e{i:03}", "relation": "plus1", "k": 2} for i in range(20)]
    found = client.predict_batch(questions)
    for question, answers in zip(questions, found, strict=True):
        assert [fact["tail_label"] for fact in answers] == [fact.tail_label for fact in served_run.predict(**question)]


def test_questions_at_the_same_time_each_get_their_own_answer(served_run, client):
    def ask(place):
        return client.predict(head=f"e{place % 20:03}", relation="plus2", k=3)

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(100)))
    for place, answers in enumerate(found):
        expected = served_run.predict(head=f"e{place % 20:03}", relation="plus2", k=3)
        assert [fact["tail_label"] for fact in answers] == [fact.tail_label for fact in expected]


def test_the_graph_can_be_looked_at(served_run, client):
    assert [entity["label"] for entity in client.search("seven")] == ["e008"]
    assert len(client.search("e0", limit=5)) == 5
    facts = client.facts("e003")
    everything = [tuple(row) for name in ("train", "valid", "test") for row in served_run.split(name).tolist()]
    assert facts["total"] == len([row for row in everything if 3 in (row[0], row[2])]) == len(facts["facts"])
    assert sum(relation["facts"] for relation in client.relations()) == len(everything)
    assert {(each["relation"], each["place"]) for each in client.suggestions("e003")} == {
        (f"plus{r}", place) for r in (1, 2, 3) for place in ("head", "tail")
    }
    about = client.about()
    assert about["counts"] == {"entities": 20, "relations": 3, "facts": 60, "train": 50, "valid": 5, "test": 5}
    assert len(about["curve"]) == len(served_run.metrics)
    assert set(about["calibration"]) == {"ece", "brier", "log_loss", "bins"}
    assert all(set(each) == {"confidence", "accuracy", "count"} for each in about["calibration"]["bins"])


@pytest.mark.parametrize(("hops", "limit"), [(1, 5), (1, 1_000), (2, 12), (3, 1_000)])
def test_a_neighbourhood_holds_facts_of_every_relation_in_turn_and_what_they_join(served_run, client, hops, limit):
    found = client.neighbourhood("e003", hops=hops, limit=limit)
    triples = {(fact["head_label"], fact["relation_label"], fact["tail_label"]) for fact in found["facts"]}
    assert len(triples) == len(found["facts"]) <= limit
    names = served_run.entities.labels, served_run.relations.labels, served_run.entities.labels
    rows = [row for split in ("train", "valid", "test") for row in served_run.split(split).tolist()]
    every = {tuple(labels[number] for labels, number in zip(names, row, strict=True)) for row in rows}
    assert triples <= every
    distances = {each["label"]: each["distance"] for each in found["entities"]}
    assert set(distances) == {end for head, _, tail in triples for end in (head, tail)} | {"e003"}
    assert max(distances.values()) <= hops
    for head, _, tail in triples:
        assert abs(distances[head] - distances[tail]) <= 1
    own = {triple for triple in every if "e003" in (triple[0], triple[2])}
    assert found["total"] >= len(own)
    if hops == 1:
        assert triples <= own
        assert len({relation for _, relation, _ in triples}) == min(limit, len({relation for _, relation, _ in own}))
    if limit == 1_000:
        assert own <= triples


def test_an_explanation_is_that_of_the_run(served_run, client):
    found = client.explain("e000", "plus1", "e001", k=2)
    expected = json.loads(json.dumps(served_run.explain("e000", "plus1", "e001", 2).as_dict()))
    for ours, theirs in zip(found["paths"], expected["paths"], strict=True):
        steps = [[step["from"], step["relation"], step["to"], step["forwards"]] for step in ours["steps"]]
        assert steps == theirs["steps"]
        assert (ours["confidence"], ours["walks"]) == (theirs["confidence"], theirs["walks"])
    assert found["standing"] == pytest.approx(expected["standing"], rel=1e-4)
    assert found["probability"] == pytest.approx(expected["probability"], rel=1e-3)
    for ours, theirs in zip(found["edges"], expected["edges"], strict=True):
        assert [ours[key] for key in ("head", "relation", "tail")] == [
            theirs[key] for key in ("head", "relation", "tail")
        ]
        assert ours["standing"] == pytest.approx(theirs["standing"], rel=1e-4)


def test_the_best_missing_facts_come_when_they_are_found(served_run, client):
    end = time.monotonic() + 30
    while (found := client.missing(3, at_least=0.0))["state"] == "working":
        assert time.monotonic() < end
        time.sleep(0.05)
    expected = served_run.top_missing(3)
    assert [fact["tail_label"] for fact in found["answers"]] == [fact.tail_label for fact in expected]


def test_metrics_count_questions_and_name_routes_only(service, client):
    client.predict(head="e000", relation="plus1")
    status, text, headers = service.ask("GET", "/metrics")
    assert status == 200
    assert b'route="/api/v1/predict"' in text
    assert b"tuckerkg_questions_total" in text
    assert b"e000" not in text
    assert headers["content-type"].startswith("text/plain")


def test_s8_b69_hostile_labels_go_out_as_json_text(client, service):
    assert client.facts("e007")["entity"]["title"] == HOSTILE  # B69
    _, _, headers = service.ask("GET", "/api/v1/facts?entity=e007")
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/static/app.js", "text/javascript; charset=utf-8"),
        ("/static/styles/base.css", "text/css; charset=utf-8"),
        ("/static/icon.svg", "image/svg+xml"),
    ],
)
def test_the_files_of_the_page_go_out_with_their_kind_and_every_header(service, path, kind):
    status, text, headers = service.ask("GET", path)
    assert (status, headers["content-type"]) == (200, kind)
    assert len(text) == int(headers["content-length"]) > 0
    assert headers["cache-control"] == ("no-store" if path == "/" else "no-cache")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'self'")


def test_facts_are_weighed(served_run, client):
    head, relation, tail = (
        kind.labels[number]
        for kind, number in zip(
            (served_run.entities, served_run.relations, served_run.entities), served_run.split("test")[0], strict=True
        )
    )
    (found,) = client.score([(head, relation, tail)])
    (expected,) = served_run.score([(head, relation, tail)])
    assert found["probability"] == pytest.approx(expected.probability, rel=1e-3)
    assert found["verdict"] == expected.verdict

"""Graphs of which nothing can be held out: trained without validation, asked, explained, served, in words."""

from __future__ import annotations

import json
import logging
import time

import pytest
from typer.testing import CliRunner

import tuckerkg
from tuckerkg.cli.app import app
from tuckerkg.errors import RunFolderError
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.engine.listing import Filters
from tuckerkg.serve.schemas import asked as schemas

GRAPHS = {
    "every head once": [(f"a{number}", "r", f"b{number}") for number in range(60)],
    "one tail": [(f"a{number}", "in", "place") for number in range(60)],
    "a chain": [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")],
    "one fact": [("a", "r", "b")],
}


def shown(*words: object) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, f"{found.output}\n{found.exception!r}"
    return found.output


@pytest.fixture(scope="module", params=GRAPHS)
def trained(request, tmp_path_factory):
    """A run folder, its facts, and what training said."""
    facts, place = GRAPHS[request.param], tmp_path_factory.mktemp("nothing")
    (place / "facts.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    small = ["--set", "paths.width=8", "--set", "train.threads=1"]
    words = ["train", place / "facts.tsv", "--set", "kind=paths", "--set", "train.steps=20", *small]
    return place / "run", facts, shown(*words, "--out", place / "run")


def test_training_says_that_nothing_tells_how_good_it_is(trained):
    path, facts, said = trained
    words = "no validation triples: the last weights are taken, nothing tells how good they are"
    assert f"{words}, probabilities are not fitted" in said
    assert "MRR" not in said
    run = tuckerkg.load(path)
    assert (run.step, run.state["best_mrr"], len(run.split("train"))) == (20, None, len(facts))
    with pytest.raises(RunFolderError, match="the test split of this run is empty, there is nothing to rank"):
        run.evaluate("test")


def test_it_is_asked_with_plain_sigmoids_and_a_warning(trained, caplog):
    path, facts, _ = trained
    head, relation, tail = facts[0]
    caplog.set_level(logging.WARNING)
    found = json.loads(
        shown("predict", path, "--head", head, "--relation", relation, "-k", 60, "--known", "--format", "json")
    )
    assert tail in [fact["tail"] for fact in found]
    assert "no validation triples to fit probabilities on" in caplog.text
    assert all(0.0 < fact["probability"] < 1.0 for fact in found)
    why = json.loads(shown("explain", path, head, relation, tail, "--json"))
    assert why["known"]
    untyped = shown("predict", path, "--top-missing", 3, "--untyped", "--format", "tsv")
    assert len(untyped.strip().splitlines()) >= 2


def test_it_is_served_and_reported(trained, tmp_path):
    path, facts, _ = trained
    engine = Engine(tuckerkg.load(path))
    try:
        about = engine.page.about
        assert (about.calibration, about.test, about.curve) == (None, None, [])
        assert about.model["probabilities"].startswith("plain sigmoids of the score")
        head, relation, tail = facts[0]
        (answers,) = engine.answer([schemas.Asked(head=head, relation=relation, known=True, k=60)])
        assert tail in [fact["tail"] for fact in answers]
        assert engine.explaining.explain(schemas.AskedWhy(head=head, relation=relation, tail=tail)).known
        end = time.monotonic() + 60
        while engine.listing.missing(5, 0, Filters()).state == "working":
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        engine.close()
    shown("report", path, "--out", tmp_path / "card.md")
    assert "nothing tells how good it is" in (tmp_path / "card.md").read_text()


def test_where_no_question_is_open_this_is_said(trained):
    path = trained[0]
    said = CliRunner().invoke(app, ["predict", str(path), "--top-missing", "3"])
    assert said.exit_code == 0
    is_open = len(tuckerkg.load(path).predictor.missing_questions()) > 0
    assert ("--untyped takes any" in said.output) != is_open

"""What people decided reaches the next training: accepted facts are trained on, no fact is asked about again."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import toy_dataset
from typer.testing import CliRunner

from tuckerkg import api, load
from tuckerkg.cli.app import app
from tuckerkg.errors import TuckerkgError
from tuckerkg.review.carrying import with_decisions
from tuckerkg.review.decisions import Decision, Decisions
from tuckerkg.training.callbacks import NullCallback

NEW, WRONG = ("e000", "plus1", "e009"), ("e001", "plus1", "e009")
SHORT = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 1.0, "train.threads": 1}


@pytest.fixture
def run(tmp_path):
    """A run that is not trained, which needs no more to be decided about."""
    settings = api.load_settings(None, SHORT)
    return api.prepare(toy_dataset(), settings, tmp_path / "before").path


def decide(run, *decided):
    Decisions(run).add([Decision.now(fact, choice, "ada") for fact, choice in decided])


def labels(dataset, triples):
    entities, relations = dataset.entities, dataset.relations
    return {(entities[head], relations[relation], entities[tail]) for head, relation, tail in triples.tolist()}


def test_accepted_facts_join_training_and_nothing_else_changes(run):
    data = toy_dataset()
    held_out = next(iter(labels(data, data.test)))
    strange = ("e000", "plus1", "nobody")
    decide(run, (NEW, "accept"), (WRONG, "reject"), (held_out, "accept"), (strange, "accept"))
    carried = with_decisions(data, run)
    assert labels(data, carried.dataset.train) == labels(data, data.train) | {NEW}
    for split in ("valid", "test"):
        assert np.array_equal(carried.dataset.split(split), data.split(split))
    said = carried.dataset.report.warnings[0]
    assert said == (
        "1 accepted fact joined training; 1 stood in the graph already, 1 left out, with names that it does not have"
    )
    assert [each.fact for each in carried.decisions] == [NEW, WRONG, held_out, strange]


def test_a_rejected_fact_that_the_graph_says_is_refused(run):
    data = toy_dataset()
    fact = min(labels(data, data.train))
    decide(run, (fact, "reject"))
    with pytest.raises(TuckerkgError, match=f"1 fact of .* said to be wrong by a decision, such as {' '.join(fact)}"):
        with_decisions(data, run)


def test_without_decisions_there_is_nothing_to_carry(run):
    with pytest.raises(TuckerkgError, match="nothing was decided about its facts"):
        with_decisions(toy_dataset(), run)


def test_a_training_keeps_the_decisions_beside_its_run(run, tmp_path):
    decide(run, (NEW, "accept"), (WRONG, "reject"))
    after = api.train(toy_dataset(), overrides=SHORT, decisions=run, out=tmp_path / "after", callback=NullCallback())
    assert Decisions(after.path).history() == Decisions(run).history()
    assert tuple(after.entities.id_of(name) for name in NEW[::2]) in set(
        map(tuple, after.split("train")[:, ::2].tolist())
    )


def test_the_command_line_carries_decisions(run, tmp_path):
    decide(run, (("France", "borders", "Peru"), "reject"), (("France", "borders", "Chile"), "accept"))
    words = ["train", "countries", "--decisions", str(run), "--out", str(tmp_path / "after"), "--encoder", "none"]
    shown = CliRunner().invoke(app, [*words, "--set", "train.epochs=0.2", "--set", "train.threads=1"])
    assert shown.exit_code == 0, shown.output
    assert "1 accepted fact joined training" in shown.output
    kept = Decisions(load(tmp_path / "after").path).current()
    assert [each.choice for each in kept] == ["reject", "accept"]

"""A look before training: relations by hand, leaks that were planted, the baseline against brute force."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from graphs import brute_force_ranks, toy_dataset
from typer.testing import CliRunner

from tuckerkg.cli.app import app
from tuckerkg.config.toml import load_settings
from tuckerkg.data.labels import Vocabulary
from tuckerkg.reports.inspection import inspect_dataset

NAMES = ("borders", "in", "contains", "lies_in")
TRAIN = np.array(
    [
        *[(0, 0, 1), (1, 0, 0), (1, 0, 2), (2, 0, 1)],  # borders: symmetric
        *[(0, 1, 5), (1, 1, 5), (2, 1, 5), (3, 1, 6)],  # in: N-1
        *[(5, 2, 0), (5, 2, 1), (5, 2, 2)],  # contains: the inverse of in, for three of its four
        *[(0, 3, 5), (1, 3, 5)],  # lies_in: the same as in
    ]
)
TEST = np.array([(0, 0, 2), (6, 2, 3), (3, 3, 6), (4, 1, 5)])


def planted():
    data = toy_dataset(7)
    return replace(
        data, relations=Vocabulary.of(NAMES), train=_by_name(TRAIN), valid=_by_name(TEST[:1]), test=_by_name(TEST)
    )


def _by_name(triples):
    """Relation ids in the order of sorted names."""
    order = np.argsort(np.argsort(NAMES))
    return np.column_stack([triples[:, 0], order[triples[:, 1]], triples[:, 2]])


def test_relations_are_counted_and_described():
    found = {each.name: each for each in inspect_dataset(planted()).relations}
    borders, inside = found["borders"], found["in"]
    assert (borders.triples, borders.heads, borders.tails, borders.symmetric) == (4, 3, 3, 1.0)
    assert (inside.triples, inside.heads, inside.tails, inside.kind) == (4, 4, 2, "N-1")
    assert inside.cartesian == pytest.approx(4 / 8)
    assert inside.symmetric == 0.0
    assert found["contains"].kind == "1-N"


def test_inverse_and_duplicate_relations_are_named():
    found = inspect_dataset(planted())
    assert ("contains", "in", 1.0) in [(pair.first, pair.second, pair.share) for pair in found.inverse]
    assert [(pair.first, pair.second, pair.share) for pair in found.duplicate] == [("lies_in", "in", 1.0)]


def test_leaks_are_the_share_of_test_triples_that_training_holds_in_other_words():
    leaks = inspect_dataset(planted()).leaks
    assert leaks["inverse relation"] == pytest.approx(1 / 4)  # (6, contains, 3) from (3, in, 6)
    assert leaks["duplicate relation"] == pytest.approx(1 / 4)  # (3, lies_in, 6)
    assert leaks["mirrored"] == 0.0
    assert leaks["same pair, any relation"] == pytest.approx(1 / 4)


def test_the_baseline_equals_counting_by_hand():
    data = planted()
    counts = {}
    for head, relation, tail in data.train.tolist():
        counts[relation, tail] = counts.get((relation, tail), 0) + 1
        counts[relation + 4, head] = counts.get((relation + 4, head), 0) + 1
    known = {tuple(fact) for split in ("train", "valid", "test") for fact in data.split(split).tolist()}
    ranks = brute_force_ranks(
        lambda _, relation: [counts.get((relation, entity), 0) for entity in range(7)], data.test, known, 7, 4
    )
    low, high = (1 / ranks[:, 1]).mean(), (1 / ranks[:, 0]).mean()
    assert low <= inspect_dataset(data).baseline_mrr <= high


def test_settings_give_a_time():
    small = {"model.dim": 4, "model.relation_dim": 4, "train.epochs": 10.0}
    found = inspect_dataset(planted(), load_settings(None, small))
    assert found.seconds_per_epoch > 0
    assert found.minutes == pytest.approx(found.seconds_per_epoch * 10 / 60)
    assert inspect_dataset(planted()).minutes is None


def test_a_graph_without_a_test_split_is_examined_too():
    found = inspect_dataset(replace(planted(), test=TEST[:0]))
    assert (found.baseline_mrr, found.leaks) == (None, {})


def test_the_command_prints_words_or_json(tmp_path):
    (tmp_path / "g.tsv").write_text(
        "".join(f"e{h}\t{NAMES[r]}\te{t}\n" for h, r, t in TRAIN.tolist()), encoding="utf-8"
    )
    small = ["--set", "model.dim=4", "--set", "model.relation_dim=4"]
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path / "g.tsv"), *small])
    assert shown.exit_code == 0, shown.output
    assert "guessing each relation's most frequent answers" in shown.output
    assert "training here" in shown.output
    told = json.loads(CliRunner().invoke(app, ["inspect", str(tmp_path / "g.tsv"), *small, "--json"]).stdout)
    assert told["counts"]["relations"] == 4

"""What to do about leaks: dropped, split by pairs of entities, relations joined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import random_triples, toy_dataset
from typer.testing import CliRunner

from tuckerkg.cli.app import app
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.leaks.held_out import drop_leaks, given_away, split_by_pairs
from tuckerkg.reports.inspection import inspect_dataset


def with_inverse() -> Dataset:
    """A ring of plus1 and its inverse minus1, three quarters in training; and a relation of its own."""
    ring = [(i, 1, (i + 1) % 20) for i in range(20)] + [((i + 1) % 20, 0, i) for i in range(20)]
    own = [(i, 2, (i + 5) % 20) for i in range(20)]
    held = [ring[0], ring[25], own[3]]
    train = [triple for triple in ring + own if triple not in held]
    return replace(
        toy_dataset(),
        relations=Vocabulary(("minus1", "plus1", "plus5")),
        train=np.array(train),
        valid=np.array(held[2:]),
        test=np.array(held[:2]),
    )


def test_what_training_gives_away_is_dropped_and_counted():
    data = with_inverse()
    assert given_away(data, data.test)["inverse relation"].tolist() == [True, True]
    found = drop_leaks(data)
    assert len(found.test) == 0
    assert np.array_equal(found.valid, data.valid)
    assert np.array_equal(found.train, data.train)
    assert "2 of 2 test triples were dropped" in found.report.warnings[0]
    assert found.report.counts["test"] == 0


def test_a_mirrored_triple_and_the_same_triple_are_leaks():
    data = replace(with_inverse(), test=np.array([[1, 2, 0], [0, 2, 5], [9, 2, 2]]))
    data = replace(data, train=np.concatenate([data.train, [[0, 2, 1]]]))
    marks = given_away(data, data.test)
    assert marks["mirrored"].tolist() == [True, False, False]
    assert marks["the same triple"].tolist() == [False, True, False]
    assert drop_leaks(data).test.tolist() == [[9, 2, 2]]


def test_a_split_by_pairs_keeps_them_whole_and_loses_nothing():
    triples = random_triples(0, 30, 4, 600)
    valid, test, train = np.split(triples[np.random.default_rng(1).permutation(len(triples))], [60, 120])
    data = replace(toy_dataset(30), relations=Vocabulary(("a", "b", "c", "d")), train=train, valid=valid, test=test)
    found = split_by_pairs(data)
    parts = [found.train, found.valid, found.test]
    assert {tuple(row) for row in np.concatenate(parts).tolist()} == {tuple(row) for row in triples.tolist()}
    assert sum(map(len, parts)) == len(triples)
    pairs = [{frozenset((h, t)) for h, _, t in part.tolist()} for part in parts]
    assert not pairs[0] & pairs[1]
    assert not pairs[0] & pairs[2]
    assert not pairs[1] & pairs[2]
    assert 40 <= len(found.valid) <= 60
    assert 40 <= len(found.test) <= 60
    assert len(np.unique(found.train[:, [0, 2]])) == 30
    assert inspect_dataset(found).leaks["mirrored"] == 0.0


@pytest.mark.parametrize("flag", ["--drop-leaks", "--split-by-pairs", "--join-inverses", "--join-duplicates"])
def test_the_flags_change_what_is_inspected_and_say_so(tmp_path, flag):
    data = with_inverse()
    for name in ("train", "valid", "test"):
        rows = [f"e{h:03}\t{data.relations[r]}\te{t:03}\n" for h, r, t in data.split(name).tolist()]
        (tmp_path / f"{name}.txt").write_text("".join(rows))
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path), flag])
    assert shown.exit_code == 0, shown.output
    said = {
        "--drop-leaks": "were dropped",
        "--split-by-pairs": "split again by pairs",
        "--join-inverses": "20 facts stood twice, under inverse relations",
        "--join-duplicates": "0 facts stood twice, under duplicate relations",
    }
    assert said[flag] in shown.stdout

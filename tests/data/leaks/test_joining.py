"""Facts that stand twice are kept once, and nothing is made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import data_folder, toy_dataset

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.leaks.joining import Pair, join_duplicates, join_inverses, partners
from tuckerkg.data.load import load
from tuckerkg.data.triple_sets import SPLITS

Fact = tuple[str, str, str]


def facts(data: Dataset) -> list[Fact]:
    rows = np.concatenate([data.split(name) for name in SPLITS]).tolist()
    return [(data.entities[h], data.relations[r], data.entities[t]) for h, r, t in rows]


def made(names: tuple[str, ...], train: list[tuple[int, int, int]], test: list[tuple[int, int, int]]) -> Dataset:
    empty = np.empty((0, 3), dtype=np.int64)
    held = np.array(test) if test else empty
    return replace(toy_dataset(), relations=Vocabulary(names), train=np.array(train), valid=empty, test=held)


def ring(relation: int, step: int, count: int = 20) -> list[tuple[int, int, int]]:
    return [(i, relation, (i + step) % 20) for i in range(count)]


def turned(triples: list[tuple[int, int, int]], relation: int) -> list[tuple[int, int, int]]:
    return [(t, relation, h) for h, _, t in triples]


@pytest.mark.parametrize("held_out", [0, 25])
def test_inverse_relations_become_one_and_a_pair_that_a_split_tore_apart_goes_to_training(held_out):
    both = [*ring(1, 1), *turned(ring(1, 1), 0)]
    data = made(("minus1", "plus1", "plus5"), [*both[:held_out], *both[held_out + 1 :], *ring(2, 5)], [both[held_out]])
    found = join_inverses(data)
    assert found.relations.labels == ("minus1", "plus5")
    assert {tuple(row) for row in found.train.tolist()} == {*turned(ring(1, 1), 0), *ring(1, 5)}
    assert len(found.test) == 0
    assert "20 facts stood twice" in found.report.warnings[0]
    assert "plus1 with minus1 (100% and 100% of their facts)" in found.report.warnings[0]


def test_what_holds_in_one_direction_only_is_left_apart_and_said():
    few, all_of_them = ring(0, 1, 4), turned(ring(0, 1), 1)
    data = made(("edits", "written_by"), [*few, *all_of_them], [])
    found = join_inverses(data)
    assert sorted(facts(found)) == sorted(facts(data))
    assert "0 facts stood twice, under inverse relations, and are kept once: none found" in found.report.warnings[0]
    assert "edits with written_by (100% and 20% of their facts)" in found.report.warnings[0]


def test_a_fact_that_stands_under_one_of_the_two_alone_stays_as_it_is():
    data = made(("writes", "written by"), [*ring(0, 1, 18), *turned(ring(0, 1), 1), (5, 0, 9)], [])
    found = join_inverses(data)
    assert found.relations.labels == ("writes", "written by")
    assert set(facts(found)) <= set(facts(data))
    assert len(facts(found)) == 21  # 18 once, two and one alone
    assert (data.entities[5], "writes", data.entities[9]) in facts(found)


def test_duplicates_are_kept_once():
    data = made(("a", "b"), [*ring(0, 3), *ring(1, 3, 19)], [])
    found = join_duplicates(data)
    assert found.relations.labels == ("a",)
    assert sorted(found.train.tolist()) == sorted([list(row) for row in ring(0, 3)])
    assert join_inverses(data).relations.labels == ("a", "b")


def test_each_relation_has_the_partner_that_fits_best():
    pairs = [Pair(0, 1, 0.85, 0.99), Pair(0, 2, 0.95, 0.96), Pair(3, 1, 0.81, 0.82), Pair(4, 5, 0.7, 1.0)]
    assert partners(pairs, 0.8) == [Pair(0, 2, 0.95, 0.96), Pair(3, 1, 0.81, 0.82)]


def test_a_graph_without_inverses_stays_as_it_is():
    data = toy_dataset()
    found = join_inverses(data)
    assert found.relations == data.relations
    assert all(np.array_equal(found.split(name), data.split(name)) for name in SPLITS)


def test_nothing_is_made_up_and_nothing_lost_on_aifb():
    """Joining containments once made editors of 3,974 authors."""
    data = load(str(data_folder() / "aifb" / "aifb_fixed_complete.n3"), allow_leaks=True)
    before, after = facts(data), facts(join_inverses(data))
    assert set(after) <= set(before)
    assert len(after) == len(set(after)) < len(before)
    pairs = {frozenset((head, tail)) for head, _, tail in after}
    assert {frozenset((head, tail)) for head, _, tail in before} == pairs
    editor = "http://swrc.ontoware.org/ontology#editor"
    assert sum(relation == editor for _, relation, _ in after) == sum(relation == editor for _, relation, _ in before)

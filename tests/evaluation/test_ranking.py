"""Ranks against brute force, tie rules, golden metrics, and the protocol's fingerprint."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graphs import brute_force_ranks, random_triples
from hypothesis import given, settings
from hypothesis import strategies as st

from tuckerkg.errors import NonFiniteError
from tuckerkg.evaluation.metrics import evaluation_of, summarize
from tuckerkg.evaluation.protocol import describe_protocol
from tuckerkg.evaluation.ranking import Ranks, rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.nn.contracts import Scorer

N, R = 9, 3


class Table(Scorer):
    """Scores from a table [N, 2R, N]."""

    def __init__(self, table: torch.Tensor) -> None:
        self.num_entities, self.num_relations, self.table = N, R, table

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        return self.table[heads, relation_ids].clone()


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), levels=st.integers(1, 6), chunk=st.sampled_from([1, 40, 10_000]))
def test_ranks_equal_brute_force_whatever_the_ties_and_chunks(seed, levels, chunk):
    triples = random_triples(seed, N, R, 40)
    train, test = triples[5:], triples[:5]
    table = torch.randint(levels, (N, 2 * R, N), generator=torch.Generator().manual_seed(seed)).float()
    ranks = rank(Table(table), test, KnownTails.from_splits([train, test], R), chunk_scores=chunk)
    known = {tuple(t) for t in triples.tolist()}
    expected = brute_force_ranks(lambda h, r: table[h, r].tolist(), test, known, N, R)
    assert np.array_equal(np.stack([ranks.best, ranks.worst, ranks.candidates], 1), expected)


def test_a_constant_scorer_gets_the_mean_rank():
    triples = random_triples(1, N, R, 20)
    ranks = rank(Table(torch.zeros(N, 2 * R, N)), triples, KnownTails.from_splits([triples], R))
    assert np.array_equal(ranks.mean(), (ranks.candidates + 1) / 2)
    assert (ranks.best == 1).all()
    assert np.array_equal(ranks.worst, ranks.candidates)
    drawn = ranks.random(0)
    assert ((drawn >= 1) & (drawn <= ranks.candidates)).all()


def test_random_ties_are_uniform_between_best_and_worst():
    many = 20_000
    ranks = Ranks(np.zeros((many // 2, 3), int), np.full(many, 3), np.full(many, 6), np.full(many, 9))
    counts = np.bincount(ranks.random(seed=5), minlength=8)
    assert counts[:3].sum() == counts[7:].sum() == 0
    assert np.abs(counts[3:7] / many - 0.25).max() < 0.02
    assert np.array_equal(ranks.random(5), ranks.random(5))
    assert not np.array_equal(ranks.random(5), ranks.random(6))


def test_permuting_entity_ids_leaves_the_metrics_unchanged():
    triples = random_triples(2, N, R, 40)
    table = torch.randint(3, (N, 2 * R, N)).float()
    permutation = torch.randperm(N)
    moved = triples.copy()
    moved[:, 0], moved[:, 2] = permutation[triples[:, 0]], permutation[triples[:, 2]]
    inverse = torch.argsort(permutation)
    moved_table = table[inverse][:, :, inverse]
    before = rank(Table(table), triples[:6], KnownTails.from_splits([triples], R))
    after = rank(Table(moved_table), moved[:6], KnownTails.from_splits([moved], R))
    assert np.array_equal(before.random(0), after.random(0))


def test_metrics_by_hand():
    metrics = summarize(np.array([1, 2, 4, 10]), np.array([11, 11, 11, 11]), (1, 3, 10))
    assert metrics.mrr == pytest.approx((1 + 0.5 + 0.25 + 0.1) / 4)
    assert metrics.mr == pytest.approx(17 / 4)
    assert metrics.hits == {1: 0.25, 3: 0.5, 10: 1.0}
    assert metrics.amri == pytest.approx(1 - (17 / 4 - 1) / (6 - 1))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_not_finite_stops_with_the_triple_named(bad):
    table = torch.zeros(N, 2 * R, N)
    table[4, R + 1, 2] = bad  # asked for as the head of (?, 1, 4)
    triples = np.array([[0, 0, 1], [3, 1, 4]])
    with pytest.raises(NonFiniteError, match=r"head 3, relation 1, tail 4"):
        rank(Table(table), triples, KnownTails.from_splits([triples], R))


def test_an_evaluation_splits_by_direction_relation_and_unseen_entities():
    triples = np.array([[0, 0, 1], [2, 1, 3], [0, 1, 8]])
    ranks = Ranks(triples, np.array([1, 2, 3, 4, 5, 6]), np.array([1, 2, 3, 4, 5, 6]), np.full(6, N))
    seen = np.arange(N) < 8
    protocol = describe_protocol({"test": triples}, split="test", filtered_by=["test"], tie_seed=0, num_entities=N)
    result = evaluation_of(ranks, split="test", seen=seen, relation_names=["a", "b", "c"], protocol=protocol)
    assert result.by_direction["tail"].mr == 2
    assert result.by_direction["head"].mr == 5
    assert result.by_relation["a"].mr == pytest.approx((1 + 4) / 2)
    assert set(result.by_relation) == {"a", "b"}
    assert result.unseen_triples == 1
    assert result.seen_only.mr == pytest.approx((1 + 2 + 4 + 5) / 4)
    assert result.overall.queries == 2 * len(triples)


def test_fingerprint_changes_with_anything_that_changes_the_ranks():
    triples = random_triples(3, N, R, 10)
    base = {"split": "test", "filtered_by": ["train"], "tie_seed": 0, "num_entities": N}
    fingerprint = describe_protocol({"test": triples}, **base)["fingerprint"]
    assert describe_protocol({"test": triples[::-1]}, **base)["fingerprint"] == fingerprint
    assert describe_protocol({"test": triples[1:]}, **base)["fingerprint"] != fingerprint
    for key, value in {
        "split": "valid",
        "filtered_by": ["train", "test"],
        "tie_seed": 1,
        "num_entities": N + 1,
    }.items():
        assert describe_protocol({"test": triples}, **{**base, key: value})["fingerprint"] != fingerprint

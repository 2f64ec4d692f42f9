"""Hits@k among sampled candidates: the formula against every draw, and against draws as GraIL makes them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tuckerkg.evaluation.metrics import evaluation_of, sampled_hits
from tuckerkg.evaluation.ranking import Ranks


@pytest.mark.parametrize("negatives", [1, 2, 5])
@pytest.mark.parametrize(("k", "sample"), [(1, 3), (2, 4), (3, 5), (4, 3), (1, 1)])
def test_the_formula_is_the_mean_over_every_draw(negatives, k, sample):
    for rank in range(1, negatives + 2):
        better = [place < rank - 1 for place in range(negatives)]
        draws = list(itertools.product(better, repeat=sample - 1))
        expected = sum(1 + sum(draw) <= k for draw in draws) / len(draws)
        found = sampled_hits(np.array([rank]), np.array([negatives + 1]), k, sample)
        assert found == pytest.approx(expected, abs=1e-12)


def test_the_formula_is_the_mean_of_simulated_draws():
    """Scores, a filter and 49 negatives that are drawn with replacement, ties against the answer."""
    random = np.random.default_rng(0)
    num_entities, ranks, candidates, simulated = 300, [], [], []
    for _ in range(20):
        scores = random.integers(0, 60, num_entities)
        target = int(np.argsort(-scores)[random.integers(10, 90)])
        known = set(random.choice(num_entities, 30, replace=False).tolist()) | {target}
        left = np.array([entity for entity in range(num_entities) if entity not in known])
        ranks.append(1 + int((scores[left] >= scores[target]).sum()))
        candidates.append(len(left) + 1)
        drawn = random.choice(left, (20_000, 49))
        simulated.append((1 + (scores[drawn] >= scores[target]).sum(1) <= 10).mean())
    found = [sampled_hits(np.array([rank]), np.array([count])) for rank, count in zip(ranks, candidates, strict=True)]
    assert max(found) - min(found) > 0.3  # easy and hard ones
    assert found == pytest.approx(simulated, abs=0.02)
    assert sampled_hits(np.array(ranks), np.array(candidates)) == pytest.approx(np.mean(found))


def test_the_ends():
    assert sampled_hits(np.array([1, 1]), np.array([1, 500])) == 1.0
    assert sampled_hits(np.array([500]), np.array([500])) == 0.0
    assert math.isnan(sampled_hits(np.empty(0), np.empty(0)))


def test_it_is_more_than_hits_over_all_and_counts_ties_against_the_answer():
    triples = np.array([[0, 0, 1]])
    ranks = Ranks(triples, best=np.array([11, 11]), worst=np.array([60, 60]), candidates=np.array([101, 101]))
    found = evaluation_of(
        ranks, split="test", seen=np.ones(101, bool), relation_names=["r"], protocol={}, graph="other"
    )
    assert found.hits_10_of_50 == sampled_hits(ranks.worst, ranks.candidates)
    assert found.hits_10_of_50 < sampled_hits(ranks.best, ranks.candidates)
    assert sampled_hits(ranks.best, ranks.candidates) > 0.9 > found.ties["best"].hits[10] == 0.0

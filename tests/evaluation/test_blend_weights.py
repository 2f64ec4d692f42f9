"""Weights of a blend: complementary members beat each alone, directions and relations are told apart, a loop agrees."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tuckerkg.evaluation.blend_weights import LEAST, _fit, _moved, fit_blend, keep_shares
from tuckerkg.evaluation.ranking import rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.nn.blend_scorer import BlendScorer

N, R = 60, 4


def facts(seed: int, count: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    found = np.unique(np.stack([random.integers(0, high, 3 * count) for high in (N, R, N)], 1), axis=0)
    return found[random.permutation(len(found))[:count]]


TRAIN, VALID, TEST = np.split(facts(0, 2400), [400, 1600])


class Knows:
    """Scores with noise, higher for true answers: ``signal [2R]`` by relation and direction, ``noise`` of its own."""

    def __init__(self, seed: int, signal: list[float], noise: float = 1.0, truth: np.ndarray | None = None) -> None:
        self.num_entities, self.num_relations = N, R
        self.table = noise * torch.randn(2 * R, N, N, generator=torch.Generator().manual_seed(seed))
        for head, relation, tail in (np.concatenate([TRAIN, VALID, TEST]) if truth is None else truth).tolist():
            self.table[relation, head, tail] += signal[relation]
            self.table[relation + R, tail, head] += signal[relation + R]

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        return self.table[relation_ids, heads]


def mrr(scorer, triples: np.ndarray) -> float:
    known = KnownTails.from_splits([TRAIN, VALID, TEST], R)
    return float(np.mean(1.0 / rank(scorer, triples, known).mean()))


def test_two_members_with_noise_of_their_own_beat_each_alone_on_held_out_questions():
    members = [Knows(1, [2.0] * 2 * R), Knows(2, [2.0] * 2 * R)]
    fitted = fit_blend(members, TRAIN, VALID)
    assert fitted.by != "member"
    assert fitted.questions == 2 * len(VALID)
    assert mrr(BlendScorer(members, fitted.weights), TEST) > 1.15 * max(mrr(member, TEST) for member in members)


def test_directions_that_different_members_know_are_told_apart():
    tails, heads = Knows(1, [3.0] * R + [0.0] * R), Knows(2, [0.0] * R + [3.0] * R)
    fitted = fit_blend([tails, heads], TRAIN, VALID)
    assert fitted.by == "direction"
    assert not fitted.own.any()
    shares = fitted.weights / fitted.weights.sum(1, keepdim=True)
    assert (shares[:R, 0] > 0.85).all()
    assert (shares[R:, 1] > 0.85).all()
    assert (fitted.weights[:R] == fitted.weights[0]).all()


def test_relations_that_different_members_know_get_weights_of_their_own():
    first, second = Knows(1, [3.0, 0.0] * R), Knows(2, [0.0, 3.0] * R)
    fitted = fit_blend([first, second], TRAIN, VALID)
    assert fitted.by == "relation"
    assert fitted.own.all()
    shares = fitted.weights / fitted.weights.sum(1, keepdim=True)
    assert (shares[0::2, 0] > 0.8).all()
    assert (shares[1::2, 1] > 0.8).all()

    assert fitted.held_out_mrr["relation"] > 1.1 * fitted.held_out_mrr["direction"]


def test_a_relation_with_few_questions_keeps_the_weights_of_its_direction():
    first, second = Knows(1, [3.0, 0.0] * R), Knows(2, [0.0, 3.0] * R)
    rare = np.concatenate([VALID[VALID[:, 1] < 3], VALID[VALID[:, 1] == 3][: LEAST - 1]])
    fitted = fit_blend([first, second], TRAIN, rare)
    assert fitted.own.tolist() == [True, True, True, False] * 2


def test_a_member_that_knows_nothing_gets_next_to_no_weight():
    knows, guesses = Knows(1, [3.0] * 2 * R), Knows(2, [0.0] * 2 * R)
    fitted = fit_blend([guesses, knows], TRAIN, VALID)
    assert (fitted.weights[:, 0] < 0.15 * fitted.weights[:, 1]).all()
    assert (fitted.weights >= 0.0).all()


def test_where_a_member_alone_is_best_it_has_all_the_weight():
    knows = Knows(1, [30.0] * 2 * R, truth=np.concatenate([TRAIN, VALID]))  # no answer is ever beaten
    fitted = fit_blend([Knows(2, [1.0] * 2 * R), knows], TRAIN, VALID)
    assert fitted.by == "member"
    assert fitted.weights.tolist() == [[0.0, 1.0]] * 2 * R
    assert fitted.held_out_mrr["member"] == 1.0


def test_the_same_questions_give_the_same_weights_and_there_may_be_fewer_of_them():
    members = [Knows(1, [2.0] * 2 * R), Knows(2, [1.0] * 2 * R)]
    once, twice = (fit_blend(members, TRAIN, VALID, most=300) for _ in range(2))
    assert once.questions == 300
    assert torch.equal(once.weights, twice.weights)


def loop_loss(members, weights: torch.Tensor, triples: np.ndarray) -> float:
    """Softmax cross entropy of the answers over all entities, other answers of train and valid left out."""
    known = {tuple(fact) for fact in np.concatenate([TRAIN, VALID]).tolist()}
    total = 0.0
    for head, relation, tail in triples.tolist():
        for asked, number, answer in ((head, relation, tail), (tail, relation + R, head)):
            rows = [member.table[number, asked].double().tolist() for member in members]
            logs = [math.log(sum(math.exp(score) for score in row)) for row in rows]
            scores = [
                sum(float(weights[number, i]) * (rows[i][entity] - logs[i]) for i in range(len(members)))
                for entity in range(N)
            ]
            fact = [(asked, relation, entity) if number < R else (entity, relation, asked) for entity in range(N)]
            left = [scores[entity] for entity in range(N) if entity == answer or fact[entity] not in known]
            total += math.log(sum(math.exp(score) for score in left)) - scores[answer]
    return total / (2 * len(triples))


@pytest.fixture
def members():
    return [Knows(1, [2.0] * 2 * R), Knows(2, [1.0] * 2 * R, noise=2.0)]


def test_the_loss_of_all_candidates_is_that_of_a_loop(members):
    few = VALID[:20]
    weights = 0.2 + torch.rand(2 * R, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    kept = keep_shares(members, np.concatenate([TRAIN, VALID[20:]]), few)
    found = float(kept.losses(weights[kept.relation_ids]).mean())
    assert found == pytest.approx(loop_loss(members, weights, few), abs=1e-5)


def test_the_fitted_weights_of_a_direction_minimize_it(members):
    fitted = fit_blend(members, TRAIN, VALID)
    assert fitted.by == "direction"
    kept = keep_shares(members, TRAIN, VALID)
    best = float(kept.losses(fitted.weights[kept.relation_ids]).mean())
    for member in range(2):
        for factor in (0.9, 1.1):
            moved = fitted.weights.clone()
            moved[:, member] *= factor
            assert float(kept.losses(moved[kept.relation_ids]).mean()) > best


def test_candidates_that_are_drawn_count_for_those_that_are_not(members):
    whole, drawn = (keep_shares(members, TRAIN, VALID, candidates=count) for count in (N, 8))
    assert drawn.others.shape[2] == 3 * 8
    assert torch.allclose(drawn.counts.sum(1), whole.counts.sum(1))  # all rivals are accounted for
    weights = torch.tensor([0.7, 0.3], dtype=torch.float64).expand(len(whole), -1)
    assert float(drawn.losses(weights).mean()) == pytest.approx(float(whole.losses(weights).mean()), rel=0.01)
    best = whole.reciprocal_ranks(weights) > 0.2
    found, expected = (float(kept.reciprocal_ranks(weights)[best].mean()) for kept in (drawn, whole))
    assert found == pytest.approx(expected, rel=0.02)


def test_ratios_that_rank_better_are_taken_although_cross_entropy_prefers_others():
    """The second member knows more, but for some questions it is so sure of wrong answers that they cost the most."""
    first, second = Knows(1, [1.5] * 2 * R), Knows(2, [4.0] * 2 * R)
    random = np.random.default_rng(5)
    for head, relation, tail in VALID[random.permutation(len(VALID))[:300]].tolist():
        second.table[relation, head, tail] = second.table[relation + R, tail, head] = -4.0
    kept = keep_shares([first, second], TRAIN, VALID)
    plain = _fit(kept, 2 * R, torch.zeros(2 * R, dtype=torch.bool))
    moved = _moved(kept, plain)
    before, after = (kept.reciprocal_ranks(weights[kept.relation_ids]).mean() for weights in (plain, moved))
    assert float(after) > 1.05 * float(before)
    assert (moved[:, 1] / moved[:, 0] > 1.5 * plain[:, 1] / plain[:, 0]).all()
    assert torch.equal(_moved(kept.part(torch.arange(0)), plain), plain)

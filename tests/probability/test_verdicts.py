"""Verdicts: false facts are of the right type and unknown, thresholds fit, error rates are as measured."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graphs import random_triples

from tuckerkg.probability.features import GraphFacts
from tuckerkg.probability.verdicts import (
    NEAR,
    NO,
    UNSURE,
    YES,
    Verdicts,
    fit_on,
    fit_verdicts,
    near_false,
    random_false,
    verdict_of,
)

N, R = 40, 3
TRIPLES = random_triples(4, N, R, 400)
TRAIN, VALID = TRIPLES[:250], TRIPLES[250:320]


class Table:
    """Random scores; true facts score higher."""

    def __init__(self) -> None:
        self.num_entities, self.num_relations = N, R
        self.table = torch.from_numpy(np.random.default_rng(0).standard_normal((N, 2 * R, N))).float()
        heads, relation_ids, tails = TRIPLES.T
        self.table[heads, relation_ids, tails] += 2.5
        self.table[tails, relation_ids + R, heads] += 2.5

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        return self.table[heads, relation_ids]


def test_false_facts_are_of_the_right_type_and_unknown():
    graph = GraphFacts(TRAIN, N, R, VALID)
    generator = torch.Generator().manual_seed(0)
    true = torch.from_numpy(VALID)
    known = {tuple(fact) for fact in TRIPLES[:320].tolist()}
    for false in (random_false(true, graph, generator), near_false(Table(), true, graph, generator)):
        assert len(false) == len(true)
        assert not known & {tuple(fact) for fact in false.tolist()}
        for head, relation, tail in false.tolist():
            assert any(h == head and r == relation for h, r, _ in known)
            assert any(t == tail and r == relation for _, r, t in known)


def test_near_false_facts_are_among_the_first_of_their_question():
    graph, table = GraphFacts(TRAIN, N, R, VALID), Table()
    true = torch.from_numpy(VALID)
    false = near_false(table, true, graph, torch.Generator().manual_seed(1))
    for (h, r, t), (h2, _, t2) in zip(true.tolist(), false.tolist(), strict=True):
        assert (h2 == h) != (t2 == t) or (h2, t2) == (h, t)
        scores = table.table[h, r] if h2 == h else table.table[t, r + R]
        chosen = t2 if h2 == h else h2
        assert int((scores > scores[chosen]).sum()) < NEAR + 20  # known answers may be better still


def test_where_every_fact_is_known_there_is_no_false_one():
    complete = np.array([(h, 0, t) for h in range(3) for t in range(3)])
    graph = GraphFacts(complete, 3, 1)
    assert len(random_false(torch.from_numpy(complete), graph, torch.Generator().manual_seed(0))) == 0


def test_error_rates_are_those_of_new_facts():
    generator = torch.Generator().manual_seed(0)

    def made(count):
        relation_ids = torch.randint(2, (count,), generator=generator)
        is_true = torch.rand(count, generator=generator) < 0.3
        level = torch.where(relation_ids == 0, -3.0, 2.0)  # a threshold of its own for each relation
        spread = torch.where(relation_ids == 0, 0.6, 2.0)
        noise = torch.randn(count, generator=generator)
        return (level + torch.where(is_true, 1.0, -1.0) + spread * noise).double(), relation_ids, is_true

    fitted = fit_on(*made(20_000), num_relations=2)
    logits, relation_ids, is_true = made(20_000)
    found, errors = fitted.of(logits, relation_ids)
    assert torch.isnan(errors[found == UNSURE]).all()
    weights = torch.where(is_true, 0.5 / 0.3, 0.5 / 0.7)
    for relation in range(2):
        for verdict, wrong in ((NO, is_true), (YES, ~is_true)):
            rows = (found == verdict) & (relation_ids == relation)
            measured = (weights * wrong)[rows].sum() / weights[rows].sum()
            assert errors[rows][0].item() == pytest.approx(measured.item(), abs=0.03)
    assert (errors[relation_ids == 0].nanmean()) < 0.1 < errors[relation_ids == 1].nanmean()


def test_a_higher_logit_is_never_less_true():
    chances = torch.linspace(0, 1, 101)
    assert verdict_of(chances).tolist() == sorted(verdict_of(chances).tolist())
    assert set(verdict_of(chances).tolist()) == {NO, UNSURE, YES}


def test_it_is_fitted_on_validation_stored_and_restored():
    graph, table = GraphFacts(TRAIN, N, R), Table()
    fitted = fit_verdicts(table, graph, lambda _, shares: shares.sum(1), VALID, share=0.5)
    again = Verdicts.from_tensors(fitted.tensors())
    logits, relation_ids = torch.linspace(-20, 0, 50).double(), torch.arange(50) % R
    for one, two in zip(fitted.of(logits, relation_ids), again.of(logits, relation_ids), strict=True):
        assert torch.equal(torch.nan_to_num(one.double()), torch.nan_to_num(two.double()))
    complete = np.array([(h, 0, t) for h in range(3) for t in range(3)])
    small = GraphFacts(complete, 3, 1)
    table.num_entities, table.num_relations, table.table = 3, 1, torch.randn(3, 2, 3)
    assert fit_verdicts(table, small, lambda _, shares: shares.sum(1), complete, share=0.5) is None

"""Probabilities of a scorer that is slow to ask, which start from those of a quick one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from capitals import Capitals, N

from tuckerkg.probability.calibration import Calibration, QuickProbabilities, fit_calibration
from tuckerkg.probability.features import BASES, GraphFacts
from tuckerkg.probability.population import Sample, are_in, shown_facts
from tuckerkg.probability.shares import both_shares, shares_of


class Slow(Capitals):
    fit_questions = 600


@pytest.fixture(scope="module")
def quick():
    world = Capitals()
    return QuickProbabilities(world, fit_calibration(world, world.train, world.valid, len(world.test)))


@pytest.fixture(scope="module")
def slow():
    return Slow(noise=1)


@pytest.fixture(scope="module")
def fitted(slow, quick):
    return fit_calibration(slow, slow.train, slow.valid, len(slow.test), quick=quick)


def log_loss(calibration, scorer, seed):
    graph = GraphFacts(scorer.train, N, 2)
    shown = shown_facts(scorer, graph, scorer.valid[:0], Sample(seed=seed))
    is_true = are_in(shown.facts, scorer.test, graph)  # of what was hidden, the half that no fit has seen
    chances = 0.5 * torch.sigmoid(calibration.logits(graph, shown.facts, shown.shares))
    return -torch.where(is_true, chances.log(), (-chances).log1p()).mean().item()


def test_what_two_scorers_know_is_said(slow, quick, fitted):
    alone = fit_calibration(slow, slow.train, slow.valid, len(slow.test))
    assert log_loss(fitted, slow, 3) < log_loss(alone, slow, 3)


def test_what_is_said_is_true(slow, fitted):
    graph = GraphFacts(slow.train, N, 2)
    shown = shown_facts(slow, graph, slow.valid[:0], Sample(seed=3))
    is_true = are_in(shown.facts, np.concatenate([slow.valid, slow.test]), graph).double()
    chances = torch.sigmoid(fitted.logits(graph, shown.facts, shown.shares))
    best = torch.argsort(chances, descending=True)
    for count in (100, 300):
        said, true = chances[best[:count]].mean().item(), is_true[best[:count]].mean().item()
        assert said == pytest.approx(true, abs=0.12), count


def test_a_fact_that_the_quick_scorer_believes_is_likelier(slow, quick, fitted):
    graph = GraphFacts(slow.train, N, 2)
    facts = torch.from_numpy(slow.test)
    shares = both_shares(slow, facts, graph.known)
    for basis in BASES:
        believed = quick.logits(graph, facts, basis)
        same = torch.full_like(shares, -2.0)  # from the slow scorer all look alike
        logits = fitted.logits(graph, facts, same, basis)
        relation = facts[:, 1] == 1
        order = torch.argsort(believed[relation])
        top, bottom = logits[relation][order[-10:]].mean(), logits[relation][order[:10]].mean()
        assert top > bottom
    assert shares.isfinite().all()


@pytest.mark.parametrize(("basis", "unread"), [("tail", 1), ("head", 0)])
def test_a_question_that_is_not_in_the_basis_is_not_asked(slow, basis, unread):
    graph = GraphFacts(slow.train, N, 2)
    facts = torch.from_numpy(slow.test[:5])
    shares = shares_of(slow, facts, graph.known, basis)
    assert shares[:, unread].isnan().all()
    assert torch.equal(shares[:, 1 - unread], both_shares(slow, facts, graph.known)[:, 1 - unread])


def test_it_is_stored_with_and_without_the_quick_scorer(slow, quick, fitted):
    graph = GraphFacts(slow.train, N, 2)
    facts = torch.from_numpy(slow.test[:5])
    shares = both_shares(slow, facts, graph.known)
    again = Calibration.from_tensors(fitted.tensors(), quick)
    alone = Calibration.from_tensors(fitted.tensors())  # where the quick one cannot be asked
    for basis in BASES:
        assert torch.equal(again.logits(graph, facts, shares, basis), fitted.logits(graph, facts, shares, basis))
        expected = fitted.of_any_graph.logits(graph, facts, shares, basis)
        assert torch.equal(alone.logits(graph, facts, shares, basis), expected)
    assert alone.quick is None
    assert alone.fitted
    fewer = {name: value for name, value in fitted.tensors().items() if not name.startswith("alone.")}
    assert not Calibration.from_tensors(fewer, quick).fitted


def test_another_base_rate_counts_on_other_graphs_too(slow, fitted):
    more = fitted.at_base_rate(0.5)
    assert more.of_any_graph.shift == more.shift != 0.0
    labelled = fitted.with_labels(torch.randn(40).double(), torch.ones(40).long(), torch.arange(40) < 20, 2)
    assert labelled.of_any_graph.labelled is labelled.labelled
    assert labelled.of_any_graph.quick is None

"""Probabilities: one of each fact whichever way it is asked, lower where the answer is known, at any base rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from capitals import Capitals, N

from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.run import load
from tuckerkg.probability.calibration import Calibration, fit_calibration
from tuckerkg.probability.features import GraphFacts
from tuckerkg.probability.population import CANDIDATES, Sample, are_in, sample_questions, shown_facts
from tuckerkg.probability.shares import both_shares


@pytest.fixture(scope="module")
def capitals():
    return Capitals()


@pytest.fixture(scope="module")
def fitted(capitals):
    return fit_calibration(capitals, capitals.train, capitals.valid, len(capitals.test))


def test_what_is_said_is_true_for_questions_as_they_are_asked(capitals, fitted):
    graph = GraphFacts(capitals.train, N, 2)
    shown = shown_facts(capitals, graph, capitals.valid[:0], Sample(seed=3))
    is_true = are_in(shown.facts, np.concatenate([capitals.valid, capitals.test]), graph).double()
    for basis, rows in (("both", slice(None)), ("tail", shown.asked_tail), ("head", ~shown.asked_tail)):
        chances = torch.sigmoid(fitted.logits(graph, shown.facts, shown.shares, basis))[rows]
        best = torch.argsort(chances, descending=True)
        for count in (100, 300):
            said, true = chances[best[:count]].mean().item(), is_true[rows][best[:count]].mean().item()
            assert said == pytest.approx(true, abs=0.12), (basis, count)
    assert fitted.hidden == pytest.approx(0.2, abs=0.01)


def test_a_known_answer_lowers_the_rest_also_where_the_scorer_has_not_seen_it(capitals, fitted):
    open_before = GraphFacts(capitals.train, N, 2)
    with_held = GraphFacts(capitals.train, N, 2, capitals.valid)
    held = torch.from_numpy(capitals.valid[capitals.valid[:, 1] == 0])  # their country, which the run holds
    other = held.clone()
    other[:, 2] = (other[:, 2] + 1) % 10  # another country
    shares = both_shares(capitals, other, open_before.known)
    before, after = (torch.sigmoid(fitted.logits(graph, other, shares)) for graph in (open_before, with_held))
    assert (after < before).all()
    assert after.mean() < 0.7 * before.mean()


def test_another_base_rate_changes_the_odds_by_its_ratio(capitals, fitted):
    graph = GraphFacts(capitals.train, N, 2)
    facts, shares = torch.from_numpy(capitals.test[:5]), torch.full((5, 2), -1.0, dtype=torch.double)
    more = fitted.at_base_rate(0.5)
    ratio = math.log(0.5 / 0.5) - math.log(fitted.hidden / (1 - fitted.hidden))
    gap = more.logits(graph, facts, shares) - fitted.logits(graph, facts, shares)
    assert gap.tolist() == pytest.approx([ratio] * 5)
    same = fitted.at_base_rate(fitted.hidden)
    assert same.shift == pytest.approx(0.0)
    for wrong in (0.0, 1.0, -0.5, float("nan")):
        with pytest.raises(TuckerkgError, match="base rate is"):
            fitted.at_base_rate(wrong)
    with pytest.raises(TuckerkgError, match="plain sigmoids"):
        Calibration().at_base_rate(0.1)


def test_it_is_stored_and_restored(capitals, fitted):
    again = Calibration.from_tensors(fitted.tensors())
    graph = GraphFacts(capitals.train, N, 2)
    facts, shares = torch.from_numpy(capitals.test[:5]), torch.full((5, 2), -1.0, dtype=torch.double)
    for basis in ("tail", "head", "both"):
        assert torch.equal(again.logits(graph, facts, shares, basis), fitted.logits(graph, facts, shares, basis))
    assert not Calibration.from_tensors({}).fitted
    assert not Calibration.from_tensors({"slopes": torch.ones(4)}).fitted  # of an earlier version
    fewer = fitted.tensors() | {"both.means": fitted.tensors()["both.means"][:-1]}
    assert not Calibration.from_tensors(fewer).fitted  # ... that knew fewer features


def test_nothing_true_among_the_shown_facts_leaves_the_plain_sigmoid(capitals):
    assert not fit_calibration(capitals, capitals.world, capitals.valid, 5).fitted  # all of them are known


def test_shown_facts_are_the_best_answers_to_questions_that_make_sense(capitals):
    graph = GraphFacts(capitals.train, N, 2)
    shown = shown_facts(capitals, graph, capitals.valid, Sample())
    assert (shown.weights == 1.0).all()
    known = {tuple(fact) for fact in capitals.train.tolist()}
    for head, relation in ((15, 0), (40, 1)):
        rows = shown.asked_tail & (shown.facts[:, 0] == head) & (shown.facts[:, 1] == relation)
        scores = capitals.table[head, relation]
        typed = {t for _, r, t in capitals.train.tolist() if r == relation} - {head}
        left = [tail for tail in typed if (head, relation, tail) not in known]
        best = sorted(left, key=lambda tail: -scores[tail].item())[:CANDIDATES]
        assert set(shown.facts[rows, 2].tolist()) == set(best)
        for fact, shares in zip(shown.facts[rows].tolist(), shown.shares[rows].tolist(), strict=True):
            both = [
                torch.log_softmax(capitals.table[fact[0], relation], 0)[fact[2]].item(),
                torch.log_softmax(capitals.table[fact[2], relation + 2], 0)[fact[0]].item(),
            ]
            assert shares == pytest.approx(both, abs=1e-5)


def test_importance_weights_of_a_sample_add_up_to_all_questions(capitals):
    graph = GraphFacts(capitals.train, N, 2)
    totals = []
    for seed in range(50):
        queries, weights = sample_questions(graph, capitals.valid, 200, torch.Generator().manual_seed(seed))
        makes_sense = graph.plausible[queries[:, 0], queries[:, 1]]
        assert int(makes_sense.sum()) == pytest.approx(200, abs=40)
        assert 0 < (~makes_sense).sum() <= 12
        totals.append(weights[makes_sense].sum().item())
    assert np.mean(totals) == pytest.approx(int(graph.plausible.sum()), rel=0.03)
    everything = shown_facts(capitals, graph, capitals.valid, Sample())
    some = shown_facts(capitals, graph, capitals.valid, Sample(facts=2_000))
    assert len(some.facts) < 0.6 * len(everything.facts)
    assert some.weights.sum().item() == pytest.approx(len(everything.facts), rel=0.1)
    kept, all_of_them = (are_in(part.facts, capitals.valid, graph).sum() for part in (some, everything))
    assert kept == all_of_them


def test_promising_questions_are_all_asked_and_weights_still_add_up(capitals):
    graph = GraphFacts(capitals.train, N, 2)

    def promise(questions):
        return torch.where((questions[:, 0] < 50) & (questions[:, 1] == 0), 9.0, -9.0).double()

    totals = []
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        queries, weights = sample_questions(graph, capitals.valid, 200, generator, promise)
        makes_sense = graph.plausible[queries[:, 0], queries[:, 1]]
        promising = makes_sense & (promise(queries) > 0)
        assert promising.sum() == (promise(graph.plausible.nonzero()) > 0).sum()
        assert (weights[promising] == 1.0).all()
        assert len(queries) == pytest.approx(200, abs=60)
        totals.append(weights[makes_sense].sum().item())
    assert np.mean(totals) == pytest.approx(int(graph.plausible.sum()), rel=0.03)


def test_facts_that_a_guess_believes_are_all_weighed_and_weights_still_add_up(capitals):
    graph = GraphFacts(capitals.train, N, 2)

    def believed(facts):
        return torch.where(facts[:, 0] == 40, 9.0, -20.0).double()

    totals = []
    for seed in range(10):
        everything = shown_facts(capitals, graph, capitals.valid, Sample(seed=seed))
        some = shown_facts(capitals, graph, capitals.valid, Sample(facts=1_000, belief=believed, seed=seed))
        rows = some.facts[:, 0] == 40
        assert rows.sum() == (everything.facts[:, 0] == 40).sum()
        assert (some.weights[rows] == 1.0).all()
        totals.append(some.weights.sum().item() / len(everything.facts))
    assert np.mean(totals) == pytest.approx(1.0, abs=0.1)


def test_all_ways_to_ask_give_a_fact_the_same_probability(toy_run):
    asked = toy_run.predict(head="e003", relation="plus2", k=20)
    scored = toy_run.score([(fact.head, fact.relation, fact.tail) for fact in asked])
    assert {fact.basis for fact in [*asked, *scored]} == {"both"}
    assert [fact.probability for fact in asked] == pytest.approx([fact.probability for fact in scored], abs=1e-4)
    one = asked[0]
    ways = [
        toy_run.predict(head=one.head, tail=one.tail, k=3, known=True, typed=False),
        toy_run.predict(relation=one.relation, tail=one.tail, k=20, typed=False),
        toy_run.predict(head=one.head, k=100),
        toy_run.predict(tail=one.tail, k=100, typed=False),
        toy_run.top_missing(500, typed=False),
    ]
    for found in ways:
        (same,) = [fact for fact in found if (fact.head, fact.relation, fact.tail) == (one.head, "plus2", one.tail)]
        assert same.probability == pytest.approx(one.probability, abs=1e-4)
    shown = toy_run.predict(head="e003", relation="plus2", k=20, known=True)
    assert {fact.tail: fact.probability for fact in shown if not fact.known} == pytest.approx(
        {fact.tail: fact.probability for fact in asked}, abs=1e-4
    )


def test_a_probability_from_one_question_says_which(toy_run):
    asked = {"tail": {"head": "e003", "relation": "plus2"}, "head": {"relation": "plus2", "tail": "e003"}}
    for basis, question in asked.items():
        assert {fact.basis for fact in toy_run.predict(**question, joined=False)} == {basis}
    assert {fact.basis for fact in toy_run.predict(head="e003", tail="e005", joined=False, known=True)} == {"tail"}


def test_answers_come_in_order_of_probability_and_those_of_equal_probability_by_score(toy_run):
    for question in ({"head": "e003", "relation": "plus2"}, {"head": "e003"}):
        found = toy_run.predict(**question, k=10)
        assert [fact.probability for fact in found] == sorted((fact.probability for fact in found), reverse=True)
    plain = load(toy_run.path, calibrated=False).predict(head="e003", relation="plus2", k=10)
    assert [fact.score for fact in plain] == sorted((fact.score for fact in plain), reverse=True)


def test_the_most_believed_missing_facts_come_in_order_of_probability(toy_run):
    facts = toy_run.top_missing(15, typed=False)
    assert [fact.probability for fact in facts] == sorted((fact.probability for fact in facts), reverse=True)
    every = [
        fact for head in toy_run.entities.labels for relation in toy_run.relations.labels
        for fact in toy_run.predict(head=head, relation=relation, k=20, typed=False)
    ]  # fmt: skip
    best = sorted((fact.probability for fact in every), reverse=True)[:15]
    assert [fact.probability for fact in facts] == pytest.approx(best, abs=1e-4)


def test_a_run_at_another_base_rate_says_other_probabilities_in_the_same_order(toy_run):
    more = toy_run.at_base_rate(0.6)
    first, second = (run.predict(head="e003", relation="plus2", k=5) for run in (toy_run, more))
    assert [fact.tail for fact in first] == [fact.tail for fact in second]
    assert all(two.probability > one.probability for one, two in zip(first, second, strict=True))
    with pytest.raises(TuckerkgError, match="base rate is 2"):
        toy_run.at_base_rate(2.0)

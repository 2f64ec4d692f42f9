"""Probabilities: the fit finds what made the labels, small relations lean on the whole, known answers do not count."""

from __future__ import annotations

import pytest
import torch
from graphs import toy_dataset

from tuckerkg.evaluation.calibration import Best, Calibration, QuestionTotals, best_candidates, fit_logistic


def made_up(slopes, shifts, counts, per_answer=0.0, seed=0):
    """Questions whose truth follows a slope and a shift of their relation, ``counts`` questions of each."""
    generator = torch.Generator().manual_seed(seed)
    relation_ids = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    totals = torch.randn(len(relation_ids), generator=generator, dtype=torch.double)
    shares = -4 * torch.rand(len(relation_ids), 5, generator=generator, dtype=torch.double)
    known = torch.randint(6, (len(relation_ids),), generator=generator).double()
    level = torch.tensor(shifts)[relation_ids] + per_answer * torch.log1p(known)
    truth = torch.sigmoid(torch.tensor(slopes)[relation_ids, None] * shares + level[:, None])
    is_true = torch.rand(truth.shape, generator=generator, dtype=torch.double) < truth
    return Best(QuestionTotals(relation_ids, totals, known), shares + totals[:, None], is_true), truth


def test_slopes_and_shifts_of_every_relation_are_found():
    best, truth = made_up([0.7, 1.5], [-1.0, 0.5], [20_000, 20_000], per_answer=0.4)
    fitted = fit_logistic(best, 2)
    assert fitted.slopes.tolist() == pytest.approx([0.7, 1.5], abs=0.05)
    assert fitted.shifts.tolist() == pytest.approx([-1.0, 0.5], abs=0.1)
    assert fitted.per_answer == pytest.approx(0.4, abs=0.05)
    found = torch.sigmoid(fitted.logits(best.scores, best.asked))
    assert torch.allclose(found, truth, atol=0.03)


def test_a_relation_without_questions_is_as_the_whole_and_one_with_few_is_near_it():
    best, _ = made_up([1.0, 1.0, 1.0], [0.0, 0.0, 2.0], [5_000, 5_000, 2])
    fitted = fit_logistic(best, 4)
    whole = fitted.shifts[:2].mean()
    assert fitted.shifts[3] == pytest.approx(whole.item(), abs=0.4)
    assert abs(fitted.shifts[2] - whole) < 1.5


def test_a_higher_score_is_never_less_likely():
    shares = torch.linspace(-3, 0, 100, dtype=torch.double)[None]
    best = Best(QuestionTotals(torch.tensor([0]), torch.zeros(1), torch.zeros(1)), shares, shares < -2)
    assert (fit_logistic(best, 1).slopes > 0).all()


def test_nothing_true_leaves_the_plain_sigmoid():
    best, _ = made_up([1.0], [0.0], [10])
    fitted = fit_logistic(Best(best.asked, best.scores, torch.zeros_like(best.is_true)), 1)
    assert fitted == Calibration()
    assert torch.equal(fitted.logits(best.scores, best.asked), best.scores)


def test_the_best_candidates_are_those_of_brute_force(toy_run):
    data = toy_dataset()
    best = best_candidates(toy_run.scorer, [data.train], data.valid)
    questions = sorted({(h, r) for h, r, _ in data.valid.tolist()} | {(t, r + 3) for _, r, t in data.valid.tolist()})
    assert best.asked.relation_ids.tolist() == [relation for _, relation in questions]
    facts = {name: {tuple(fact) for fact in data.split(name).tolist()} for name in ("train", "valid")}
    for row, (head, relation) in enumerate(questions):
        scores = toy_run.scorer.scores(torch.tensor([head]), torch.tensor([relation]))[0]

        def fact(tail, head=head, relation=relation):
            return (head, relation, tail) if relation < 3 else (tail, relation - 3, head)

        left = [tail for tail in range(20) if fact(tail) not in facts["train"]]
        ranked = sorted(left, key=lambda tail: -scores[tail].item())[:10]
        assert best.scores[row].tolist() == pytest.approx([scores[tail].item() for tail in ranked], abs=1e-6)
        assert best.is_true[row].tolist() == [fact(tail) in facts["valid"] for tail in ranked]
        assert best.asked.totals[row].item() == pytest.approx(torch.logsumexp(scores, 0).item(), abs=1e-5)
        assert best.asked.known[row].item() == 20 - len(left)


def test_all_ways_to_ask_give_a_fact_the_same_probability(toy_run):
    asked = toy_run.predict(head="e003", relation="plus2", k=20)
    scored = toy_run.score([(fact.head, fact.relation, fact.tail) for fact in asked])
    assert [fact.probability for fact in asked] == pytest.approx([fact.probability for fact in scored], abs=1e-4)
    one = asked[0]
    (same,) = [
        fact for fact in toy_run.predict(head=one.head, tail=one.tail, k=3, known=True) if fact.relation == "plus2"
    ]
    assert same.probability == pytest.approx(one.probability, abs=1e-4)
    shown = toy_run.predict(head="e003", relation="plus2", k=20, known=True)
    assert {fact.tail: fact.probability for fact in shown if not fact.known} == pytest.approx(
        {fact.tail: fact.probability for fact in asked}, abs=1e-4
    )


def test_the_most_believed_missing_facts_come_in_order_of_probability(toy_run):
    facts = toy_run.top_missing(15, typed=False)
    assert [fact.probability for fact in facts] == sorted((fact.probability for fact in facts), reverse=True)
    every = [
        fact for head in toy_run.entities.labels for relation in toy_run.relations.labels
        for fact in toy_run.predict(head=head, relation=relation, k=20)
    ]  # fmt: skip
    best = sorted((fact.probability for fact in every), reverse=True)[:15]
    assert [fact.probability for fact in facts] == pytest.approx(best, abs=1e-4)

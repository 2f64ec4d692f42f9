"""The regression finds what made the labels, also where only a part of the true facts has one."""

from __future__ import annotations

import pytest
import torch

from tuckerkg.probability.logistic import Labelled, Logistic, corrected, fit, refit


def made_up(slopes, shifts, counts, found=1.0, seed=0, bend=0.0):
    """Facts whose truth follows a slope and a shift of their relation; a true one is labelled with chance ``found``."""
    generator = torch.Generator().manual_seed(seed)
    relation_ids = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    shares = -4 * torch.rand(len(relation_ids), generator=generator, dtype=torch.double)
    other = torch.randn(len(relation_ids), generator=generator, dtype=torch.double)
    logits = torch.tensor(slopes).double()[relation_ids] * shares + torch.tensor(shifts).double()[relation_ids]
    truth = torch.sigmoid(logits + 0.4 * other + bend * (shares + 1).clamp(min=0))
    draw = torch.rand(len(truth), generator=generator, dtype=torch.double)
    features = torch.stack([shares, other], 1)
    whole = torch.full_like(truth, found)
    return Labelled(features, relation_ids, draw < found * truth, whole, torch.ones_like(truth)), truth


@pytest.mark.parametrize("found", [1.0, 0.5])
def test_slopes_and_shifts_of_every_relation_are_found(found):
    labelled, truth = made_up([0.7, 1.5], [-1.0, 0.5], [40_000, 40_000], found)
    fitted = fit(labelled, 2, [0])
    chances = torch.sigmoid(fitted.logits(labelled.features, labelled.relation_ids))
    assert (chances - truth).abs().mean() < 0.01
    assert (chances - truth).abs().max() < 0.06


def test_labels_of_half_of_the_true_facts_do_not_halve_the_probability():
    labelled, truth = made_up([0.0], [6.0], [5_000], found=0.5)
    chances = torch.sigmoid(fit(labelled, 1, [0]).logits(labelled.features, labelled.relation_ids))
    assert truth.mean() > 0.99
    assert chances.mean() > 0.95


def test_importance_weights_make_up_for_facts_that_were_left_out():
    labelled, truth = made_up([1.0], [-1.0], [60_000])
    kept = labelled.is_true | (torch.rand(len(truth), generator=torch.Generator().manual_seed(9)) < 0.2)
    some = labelled.rows(kept)
    weights = torch.where(some.is_true, 1.0, 5.0).double()
    fitted = fit(Labelled(some.features, some.relation_ids, some.is_true, some.found, weights), 1, [0])
    chances = torch.sigmoid(fitted.logits(labelled.features, labelled.relation_ids))
    assert chances.mean() == pytest.approx(float(truth.mean()), abs=0.01)


def test_a_relation_without_facts_is_as_the_whole_and_one_with_few_is_near_it():
    labelled, _ = made_up([1.0, 1.0, 1.0], [0.0, 0.0, 2.0], [5_000, 5_000, 2])
    fitted = fit(labelled, 4, [0])
    same = torch.tensor([[-1.0, 0.0]]).double().expand(4, -1)
    logits = fitted.logits(same, torch.arange(4))
    assert logits[3].item() == pytest.approx(logits[:2].mean().item(), abs=0.2)
    assert abs(logits[2] - logits[:2].mean()) < 1.5


def test_what_bends_is_corrected():
    labelled, truth = made_up([1.0], [-1.0], [60_000], bend=4.0)
    fitted = fit(labelled, 1, [0])
    likely = truth > 0.6
    chances = torch.sigmoid(fitted.logits(labelled.features, labelled.relation_ids))
    assert chances[likely].mean() == pytest.approx(float(truth[likely].mean()), abs=0.05)


def test_the_correction_increases_and_goes_through_its_knots():
    knots, heights = torch.tensor([-2.0, 0.0, 1.0]).double(), torch.tensor([0.0, 1.0, -1.0, 0.5]).double()
    logits = torch.linspace(-5, 5, 201).double()
    found = corrected(logits, knots, heights, torch.tensor(0.3).double())
    assert (found.diff() > 0).all()

    def naive(x):
        slopes = heights.exp().tolist()
        total, bounds = 0.3 + slopes[0] * min(x, -2.0), [-2.0, 0.0, 1.0]
        for place in range(2):
            total += slopes[1 + place] * (min(max(x, bounds[place]), bounds[place + 1]) - bounds[place])
        return total + slopes[3] * max(x - 1.0, 0.0)

    assert found.tolist() == pytest.approx([naive(x) for x in logits.tolist()])


def test_it_is_stored_and_restored():
    labelled, _ = made_up([1.0, 0.5], [0.0, -1.0], [500, 500])
    fitted = fit(labelled, 2, [0])
    again = Logistic.from_tensors(fitted.tensors())
    asked = labelled.features, labelled.relation_ids
    assert torch.equal(again.logits(*asked), fitted.logits(*asked))


def test_a_feature_that_never_changes_counts_for_nothing():
    labelled, _ = made_up([1.0], [0.0], [500])
    constant = torch.cat([labelled.features, torch.zeros(500, 1).double()], 1)
    rest = list(vars(labelled).values())[1:]
    fitted = fit(Labelled(constant, *rest), 1, [0])
    moved = constant.clone()
    moved[:, 2] = 5.0
    assert torch.equal(fitted.logits(moved, rest[0]), fitted.logits(constant, rest[0]))


def test_a_refit_finds_the_weight_of_one_feature_and_changes_nothing_else():
    labelled, _ = made_up([1.0], [-1.0], [40_000])
    rest = list(vars(labelled).values())[1:]
    never = torch.zeros(40_000, 1).double()
    fitted = fit(Labelled(torch.cat([labelled.features, never], 1), *rest), 1, [0])
    random = torch.Generator().manual_seed(1)
    marked = (torch.rand(40_000, 1, generator=random) < 0.5).double()
    features = torch.cat([labelled.features, marked], 1)
    chances = torch.sigmoid(fitted.logits(features, labelled.relation_ids) - 2.0 * marked[:, 0])
    is_true = torch.rand(40_000, generator=random, dtype=torch.float64) < labelled.found * chances
    changed = refit(fitted, Labelled(features, rest[0], is_true, *rest[2:]), [2])
    assert changed.weights[:2].tolist() == fitted.weights[:2].tolist()
    lowered = fitted.logits(features, rest[0]) - changed.logits(features, rest[0])
    assert (lowered[marked[:, 0] == 0] == 0).all()
    assert lowered[marked[:, 0] == 1].mean() == pytest.approx(2.0, abs=0.3)

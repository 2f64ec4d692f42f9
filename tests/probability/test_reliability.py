"""Calibration error by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tuckerkg.probability import reliability as module
from tuckerkg.probability.reliability import first_of_list, reliability


def test_the_error_is_the_mean_gap_of_bins_of_equal_mass(monkeypatch):
    monkeypatch.setattr(module, "LEAST", 2)
    chances = torch.tensor([0.1, 0.9, 0.3, 0.2], dtype=torch.double)
    found = reliability(chances, torch.tensor([False, True, True, False]))
    assert [(each.confidence, each.accuracy, each.count) for each in found.bins] == [
        (pytest.approx(0.15), 0.0, 2),
        (pytest.approx(0.6), 1.0, 2),
    ]
    assert found.ece == pytest.approx((0.15 + 0.4) / 2)
    assert found.brier == pytest.approx((0.01 + 0.04 + 0.49 + 0.01) / 4)
    assert found.log_loss == pytest.approx(-math.log(0.9 * 0.8 * 0.3 * 0.9) / 4)


def test_a_fact_of_importance_weight_three_counts_three_times(monkeypatch):
    monkeypatch.setattr(module, "LEAST", 100)
    once = reliability(torch.tensor([0.2, 0.2, 0.2, 0.8]).double(), torch.tensor([True, True, True, False]))
    weighed = reliability(
        torch.tensor([0.2, 0.8]).double(), torch.tensor([True, False]), weights=torch.tensor([3.0, 1.0]).double()
    )
    for name in ("ece", "brier", "log_loss"):
        assert getattr(weighed, name) == pytest.approx(getattr(once, name))


def test_probabilities_that_are_true_have_no_error_to_speak_of():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(100_000, generator=generator, dtype=torch.double)
    is_true = torch.rand(len(logits), generator=generator) < torch.sigmoid(logits)
    assert reliability(torch.sigmoid(logits), is_true).ece < 0.01
    assert reliability(torch.sigmoid(logits + 2), is_true).ece > 0.1


def test_a_split_that_holds_a_third_of_the_hidden_facts_finds_a_third_true():
    generator = torch.Generator().manual_seed(0)
    chances = torch.rand(400_000, generator=generator, dtype=torch.double)
    in_split = torch.rand(len(chances), generator=generator) < chances / 3
    assert reliability(chances, in_split, share=1 / 3).ece < 0.01
    assert reliability(chances, in_split).ece > 0.2


def test_nothing_measured_is_no_error():
    none = torch.empty(0, dtype=torch.double)
    assert reliability(none, none.bool()).ece == 0.0


def test_the_first_of_a_list_are_counted():
    chances, is_true = np.array([0.9, 0.8, 0.1]), np.array([True, False, False])
    (two,) = first_of_list(chances, is_true, np.array([True, False, False]), 0.5, (2, 50))
    assert (two.count, two.said, two.true, two.true_by_test) == (2, pytest.approx(0.85), 0.5, 1.0)

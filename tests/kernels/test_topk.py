"""The best of rows against a full stable sort, with and without ties."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuckerkg.kernels.topk import MANY, top_of_rows


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 4),
    candidates=st.integers(1, 400),
    k=st.integers(1, 20),
    levels=st.sampled_from([0, 2, 40]),
)
def test_values_and_places_equal_a_stable_sort(seed, rows, candidates, k, levels):
    scores = torch.rand(candidates, rows, generator=torch.Generator().manual_seed(seed)).T
    if levels:
        scores = (scores * levels).floor()
    values, places = top_of_rows(scores, k)
    expected = torch.sort(scores, dim=1, descending=True, stable=True)
    assert torch.equal(values, expected.values[:, :k])
    assert torch.equal(places, expected.indices[:, :k])


@pytest.mark.parametrize("k", [1, 10])
def test_scores_set_to_minus_infinity_come_last(k):
    scores = torch.full((2, 1_280), -torch.inf)
    scores[0, 1_000] = 1.0
    values, places = top_of_rows(scores, k)
    assert places[0, 0] == 1_000
    assert torch.equal(places[1], torch.arange(k))
    assert values[1, 0] == -torch.inf


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("levels", [0, 3, 200])
def test_many_scores_by_blocks_equal_a_stable_sort(turned, levels):
    candidates = MANY // 3 + 17  # a last block that is not whole
    scores = torch.rand(4, candidates, generator=torch.Generator().manual_seed(levels))
    if levels:
        scores = (scores * levels).floor()
    scores[2, -3:] = 1_000.0
    values, places = top_of_rows(scores.T.contiguous().T if turned else scores, 10)
    expected = torch.sort(scores, dim=1, descending=True, stable=True)
    assert torch.equal(values, expected.values[:, :10])
    assert torch.equal(places, expected.indices[:, :10])

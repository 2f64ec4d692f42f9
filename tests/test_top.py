"""The best of rows against a full stable sort, with and without ties."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuckerkg.top import top_of_rows


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

"""Dropout by random bytes."""

from __future__ import annotations

import pytest
import torch

from tuckerkg.kernels.dropout import dropout, kept_bytes


def test_what_is_kept_is_scaled_so_that_the_mean_stays():
    torch.manual_seed(0)
    found = dropout(torch.ones(400, 500), 0.3, True)
    values = found.unique().tolist()
    assert values[0] == 0.0
    assert values[1:] == [pytest.approx(256 / (256 - 77))]
    assert (found == 0).float().mean().item() == pytest.approx(77 / 256, abs=0.005)
    assert found.mean().item() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("byte", range(8))
def test_every_byte_of_a_random_word_decides_alike(byte):
    torch.manual_seed(1)
    kept, _ = kept_bytes(0.5, True, (8 * 20_000,), torch.device("cpu"))
    assert kept is not None
    assert kept[byte::8].float().mean().item() == pytest.approx(0.5, abs=0.015)


def test_the_mask_follows_the_seed_and_has_any_shape():
    for shape in [(3,), (5, 7, 1), (0, 4)]:
        torch.manual_seed(2)
        first, gain = kept_bytes(0.25, True, shape, torch.device("cpu"))
        torch.manual_seed(2)
        second, _ = kept_bytes(0.25, True, shape, torch.device("cpu"))
        assert first.shape == shape
        assert torch.equal(first, second)
        assert gain == 256 / 192


def test_nothing_is_dropped_at_rest_or_at_rate_zero():
    x = torch.randn(3, 4)
    assert dropout(x, 0.5, False) is x
    assert dropout(x, 0.0, True) is x


def test_the_gradient_passes_where_the_number_did():
    x = torch.randn(50, 20, requires_grad=True)
    found = dropout(x, 0.4, True)
    found.sum().backward()
    assert torch.equal(x.grad, torch.where(found == 0, 0.0, 256 / (256 - 102)))

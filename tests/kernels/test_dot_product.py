"""The tiled dot product against one plain product, gradients included, and how far bfloat16 may be off."""

from __future__ import annotations

import pytest
import torch

from tuckerkg.kernels import dot_product as dot
from tuckerkg.kernels.dot_product import DotProduct
from tuckerkg.losses import LOSSES
from tuckerkg.losses.streaming import streamed_loss

B, M, D = 5, 23, 7


@pytest.fixture(params=[1, 4, 1_000])
def tile(request, monkeypatch):
    monkeypatch.setattr(dot, "TILE", request.param)
    monkeypatch.setattr(dot, "TILE_SCORES", 1)


def rows(count, seed, dtype=torch.double):
    return torch.randn(count, D, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.usefixtures("tile")
def test_scores_and_gradients_equal_one_plain_product():
    queries, candidates, gradient = rows(B, 0), rows(M, 1), torch.randn(B, M, dtype=torch.double)
    compare = DotProduct()
    expected = queries @ candidates.T
    assert torch.allclose(compare(queries, candidates), expected, rtol=1e-14)
    buffer = torch.empty(M, B, dtype=torch.double)
    assert torch.allclose(compare.scores(queries, candidates, buffer), expected, rtol=1e-14)
    grad_queries, grad_candidates = torch.ones(B, D, dtype=torch.double), torch.ones(M, D, dtype=torch.double)
    compare.add_gradients(gradient, queries, candidates, grad_queries, grad_candidates)
    assert torch.allclose(grad_queries, 1 + gradient @ candidates, rtol=1e-12)
    assert torch.allclose(grad_candidates, 1 + gradient.T @ queries, rtol=1e-12)


def test_autograd_follows_the_product():
    queries, candidates = rows(B, 0).requires_grad_(), rows(M, 1).requires_grad_()
    assert torch.autograd.gradcheck(DotProduct(), (queries, candidates))


@pytest.mark.usefixtures("tile")
def test_bfloat16_scores_stay_within_the_stated_bound():
    queries, candidates = rows(B, 0, torch.float32), rows(M, 1, torch.float32)
    compare = DotProduct("bfloat16")
    operands = compare.operand(queries), compare.operand(candidates)
    assert operands[0].shape[1] % dot.REGISTER == 0
    scores = compare.scores(*operands, torch.empty(M, B))
    sizes = queries.abs() @ candidates.abs().T
    assert ((scores - queries @ candidates.T).abs() <= 3 * 2.0**-9 * sizes * 1.01).all()


@pytest.mark.parametrize("name", LOSSES)
def test_a_bfloat16_loss_and_its_gradient_are_near_the_float32_ones(name):
    offsets = torch.tensor([0, 2, 3, 3, 6, 7])
    positives = torch.tensor([0, 3, 5, 1, 2, 10, 4])

    def of(precision):
        queries, candidates = rows(B, 0, torch.float32).requires_grad_(), rows(M, 1, torch.float32).requires_grad_()
        value = streamed_loss(LOSSES[name](), DotProduct(precision), queries, candidates, offsets, positives)
        return value, *torch.autograd.grad(value, (queries, candidates))

    for rounded, exact in zip(of("bfloat16"), of("float32"), strict=True):
        assert not torch.equal(rounded, exact)
        assert torch.linalg.norm(rounded - exact) <= 0.02 * torch.linalg.norm(exact)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_one_query_shared_by_threads_equals_the_product(monkeypatch, parts):
    monkeypatch.setattr(dot, "SHARED_CANDIDATES", 1)
    monkeypatch.setattr(dot.torch, "get_num_threads", lambda: parts)
    query, candidates = rows(1, 0), rows(M, 1)
    assert torch.allclose(DotProduct()(query, candidates), query @ candidates.T, rtol=1e-13)

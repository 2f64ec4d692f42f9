"""RotatE and TransE, and the comparisons by distance that they share, against loops and brute force."""

from __future__ import annotations

import cmath

import pytest
import torch

from tuckerkg.kernels import distance
from tuckerkg.kernels.distance import ModulusDistance, NormDistance
from tuckerkg.losses.nt_xent import NTXent
from tuckerkg.losses.self_adversarial import SelfAdversarial
from tuckerkg.losses.streaming import streamed_loss
from tuckerkg.nn.decoders import RotatE, TransE
from tuckerkg.nn.decoders.rotate import ANGLE

IDS = torch.tensor([0, 4, 4, 2])


def test_rotate_turns_each_complex_number_and_sums_the_moduli() -> None:
    decoder = RotatE(6, 3, margin=9.0)
    heads, tails = (torch.randn(n, 6, dtype=torch.double) for n in (4, 7))
    relations = 0.1 * torch.randn(5, 3, dtype=torch.double)
    scores = decoder.comparison(decoder.query(heads, relations, IDS), tails)
    for b in range(4):
        for m in range(7):
            total = 0.0
            for i in range(3):
                turn = cmath.exp(1j * ANGLE * relations[IDS[b], i].item())
                total += abs(complex(heads[b, i], heads[b, i + 3]) * turn - complex(tails[m, i], tails[m, i + 3]))
            assert scores[b, m].item() == pytest.approx(9.0 - total, abs=1e-12)


@pytest.mark.parametrize("p", [1, 2])
def test_transe_moves_the_head_and_takes_the_norm(p: int) -> None:
    decoder = TransE(3, 3, margin=2.0, p=p)
    heads, relations, tails = (torch.randn(n, 3, dtype=torch.double) for n in (4, 5, 7))
    scores = decoder.comparison(decoder.query(heads, relations, IDS), tails)
    for b in range(4):
        for m in range(7):
            total = sum(abs(heads[b, i] + relations[IDS[b], i] - tails[m, i]) ** p for i in range(3)) ** (1 / p)
            assert scores[b, m].item() == pytest.approx(2.0 - total.item(), abs=1e-12)


@pytest.mark.parametrize("tile", [1, 7, 1 << 18])
def test_moduli_have_the_gradients_of_the_formula_in_any_tiles(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "TILE_NUMBERS", tile)
    queries = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
    candidates = torch.randn(5, 4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(ModulusDistance(1.0), (queries, candidates))


def test_euclidean_distances_have_the_values_and_gradients_of_the_differences() -> None:
    queries, candidates = (torch.randn(rows, 6, dtype=torch.double, requires_grad=True) for rows in (4, 9))
    weights = torch.randn(4, 9, dtype=torch.double)
    scores = NormDistance(3.0, 2)(queries, candidates)
    expected = 3.0 - (queries[:, None] - candidates).square().sum(2).sqrt()
    assert torch.allclose(scores, expected, atol=1e-12)
    with torch.no_grad():
        assert torch.allclose(NormDistance(3.0, 2)(queries, candidates), expected, atol=1e-12)
    found = torch.autograd.grad((scores * weights).sum(), (queries, candidates))
    for mine, other in zip(found, torch.autograd.grad((expected * weights).sum(), (queries, candidates)), strict=True):
        assert torch.allclose(mine, other, atol=1e-12)
    same = queries.detach().clone().requires_grad_()
    NormDistance(3.0, 2)(same, same.detach()).sum().backward()
    assert same.grad is not None
    assert same.grad.isfinite().all()


def test_a_candidate_that_is_the_query_itself_has_the_full_margin_and_a_finite_gradient() -> None:
    rows = torch.randn(2, 4, dtype=torch.double, requires_grad=True)
    scores = ModulusDistance(9.0)(rows, rows.detach())
    assert scores.diagonal().tolist() == [9.0, 9.0]
    scores.sum().backward()
    assert torch.isfinite(rows.grad).all()


@pytest.mark.parametrize("compare", [ModulusDistance(3.0), NormDistance(3.0, 1), NormDistance(3.0, 2)])
@pytest.mark.parametrize("loss", [NTXent(), SelfAdversarial()])
@pytest.mark.parametrize("chunk_scores", [1, 8, 1000])
def test_distances_stream_through_the_losses_chunk_by_chunk(compare, loss, chunk_scores) -> None:
    queries = torch.randn(4, 6, dtype=torch.double, requires_grad=True)
    candidates = torch.randn(8, 6, dtype=torch.double, requires_grad=True)
    offsets, positives = torch.tensor([0, 2, 3, 4, 5]), torch.tensor([1, 6, 0, 3, 3])
    found = []
    for size in (chunk_scores, 10_000):
        value = streamed_loss(loss, compare, queries, candidates, offsets, positives, size)
        found.append((value, *torch.autograd.grad(value, (queries, candidates))))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(("kind", "dim", "relation_dim"), [(RotatE, 5, 2), (RotatE, 6, 6), (TransE, 4, 6)])
def test_widths_that_do_not_fit_are_refused(kind: type, dim: int, relation_dim: int) -> None:
    with pytest.raises(ValueError, match="relation_dim"):
        kind(dim, relation_dim)

"""Streamed losses against the printed formulas, term by term in float64, gradients included."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.kernels.comparison import Comparison
from tuckerkg.kernels.dot_product import DotProduct
from tuckerkg.losses import LOSSES
from tuckerkg.losses.bce import BinaryCrossEntropy, BinaryCrossEntropyAll
from tuckerkg.losses.nt_xent import NTXent
from tuckerkg.losses.self_adversarial import SelfAdversarial
from tuckerkg.losses.streaming import streamed_loss

B, M, D = 7, 11, 4
OFFSETS = torch.tensor([0, 2, 3, 3, 6, 7, 8, 10])  # query 2 has no positive
POSITIVES = torch.tensor([0, 3, 5, 1, 2, 10, 4, 9, 0, 7])


class PlainDot(Comparison):
    """A dot product whose gradient is autograd's."""

    def __call__(self, queries: Tensor, candidates: Tensor) -> Tensor:
        return queries @ candidates.T


class MinusDistance(Comparison):
    def __call__(self, queries: Tensor, candidates: Tensor) -> Tensor:
        return -(queries[:, None] - candidates[None]).square().sum(-1)


def positives_of(query: int) -> list[int]:
    return POSITIVES[OFFSETS[query] : OFFSETS[query + 1]].tolist()


def plain_nt_xent(scores: Tensor, temperature: float, smoothing: float) -> Tensor:
    """Eq. (11) triple by triple."""
    total = scores.new_zeros(())
    for query in range(B):
        for tail in positives_of(query):
            log_p = [scores[query, t] / temperature for t in range(M)]
            lse = torch.log(sum(torch.exp(value) for value in log_p))
            for t in range(M):
                target = (1 - smoothing) * (t == tail) + smoothing / M
                total = total - target * (log_p[t] - lse)
    return total / POSITIVES.numel()


def plain_by_query(scores: Tensor, smoothing: float) -> Tensor:
    """The mean over queries, each weighing its k positives, of the cross entropy with these as one target."""
    total, weights = scores.new_zeros(()), 0.0
    for query in range(B):
        tails = positives_of(query)
        if tails:
            log_p = torch.log_softmax(scores[query], 0)
            weights += len(tails)
            for t in range(M):
                target = (1 - smoothing) * (t in tails) / len(tails) + smoothing / M
                total = total - len(tails) * target * log_p[t]
    return total / weights


def plain_bce(scores: Tensor, smoothing: float, mark_all: bool, times: Sequence[int] = (1,) * M) -> Tensor:
    """Eq. (10): a labelling per triple, or one per query with all its tails marked.

    Candidate t stands there ``times[t]`` times, but once where it is a tail of the query.
    """
    total, candidates = scores.new_zeros(()), sum(times)
    for query in range(B):
        tails = positives_of(query)
        for marked in [tails] if mark_all else [[tail] for tail in tails]:
            for t in range(M):
                p = torch.sigmoid(scores[query, t])
                y = (1 - smoothing) * (t in marked) + smoothing / candidates
                term = (y * torch.log(p) + (1 - y) * torch.log(1 - p)) / candidates
                total = total - (1 if t in tails else times[t]) * term
    return total / POSITIVES.numel()


def plain_self_adversarial(scores: Tensor, temperature: float) -> Tensor:
    """One triple against all entities that are no tail of its query, weighted by a softmax that is held fixed."""
    total = scores.new_zeros(())
    for query in range(B):
        tails = positives_of(query)
        negatives = [t for t in range(M) if t not in tails]
        weights = torch.softmax(temperature * scores[query, negatives].detach(), 0)
        for tail in tails:
            total = total - F.logsigmoid(scores[query, tail]) / 2
            for weight, t in zip(weights, negatives, strict=True):
                total = total - weight * F.logsigmoid(-scores[query, t]) / 2
    return total / POSITIVES.numel()


CASES = [
    (NTXent(), lambda s: plain_nt_xent(s, 1.0, 0.0)),
    (NTXent(temperature=0.5), lambda s: plain_nt_xent(s, 0.5, 0.0)),
    (NTXent(temperature=2.0, label_smoothing=0.2), lambda s: plain_nt_xent(s, 2.0, 0.2)),
    (NTXent(label_smoothing=0.1), lambda s: plain_by_query(s, 0.1)),
    (BinaryCrossEntropy(), lambda s: plain_bce(s, 0.0, False)),
    (BinaryCrossEntropy(label_smoothing=0.1), lambda s: plain_bce(s, 0.1, False)),
    (BinaryCrossEntropyAll(), lambda s: plain_bce(s, 0.0, True)),
    (BinaryCrossEntropyAll(label_smoothing=0.3), lambda s: plain_bce(s, 0.3, True)),
    (SelfAdversarial(), lambda s: plain_self_adversarial(s, 1.0)),
    (SelfAdversarial(temperature=0.5), lambda s: plain_self_adversarial(s, 0.5)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("compare", [DotProduct(), PlainDot(), MinusDistance()])
@pytest.mark.parametrize("chunk_scores", [1, 2 * M, 10_000])
def test_streamed_loss_and_gradients_equal_the_printed_formula(case, compare, chunk_scores):
    loss, plain = CASES[case]
    generator = torch.Generator().manual_seed(case)
    queries = torch.randn(B, D, dtype=torch.double, generator=generator, requires_grad=True)
    candidates = torch.randn(M, D, dtype=torch.double, generator=generator, requires_grad=True)
    ours = streamed_loss(loss, compare, queries, candidates, OFFSETS, POSITIVES, chunk_scores)
    naive = plain(compare(queries, candidates))
    assert torch.allclose(ours, naive, rtol=1e-12, atol=1e-12)
    for mine, other in zip(
        torch.autograd.grad(3.0 * ours, (queries, candidates)),
        torch.autograd.grad(3.0 * naive, (queries, candidates)),
        strict=True,
    ):
        assert torch.allclose(mine, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("kind", [BinaryCrossEntropy, BinaryCrossEntropyAll])
@pytest.mark.parametrize("compare", [DotProduct(), MinusDistance()])
def test_a_weighed_candidate_counts_as_many_but_a_querys_own_tail_once(smoothing, kind, compare):
    generator = torch.Generator().manual_seed(5)
    times = [1, 3, 2, 1, 5, 2, 1, 4, 1, 2, 3]
    queries = torch.randn(B, D, dtype=torch.double, generator=generator, requires_grad=True)
    candidates = torch.randn(M, D, dtype=torch.double, generator=generator, requires_grad=True)
    weights = torch.tensor(times, dtype=torch.double)
    loss = kind(label_smoothing=smoothing)
    ours = streamed_loss(loss, compare, queries, candidates, OFFSETS, POSITIVES, 2 * M, weights)
    naive = plain_bce(compare(queries, candidates), smoothing, loss.marks_known, times)
    assert torch.allclose(ours, naive, rtol=1e-12, atol=1e-12)
    for mine, other in zip(
        torch.autograd.grad(ours, (queries, candidates)), torch.autograd.grad(naive, (queries, candidates)), strict=True
    ):
        assert torch.allclose(mine, other, rtol=1e-10, atol=1e-12)


def test_uniform_scores_give_the_logarithm_of_the_number_of_candidates():
    queries, candidates = torch.zeros(B, D), torch.randn(M, D)
    value = streamed_loss(NTXent(), PlainDot(), queries, candidates, OFFSETS, POSITIVES)
    assert value.item() == pytest.approx(math.log(M))


def test_large_scores_do_not_overflow():
    queries = torch.full((B, D), 300.0, requires_grad=True)
    candidates = torch.randn(M, D, requires_grad=True)
    for build in LOSSES.values():
        value = streamed_loss(build(), PlainDot(), queries, candidates, OFFSETS, POSITIVES)
        gradients = torch.autograd.grad(value, (queries, candidates))
        assert torch.isfinite(value)
        assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_a_query_whose_every_candidate_is_a_tail_has_no_negatives():
    value, gradient = SelfAdversarial().chunk(torch.zeros(1, 2), torch.tensor([0, 0]), torch.tensor([0, 1]))
    assert value.item() == pytest.approx(math.log(2.0))
    assert torch.allclose(gradient, torch.full((1, 2), -0.25))

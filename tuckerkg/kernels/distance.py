"""Comparisons by distance: ``margin - |q - t|``. Nothing of the size queries x candidates x width exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from tuckerkg.autograd import Context, apply
from tuckerkg.kernels.comparison import Comparison

Norm = Literal[1, 2]

TILE_NUMBERS = 1 << 18  # differences held at once: 1 MiB of float32, which stay in a core's cache


class NormDistance(Comparison):
    """``compare(queries [B, d], candidates [M, d]) -> margin - |q - t|_p``.

    For ranks, differences are computed one by one: computing them through a product loses digits where points are
    close. For gradients, with p = 2, the detour is taken: it costs what a dot product costs, a tenth of the
    differences.
    """

    def __init__(self, margin: float, p: Norm) -> None:
        self.margin, self.p = margin, p

    def __call__(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """``[B, d], [M, d] -> [B, M]``."""
        if self.p == 2 and torch.is_grad_enabled() and (queries.requires_grad or candidates.requires_grad):
            distances: Tensor = apply(_Euclidean, queries, candidates)
            return self.margin - distances
        mode = "donot_use_mm_for_euclid_dist"
        return self.margin - torch.cdist(queries, candidates, float(self.p), compute_mode=mode)


class _Euclidean(torch.autograd.Function):
    """``|q - t|`` from ``|q|^2 + |t|^2 - 2 q . t``; its gradient ``(q - t) / |q - t|`` in two products as well."""

    @staticmethod
    def forward(ctx: Context, queries: Tensor, candidates: Tensor) -> Tensor:
        lengths = queries.square().sum(1)[:, None] + candidates.square().sum(1)
        distances = lengths.addmm_(queries, candidates.T, alpha=-2.0).clamp_(min=0.0).sqrt_()  # [B, M]
        ctx.save_for_backward(queries, candidates, distances)
        return distances

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        queries, candidates, distances = ctx.saved_tensors
        slopes = torch.where(distances > 0.0, gradients[0] / distances, 0.0)
        grad_queries = queries * slopes.sum(1)[:, None] - slopes @ candidates
        return grad_queries, candidates * slopes.sum(0)[:, None] - slopes.T @ queries


class ModulusDistance(Comparison):
    """``margin - sum over i of |q_i - t_i|`` for complex numbers: first all real parts, then all imaginary ones."""

    def __init__(self, margin: float) -> None:
        self.margin = margin

    def __call__(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """``[B, d], [M, d] -> [B, M]``, d even."""
        distances: Tensor = apply(_SumOfModuli, queries, candidates)
        return self.margin - distances


class _SumOfModuli(torch.autograd.Function):
    """Candidates in tiles; backward computes the differences again instead of keeping them."""

    @staticmethod
    def forward(ctx: Context, queries: Tensor, candidates: Tensor) -> Tensor:
        ctx.save_for_backward(queries, candidates)
        distances = queries.new_empty(len(queries), len(candidates))
        for tile in _tiles(queries, candidates):
            real, imaginary = _differences(queries, candidates[tile])
            distances[:, tile] = real.square_().addcmul_(imaginary, imaginary).sqrt_().sum(2)
        return distances

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        queries, candidates = ctx.saved_tensors
        grad_queries, grad_candidates = torch.zeros_like(queries), torch.zeros_like(candidates)
        half = queries.shape[1] // 2
        for tile in _tiles(queries, candidates):
            real, imaginary = _differences(queries, candidates[tile])
            modulus = torch.addcmul(real.square(), imaginary, imaginary).sqrt_()
            modulus.clamp_(min=torch.finfo(modulus.dtype).tiny)  # equal numbers: the differences are 0 as well
            slope = gradients[0][:, tile, None] / modulus  # [B, m, d / 2]
            for part, found in ((slice(half), real.mul_(slope)), (slice(half, None), imaginary.mul_(slope))):
                grad_queries[:, part] += found.sum(1)
                grad_candidates[tile, part] -= found.sum(0)
        return grad_queries, grad_candidates


def _differences(queries: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts of q - t, ``[B, m, d / 2]`` each."""
    (q_real, q_imaginary), (t_real, t_imaginary) = queries.chunk(2, 1), candidates.chunk(2, 1)
    return q_real[:, None] - t_real, q_imaginary[:, None] - t_imaginary


def _tiles(queries: Tensor, candidates: Tensor) -> Iterator[slice]:
    size = max(1, TILE_NUMBERS // max(1, queries.numel() // 2))
    for first in range(0, len(candidates), size):
        yield slice(first, first + size)

"""How queries are compared with candidates: the contract, and what every comparison gets for free.

Scores are never held for a whole batch. The streaming loss (``losses/streaming.py``) takes a chunk of queries at a time
and needs each chunk's scores and the gradient that flows back through them; ``Comparison.stream`` provides both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from tuckerkg.types import Precision

ChunkLoss = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Scores of a chunk ``[b, M]`` -> the chunk's loss and the gradient of its scores ``[b, M]``."""

ChunkStep = Callable[[ChunkLoss, Tensor, Tensor, Tensor], Tensor]
"""``step(loss, queries, grad_queries, grad_candidates)``: the loss of one chunk; gradients are added in place."""


class Comparison(Protocol):
    """Scores queries against candidates. Subclass it and write ``__call__``; autograd then provides the gradient."""

    def __call__(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Raw scores: ``queries [B, d_q]``, ``candidates [M, d]`` -> ``[B, M]``."""
        ...

    def with_bias(self, queries: Tensor, candidates: Tensor, bias: Tensor) -> tuple[Comparison, Tensor, Tensor]:
        """Add ``bias [M]`` to the candidates' scores.

        Returns:
            The comparison to use, and the queries and candidates to give to it.
        """
        return BiasedComparison(self), queries, torch.cat([candidates, bias[:, None]], 1)

    def in_precision(self, precision: Precision) -> Comparison:
        """Return a comparison whose ``stream`` computes in ``precision``, where that is supported."""
        return self

    def stream(self, candidates: Tensor) -> ChunkStep:
        """Prepare ``candidates [M, d]`` for any number of chunks of queries."""

        def step(loss: ChunkLoss, queries: Tensor, grad_queries: Tensor, grad_candidates: Tensor) -> Tensor:
            with torch.enable_grad():
                rows, table = queries.detach().requires_grad_(), candidates.detach().requires_grad_()
                scores = self(rows, table)  # [b, M]
            value, gradient = loss(scores.detach())
            grad_rows, grad_table = torch.autograd.grad(scores, (rows, table), gradient)
            grad_queries += grad_rows
            grad_candidates += grad_table
            return value

        return step


class BiasedComparison(Comparison):
    """Another comparison plus the candidates' last column."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __call__(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """``[B, d_q], [M, d + 1] -> [B, M]``."""
        return self.comparison(queries, candidates[:, :-1]) + candidates[:, -1]

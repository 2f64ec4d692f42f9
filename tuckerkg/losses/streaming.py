"""The loss of a batch over all of its candidates, computed in chunks of queries; scores never exist as a whole.

Positives are grouped by query: with k positives, ``k * logsumexp(scores) - sum(scores[positives])`` is the sum of the
per-triple losses at the price of one row. Each loss writes the gradient of a chunk's scores next to its value, so the
forward pass already holds everything that the backward pass needs (``make bench``, stage "one-to-many").
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from tuckerkg.autograd import Context, apply
from tuckerkg.graph.known_tails import rows_of
from tuckerkg.kernels.comparison import Comparison
from tuckerkg.nn.contracts import Loss

CHUNK_SCORES = 1 << 22  # scores held at once: 16 MiB of float32, which stay in a shared cache


def streamed_loss(
    loss: Loss,
    comparison: Comparison,
    queries: Tensor,
    candidates: Tensor,
    offsets: Tensor,
    positives: Tensor,
    chunk_scores: int = CHUNK_SCORES,
    weights: Tensor | None = None,
) -> Tensor:
    """Compute the loss of ``queries [B, d_q]`` against ``candidates [M, d]``, averaged over the positives.

    Args:
        offsets, positives: query b's positives are ``positives[offsets[b]:offsets[b + 1]]``, ids of candidates.
        chunk_scores: how many scores are held at once, but at least one row.
        weights: importance weights ``[M]`` of a sample of candidates.

    Returns:
        A scalar with gradients to queries and candidates; ``comparison`` has no parameters.
    """
    total: Tensor = apply(
        _StreamedLoss,
        partial(loss.chunk, weights=weights),
        comparison,
        queries,
        candidates,
        offsets,
        positives,
        chunk_scores,
    )
    return total / max(positives.numel(), 1)


class _StreamedLoss(torch.autograd.Function):
    """Computes value and gradients in one pass over chunks of queries."""

    @staticmethod
    def forward(
        ctx: Context,
        chunk_loss: partial[tuple[Tensor, Tensor]],
        comparison: Comparison,
        queries: Tensor,
        candidates: Tensor,
        offsets: Tensor,
        positives: Tensor,
        chunk_scores: int,
    ) -> Tensor:
        step = max(1, chunk_scores // max(candidates.shape[0], 1))
        rows = rows_of(offsets)
        bounds = offsets.tolist()
        chunk_step = comparison.stream(candidates)
        grad_queries, grad_candidates = torch.zeros_like(queries), torch.zeros_like(candidates)
        total = queries.new_zeros(())
        for first in range(0, queries.shape[0], step):
            last = min(first + step, queries.shape[0])
            span = slice(bounds[first], bounds[last])
            chunk = partial(chunk_loss, rows=rows[span] - first, positives=positives[span])
            total += chunk_step(chunk, queries[first:last], grad_queries[first:last], grad_candidates)
        ctx.save_for_backward(grad_queries, grad_candidates)
        return total

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        grad_queries, grad_candidates = ctx.saved_tensors
        scale = gradients[0]
        return None, None, grad_queries * scale, grad_candidates * scale, None, None, None

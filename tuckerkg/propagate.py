"""The two steps of a relational layer: rows times their relation's matrix, and the (normalised) sum at the targets.

Both are written with their gradients, so that nothing the size of all edges exists, and of what has the size of the
distinct rows only the messages are kept for the way back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tuckerkg.graph import MessageGraph
from tuckerkg.norm import WeightedBatchNorm

ROWS_AT_ONCE = 8_192  # rows of messages that a pass over their statistics holds: a few MiB, in cache


def relation_products(entities: Tensor, matrices: Tensor, graph: MessageGraph) -> Tensor:
    """Gathered rows times their relation's matrix: ``[N, d_in], [R', d_in, d_out] -> [P', d_out]``.

    ``matrices`` come in the order of ``graph.groups.used``.
    """
    messages: Tensor = _RelationProducts.apply(entities, matrices, graph)  # type: ignore[no-untyped-call]
    return messages


class _RelationProducts(torch.autograd.Function):
    """A batched product per bucket; rows are gathered again on the way back instead of being kept."""

    @staticmethod
    def forward(ctx: Any, entities: Tensor, matrices: Tensor, graph: MessageGraph) -> Tensor:
        ctx.save_for_backward(entities, matrices)
        ctx.graph = graph
        messages = entities.new_empty(graph.num_rows, matrices.shape[2])
        first = 0
        for bucket in graph.groups.buckets:
            last = first + len(bucket.relation_ids)
            rows = graph.gather.forward.part(bucket.start, bucket.stop) @ entities
            out = messages[bucket.start : bucket.stop].view(last - first, bucket.length, -1)
            torch.bmm(rows.view(last - first, bucket.length, -1), matrices[first:last], out=out)
            first = last
        return messages

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        entities, matrices = ctx.saved_tensors
        graph: MessageGraph = ctx.graph
        grad_rows = entities.new_empty(graph.num_rows, entities.shape[1]) if ctx.needs_input_grad[0] else None
        grad_matrices = torch.empty_like(matrices)
        first = 0
        for bucket in graph.groups.buckets:
            last = first + len(bucket.relation_ids)
            shape = (last - first, bucket.length, -1)
            gradient = gradients[0][bucket.start : bucket.stop].view(shape)
            rows = (graph.gather.forward.part(bucket.start, bucket.stop) @ entities).view(shape)
            torch.bmm(rows.transpose(1, 2), gradient, out=grad_matrices[first:last])
            if grad_rows is not None:
                out = grad_rows[bucket.start : bucket.stop].view(shape)
                torch.bmm(gradient, matrices[first:last].transpose(1, 2), out=out)
            first = last
        return None if grad_rows is None else graph.gather.transposed @ grad_rows, grad_matrices, None


def factor_products(entities: Tensor, factors: Tensor, graph: MessageGraph) -> Tensor:
    """Gathered rows times their relation's factors, number by number: ``[N, n_b], [2R, n_b] -> [P', n_b]``."""
    products: Tensor = _FactorProducts.apply(entities, factors, graph)  # type: ignore[no-untyped-call]
    return products


class _FactorProducts(torch.autograd.Function):
    """Eq. (7) between its projections; rows and factors are gathered again on the way back."""

    @staticmethod
    def forward(ctx: Any, entities: Tensor, factors: Tensor, graph: MessageGraph) -> Tensor:
        ctx.save_for_backward(entities, factors)
        ctx.graph = graph
        products = graph.gather.forward @ entities
        for bucket in graph.groups.buckets:
            out = products[bucket.start : bucket.stop].view(-1, bucket.length, factors.shape[1])
            out *= factors[bucket.relation_ids][:, None]
        return products

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        entities, factors = ctx.saved_tensors
        graph: MessageGraph = ctx.graph
        grad_rows = torch.empty_like(gradients[0])
        grad_factors = torch.zeros_like(factors)
        for bucket in graph.groups.buckets:
            shape = (-1, bucket.length, factors.shape[1])
            gradient = gradients[0][bucket.start : bucket.stop].view(shape)
            rows = (graph.gather.forward.part(bucket.start, bucket.stop) @ entities).view(shape)
            out = grad_rows[bucket.start : bucket.stop].view(shape)
            torch.mul(gradient, factors[bucket.relation_ids][:, None], out=out)
            grad_factors[bucket.relation_ids] = (gradient * rows).sum(1)
        return graph.gather.transposed @ grad_rows, grad_factors, None


def normalised_sum(messages: Tensor, graph: MessageGraph, norm: WeightedBatchNorm | None) -> Tensor:
    """``sum over edges of norm(message) / c`` at each target: ``[P', d] -> [N, d]``, statistics over edges.

    The norm is affine per feature, so it is applied to the sums and not to every message. In training its statistics
    need the single messages: the graph's order must be "source".
    """
    if norm is None:
        return graph.scatter @ messages
    if not norm.training:
        return norm_of_sums(graph.scatter @ messages, graph, norm)
    if graph.multiplicity is None:
        raise ValueError("a norm over messages in training needs a graph with order 'source'")
    total, mean, var = _NormalisedSum.apply(  # type: ignore[no-untyped-call]
        messages, norm.weight, norm.bias, graph, norm.eps
    )
    norm.remember(mean, var, graph.num_edges)
    summed: Tensor = total
    return summed


def norm_of_sums(sums: Tensor, graph: MessageGraph, norm: WeightedBatchNorm) -> Tensor:
    """What a norm with fixed statistics makes of sums ``[N, d]`` of messages weighted by 1 / c."""
    scale, shift = norm.scale_and_shift()
    return torch.addcmul(graph.in_weight[:, None] * shift, sums, scale)


class _NormalisedSum(torch.autograd.Function):
    """With s = weight / sqrt(var + eps): ``total = s * (scatter @ messages) + (bias - mean s) * in_weight``."""

    @staticmethod
    def forward(
        ctx: Any, messages: Tensor, weight: Tensor, bias: Tensor, graph: MessageGraph, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        counts: Tensor = graph.multiplicity  # type: ignore[assignment]
        mean = (counts @ messages) / graph.num_edges  # [d]
        var = torch.zeros_like(mean)
        for first in range(0, len(messages), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            var += counts[part] @ (messages[part] - mean).square_()
        var /= graph.num_edges
        deviation = torch.rsqrt(var + eps)
        scale = weight * deviation
        sums = graph.scatter.forward @ messages  # [N, d]
        total = torch.addcmul(graph.in_weight[:, None] * (bias - mean * scale), sums, scale)
        ctx.save_for_backward(messages, sums, mean, deviation, weight)
        ctx.graph = graph
        ctx.mark_non_differentiable(mean, var)
        return total, mean, var

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        messages, sums, mean, deviation, weight = ctx.saved_tensors
        graph: MessageGraph = ctx.graph
        gradient, scale = gradients[0], weight * deviation
        grad_shift = graph.in_weight @ gradient  # [d]
        grad_scale = (gradient * sums).sum(0) - mean * grad_shift  # [d]
        grad_messages = graph.scatter.transposed @ (gradient * scale)
        # The mean and the variance are averages over edges: of m, and of (m - mean)^2.
        slope = -grad_scale * weight * deviation**3 / graph.num_edges
        level = -scale * grad_shift / graph.num_edges - slope * mean
        counts = graph.multiplicity[:, None]  # type: ignore[index]
        for first in range(0, len(messages), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            grad_messages[part].addcmul_(counts[part], torch.addcmul(level, messages[part], slope))
        return grad_messages, grad_scale * deviation, grad_shift, None, None

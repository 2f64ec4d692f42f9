"""A relational layer's sum of messages: rows times their relation's matrix, summed at the targets, with gradients.

Why it is written by hand. A message depends on its source and relation only, so each distinct (source, relation) pair
is one row, however many edges carry it: on FB15k-237 149,689 rows instead of 544,230 edges. Rows of one relation meet
one matrix, so a batched product per bucket of relations does the arithmetic (``graph/row_groups.py``), and a fixed
sparse sum brings rows to their targets (``graph/sparse.py``). Left to autograd, every step in between would keep a
tensor of the size of all rows for the backward pass. Here there is one such buffer: the messages, which their own
gradients overwrite, and which the next step uses again; rows are gathered a second time instead of being kept, which
costs less than the memory traffic. Cost: 2 P' d_in d_out multiply-adds forward, twice that backward. ``make bench``,
stages "train-step" and "r-gcn-layer", compares with the bare products and with PyG.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tuckerkg.autograd import Context, apply
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.graph.row_groups import grouped_product
from tuckerkg.kernels.batch_norm import WeightedBatchNorm

ROWS_AT_ONCE = 8_192  # rows of messages that a pass over their statistics holds: a few MiB, in cache


class Buffers:
    """Memory that is used again: fresh pages for a large tensor cost more time than filling it."""

    def __init__(self) -> None:
        self._free: list[Tensor] = []

    def take(self, like: Tensor, size: int) -> Tensor:
        """A flat tensor of at least ``size`` numbers, of the kind of ``like``; its content is undefined."""
        for place, found in enumerate(self._free):
            if found.numel() >= size and (found.dtype, found.device) == (like.dtype, like.device):
                return self._free.pop(place)
        self._free.clear()
        return like.new_empty(size + size // 16)  # the next random subgraph may have a few rows more

    def give(self, buffer: Tensor) -> None:
        """Offer ``buffer`` for use again. One that is never given back is simply freed."""
        self._free.append(buffer)


def relational_sum(
    entities: Tensor, matrices: Tensor, graph: MessageGraph, norm: WeightedBatchNorm | None, buffers: Buffers
) -> Tensor:
    """``sum over edges of norm(W_r h_u) / c``: ``entities [N, d_in], matrices [R', d_in, d_out] -> [N, d_out]``.

    ``matrices`` come in the order of ``graph.groups.used``. The norm is affine per feature, so it is applied to the
    sums and not to every message; in training its statistics need single messages: the graph's order must be "source".
    """
    if norm is None or not norm.training:
        sums: Tensor
        if graph.scatter.transposed is None:
            sums = graph.scatter @ grouped_product(graph.gather @ entities, matrices, graph.groups)
        else:
            sums = apply(_RelationalSum, entities, matrices, graph, buffers)
        return sums if norm is None else norm_of_sums(sums, graph, norm)
    total, mean, var = apply(_NormedRelationalSum, entities, matrices, norm.weight, norm.bias, graph, norm.eps, buffers)
    norm.remember(mean, var, graph.num_edges)
    summed: Tensor = total
    return summed


class _RelationalSum(torch.autograd.Function):
    """A batched product per bucket; backward gathers the rows again instead of keeping them."""

    @staticmethod
    def forward(ctx: Context, entities: Tensor, matrices: Tensor, graph: MessageGraph, buffers: Buffers) -> Tensor:
        ctx.save_for_backward(entities, matrices)
        ctx.graph, ctx.buffers = graph, buffers
        buffer = buffers.take(entities, graph.num_rows * matrices.shape[2])
        sums = graph.scatter.forward @ _messages(entities, matrices, graph, buffer)
        buffers.give(buffer)
        return sums

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        entities, matrices = ctx.saved_tensors
        buffer = ctx.buffers.take(entities, ctx.graph.num_rows * entities.shape[1])
        found = _gradients(entities, matrices, ctx.graph, gradients[0].contiguous(), buffer)
        ctx.buffers.give(buffer)
        return *found, None, None


class _NormedRelationalSum(torch.autograd.Function):
    """The same with the messages normed in training: they are kept, and overwritten by their gradients."""

    @staticmethod
    def forward(
        ctx: Context,
        entities: Tensor,
        matrices: Tensor,
        weight: Tensor,
        bias: Tensor,
        graph: MessageGraph,
        eps: float,
        buffers: Buffers,
    ) -> tuple[Tensor, Tensor, Tensor]:
        buffer = buffers.take(entities, graph.num_rows * max(matrices.shape[1:]))
        messages = _messages(entities, matrices, graph, buffer)
        total, mean, var, normed = _normed_sums(messages, weight, bias, graph, eps)
        ctx.save_for_backward(entities, matrices, buffer, *normed)
        ctx.graph, ctx.buffers = graph, buffers
        ctx.mark_non_differentiable(mean, var)
        return total, mean, var

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        entities, matrices, buffer, *normed = ctx.saved_tensors
        way_back = _NormBackwards(gradients[0], ctx.graph, *normed)
        found = _gradients(entities, matrices, ctx.graph, way_back.at_targets, buffer, way_back)
        ctx.buffers.give(buffer)
        return *found, way_back.grad_weight, way_back.grad_bias, None, None, None


def _messages(entities: Tensor, matrices: Tensor, graph: MessageGraph, buffer: Tensor) -> Tensor:
    """Fill ``buffer`` with every row's product and return it as ``[P', d_out]``."""
    messages = buffer[: graph.num_rows * matrices.shape[2]].view(graph.num_rows, -1)
    first = 0
    for bucket in graph.groups.buckets:
        last = first + len(bucket.relation_ids)
        shape = (last - first, bucket.length, -1)
        rows = (graph.gather.forward.part(bucket.start, bucket.stop) @ entities).view(shape)
        torch.bmm(rows, matrices[first:last], out=messages[bucket.start : bucket.stop].view(shape))
        first = last
    return messages


def _gradients(
    entities: Tensor,
    matrices: Tensor,
    graph: MessageGraph,
    gradient: Tensor,
    buffer: Tensor,
    norm: _NormBackwards | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradients of entities and matrices from ``gradient [N, d_out]`` of the sums.

    With ``norm``, ``buffer`` holds the messages when it comes, and each bucket's are read before they are overwritten;
    rows that are wider than messages would run ahead of the reading, and get memory of their own.
    """
    height, width = matrices.shape[1:]
    flat = buffer if norm is None or height <= width else torch.empty_like(buffer)
    grad_rows = flat[: graph.num_rows * height].view(graph.num_rows, -1)
    grad_matrices = torch.empty_like(matrices)
    first = 0
    for bucket in graph.groups.buckets:
        last = first + len(bucket.relation_ids)
        shape = (last - first, bucket.length, -1)
        grad_messages = graph.scatter.back.part(bucket.start, bucket.stop) @ gradient
        if norm is not None:
            part = slice(bucket.start, bucket.stop)
            norm.add_to(grad_messages, buffer[bucket.start * width : bucket.stop * width].view(-1, width), part)
        rows = (graph.gather.forward.part(bucket.start, bucket.stop) @ entities).view(shape)
        torch.bmm(rows.transpose(1, 2), grad_messages.view(shape), out=grad_matrices[first:last])
        out = grad_rows[bucket.start : bucket.stop].view(shape)
        torch.bmm(grad_messages.view(shape), matrices[first:last].transpose(1, 2), out=out)
        first = last
    return graph.gather.back @ grad_rows, grad_matrices


def factor_products(entities: Tensor, factors: Tensor, graph: MessageGraph) -> Tensor:
    """Gathered rows times their relation's factors, number by number: ``[N, n_b], [2R, n_b] -> [P', n_b]``."""
    products: Tensor = apply(_FactorProducts, entities, factors, graph)
    return products


class _FactorProducts(torch.autograd.Function):
    """Eq. (7) between its projections; backward gathers rows and factors again."""

    @staticmethod
    def forward(ctx: Context, entities: Tensor, factors: Tensor, graph: MessageGraph) -> Tensor:
        ctx.save_for_backward(entities, factors)
        ctx.graph = graph
        products = graph.gather.forward @ entities
        for bucket in graph.groups.buckets:
            out = products[bucket.start : bucket.stop].view(-1, bucket.length, factors.shape[1])
            out *= factors[bucket.relation_ids][:, None]
        return products

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
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
            grad_factors[bucket.relation_ids] = rows.mul_(gradient).sum(1)
        return graph.gather.back @ grad_rows, grad_factors, None


def strength_sum(entities: Tensor, strengths: Tensor, graph: MessageGraph) -> Tensor:
    """``sum over edges of a_r h_u / c``: ``entities [N, d]``, ``strengths [2R]`` -> ``[N, d]``."""
    if graph.scatter.transposed is None:
        return graph.scatter @ ((graph.gather @ entities) * strengths[graph.groups.relation_ids][:, None])
    sums: Tensor = apply(_StrengthSum, entities, strengths, graph)
    return sums


class _StrengthSum(torch.autograd.Function):
    """Strengths scale the numbers of the sparse matrices, of which there are fewer than of the messages."""

    @staticmethod
    def forward(ctx: Context, entities: Tensor, strengths: Tensor, graph: MessageGraph) -> Tensor:
        rows = graph.gather.forward @ entities  # [P', d]
        ctx.save_for_backward(rows, strengths)
        ctx.graph = graph
        return graph.scatter.forward.scaled(strengths[graph.groups.relation_ids]) @ rows

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        rows, strengths = ctx.saved_tensors
        graph: MessageGraph = ctx.graph
        relation_ids = graph.groups.relation_ids
        grad_rows = graph.scatter.back @ gradients[0].contiguous()  # [P', d], before the strengths
        slopes = torch.cat(
            [
                (mine * other).sum(1)
                for mine, other in zip(rows.split(ROWS_AT_ONCE), grad_rows.split(ROWS_AT_ONCE), strict=True)
            ]
        )  # [P']
        grad_strengths = torch.zeros_like(strengths).index_add_(0, relation_ids, slopes)
        return graph.gather.back.scaled(strengths[relation_ids]) @ grad_rows, grad_strengths, None


def normalized_sum(messages: Tensor, graph: MessageGraph, norm: WeightedBatchNorm) -> Tensor:
    """``sum over edges of norm(message) / c`` in training: ``[P', d] -> [N, d]``, statistics over edges."""
    total, mean, var = apply(_NormalizedSum, messages, norm.weight, norm.bias, graph, norm.eps)
    norm.remember(mean, var, graph.num_edges)
    summed: Tensor = total
    return summed


def norm_of_sums(sums: Tensor, graph: MessageGraph, norm: WeightedBatchNorm) -> Tensor:
    """What a norm with fixed statistics makes of sums ``[N, d]`` of messages weighted by 1 / c."""
    scale, shift = norm.scale_and_shift()
    return torch.addcmul(graph.in_weight[:, None] * shift, sums, scale)


class _NormalizedSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, messages: Tensor, weight: Tensor, bias: Tensor, graph: MessageGraph, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        total, mean, var, normed = _normed_sums(messages, weight, bias, graph, eps)
        ctx.save_for_backward(messages, *normed)
        ctx.graph = graph
        ctx.mark_non_differentiable(mean, var)
        return total, mean, var

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        messages, *normed = ctx.saved_tensors
        way_back = _NormBackwards(gradients[0], ctx.graph, *normed)
        grad_messages = ctx.graph.scatter.back @ way_back.at_targets
        for first in range(0, len(messages), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            way_back.add_to(grad_messages[part], messages[part], part)
        return grad_messages, way_back.grad_weight, way_back.grad_bias, None, None


def _multiplicity(graph: MessageGraph) -> Tensor:
    """How many edges carry each row, ``[P']``; needed for statistics over single messages."""
    if graph.multiplicity is None:
        raise ValueError("a norm over messages in training needs a graph with order 'source'")
    return graph.multiplicity


def _normed_sums(
    messages: Tensor, weight: Tensor, bias: Tensor, graph: MessageGraph, eps: float
) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, ...]]:
    """With s = weight / sqrt(var + eps): ``total = s * (scatter @ messages) + (bias - mean s) * in_weight``.

    Returns total, mean, variance, and what backward needs.
    """
    counts = _multiplicity(graph)
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
    return total, mean, var, (sums, mean, deviation, weight)


class _NormBackwards:
    """The gradients of ``_normed_sums``: of weight and bias at once, of the messages part by part."""

    def __init__(
        self, gradient: Tensor, graph: MessageGraph, sums: Tensor, mean: Tensor, deviation: Tensor, weight: Tensor
    ) -> None:
        scale = weight * deviation
        self.counts = _multiplicity(graph)
        self.grad_bias = graph.in_weight @ gradient  # [d]
        grad_scale = (gradient * sums).sum(0) - mean * self.grad_bias  # [d]
        self.grad_weight = grad_scale * deviation
        self.at_targets = gradient * scale  # [N, d]
        # The mean and the variance are averages over edges: of m, and of (m - mean)^2.
        self.slope = -grad_scale * weight * deviation**3 / graph.num_edges
        self.level = -scale * self.grad_bias / graph.num_edges - self.slope * mean

    def add_to(self, grad_messages: Tensor, messages: Tensor, part: slice) -> None:
        """Add what the statistics mean for the messages of rows ``part``."""
        grad_messages.addcmul_(self.counts[part, None], torch.addcmul(self.level, messages, self.slope))

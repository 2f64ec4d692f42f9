"""Losses over all candidates of a batch, walked in chunks of queries; scores never exist as a whole.

Positives are grouped by query: with k positives, ``k * logsumexp(scores) - sum(scores[positives])`` is the sum of the
per-triple losses at the price of one row. Each loss writes the gradient of a chunk's scores next to its value, so that
the walk forward already holds everything the way back needs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.answers import rows_of
from tuckerkg.dot import DotProduct
from tuckerkg.options import PositiveFloat, Power, Smoothing

Stands = Literal["shifted", "weighed", "for itself"]
Compare = Callable[[Tensor, Tensor], Tensor]

CHUNK_SCORES = 1 << 22  # scores held at once: 16 MiB of float32, which stay in a shared cache


class ScoreLoss(Protocol):
    """Turns a chunk of scores into a value and the gradient of the scores.

    ``marks_known`` says whether every known training tail of a query is to be a positive; ``sample_stands`` how a
    sample of candidates stands for all: scores ``shifted`` down by the log of the candidate's chance to be drawn, terms
    ``weighed`` by one over it, or only for itself.
    """

    marks_known: bool
    sample_stands: Stands

    def chunk(
        self, scores: Tensor, rows: Tensor, positives: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """``scores [b, M]`` with positives at ``[rows, positives]`` -> summed loss, gradient ``[b, M]``.

        ``weights [M]`` are given to a loss whose candidates are ``weighed``, where they are a sample.

        Overwrites ``scores``: a decoder's comparison must not need its own output for its gradient (torch says so
        if it does).
        """


class NTXent(nn.Module):
    """1-b training, Eq. (11): softmax over the batch's entities, one term per positive.

    Differs from the printed equation: the denominator's scores are divided by the temperature too, without which it is
    no distribution. ``label_smoothing`` e moves that share of each target evenly over all candidates. A query with k
    positives counts ``k ** count_power`` times: 1 is one term per positive, 0 is one per query, its target spread over
    its positives, and what lies between is between.
    """

    marks_known = False
    sample_stands: Stands = "shifted"

    def __init__(
        self, *, temperature: PositiveFloat = 1.0, label_smoothing: Smoothing = 0.0, count_power: Power = 1.0
    ) -> None:
        super().__init__()
        self.temperature, self.label_smoothing, self.count_power = temperature, label_smoothing, count_power

    def weight(self, counts: Tensor) -> Tensor:
        """How often each query counts, ``[B]``, by its number of positives."""
        return counts if self.count_power == 1.0 else torch.where(counts > 0, counts**self.count_power, 0.0)

    def chunk(
        self, scores: Tensor, rows: Tensor, positives: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """``sum over queries of k logsumexp(s) - (1 - e) sum s[positives] - e k mean s``, with s = scores / tau."""
        if self.temperature != 1.0:
            scores = scores.div_(self.temperature)
        found = torch.bincount(rows, minlength=scores.shape[0]).to(scores.dtype)  # [b] k
        counts = self.weight(found)
        keep = (1.0 - self.label_smoothing) * (counts / found.clamp(min=1.0))[rows]  # [K] of each positive
        value = -(keep * scores[rows, positives]).sum()
        if self.label_smoothing:
            value = value - self.label_smoothing * (counts * scores.mean(1)).sum()
        top = scores.amax(1)  # [b]
        powers = scores.sub_(top[:, None]).exp_()  # one exponential serves the value and the gradient
        total = powers.sum(1)  # [b]
        value = value + (counts * (total.log() + top)).sum()
        gradient = powers.mul_((counts / total)[:, None])
        if self.label_smoothing:
            gradient.sub_((self.label_smoothing / scores.shape[1]) * counts[:, None])
        gradient.index_put_((rows, positives), -keep, accumulate=True)
        if self.temperature != 1.0:
            gradient.div_(self.temperature)
        return value, gradient


class BinaryCrossEntropy(nn.Module):
    """1-N training, Eq. (10), as printed: each triple marks its own tail only, y = 1 if t' = t.

    Grouped by query: ``k sum softplus(s) - sum s[positives]``, divided by the number of candidates.
    """

    marks_known = False
    sample_stands: Stands = "weighed"

    def __init__(self, *, label_smoothing: Smoothing = 0.0) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing

    def chunk(
        self, scores: Tensor, rows: Tensor, positives: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Every positive of a query is a labelling of its own."""
        counts = torch.bincount(rows, minlength=scores.shape[0]).to(scores.dtype)
        return _binary(scores, rows, positives, counts, self.label_smoothing, weights)


class BinaryCrossEntropyAll(nn.Module):
    """1-N training with all known tails of a query marked at once: ``sum softplus(s) - sum s[tails]``."""

    marks_known = True
    sample_stands: Stands = "weighed"

    def __init__(self, *, label_smoothing: Smoothing = 0.0) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing

    def chunk(
        self, scores: Tensor, rows: Tensor, positives: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """One labelling per query."""
        return _binary(scores, rows, positives, scores.new_ones(scores.shape[0]), self.label_smoothing, weights)


def _binary(
    scores: Tensor,
    rows: Tensor,
    positives: Tensor,
    counts: Tensor,
    label_smoothing: float,
    weights: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """``counts`` labellings per query, together marking ``positives``; smoothed labels are (1 - e) y + e / M.

    Where candidates are a sample, each stands for ``weights`` many, but a query's positives, always there, for one.
    """
    keep = 1.0 - label_smoothing
    if weights is None:
        candidates, over = scores.new_tensor(float(scores.shape[1])), None
        softplus = F.softplus(scores).sum(1)  # [b]
    else:
        candidates, over = weights.sum(), (weights[positives] - 1.0) * counts[rows]  # [K] what positives weigh too much
        softplus = F.softplus(scores) @ weights
    true = scores[rows, positives]  # [K]
    value = counts @ softplus - keep * true.sum()
    if over is not None:
        value = value - over @ (F.softplus(true) - label_smoothing / candidates * true)
    if label_smoothing:
        total = scores.sum(1) if weights is None else scores @ weights
        value = value - label_smoothing / candidates * (counts @ total)
    gradient = torch.sigmoid_(scores)
    if label_smoothing:
        gradient.sub_(label_smoothing / candidates)
    if weights is not None:
        gradient.mul_(weights)
    gradient.mul_(counts[:, None])
    at_true = true.new_full((), -keep)
    if over is not None:
        at_true = at_true - over * (torch.sigmoid(true) - label_smoothing / candidates)
    gradient.index_put_((rows, positives), at_true, accumulate=True)
    return value / candidates, gradient.div_(candidates)


class SelfAdversarial(nn.Module):
    """Negative sampling of Sun et al. (2019): ``softplus(-s[t]) + sum over negatives of p softplus(s)``, halved.

    Negatives are the candidates that are no known tail of the query; p is the softmax of ``temperature`` times their
    scores, through which no gradient flows. How many there are is the batch's matter: ``batch.sampled_candidates``.
    """

    marks_known = True
    sample_stands: Stands = "for itself"

    def __init__(self, *, temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def chunk(
        self, scores: Tensor, rows: Tensor, positives: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Each of a query's k positives meets all of its negatives, so these count k times."""
        counts = torch.bincount(rows, minlength=scores.shape[0]).to(scores.dtype)
        true = scores[rows, positives]  # [K]
        weights = scores * self.temperature
        weights[rows, positives] = -torch.inf
        weights = torch.softmax(weights, 1).nan_to_num_(0.0).mul_(counts[:, None])  # a row without negatives: zeros
        value = -F.logsigmoid(true).sum() - (weights * F.logsigmoid(-scores)).sum()
        gradient = torch.sigmoid_(scores).mul_(weights)
        gradient.index_put_((rows, positives), -torch.sigmoid(-true), accumulate=True)
        return value / 2.0, gradient.div_(2.0)


LOSSES = {
    "softmax": NTXent,
    "bce": BinaryCrossEntropy,
    "bce-all": BinaryCrossEntropyAll,
    "self-adversarial": SelfAdversarial,
}


def streamed_loss(
    loss: ScoreLoss,
    compare: Compare,
    queries: Tensor,
    candidates: Tensor,
    offsets: Tensor,
    positives: Tensor,
    chunk_scores: int = CHUNK_SCORES,
    weights: Tensor | None = None,
) -> Tensor:
    """The loss of ``queries [B, d_q]`` against ``candidates [M, d]``, averaged over the positives.

    Query b's positives are ``positives[offsets[b]:offsets[b + 1]]``, ids of candidates. Holds at most ``chunk_scores``
    scores at once, but at least one row. Gradients go to queries and candidates; ``compare`` has no parameters.
    ``weights [M]`` go to a loss whose candidates are weighed.
    """
    total: Tensor = _StreamedLoss.apply(  # type: ignore[no-untyped-call]
        partial(loss.chunk, weights=weights), compare, queries, candidates, offsets, positives, chunk_scores
    )
    if isinstance(loss, NTXent) and loss.count_power != 1.0:
        return total / loss.weight((offsets[1:] - offsets[:-1]).to(queries.dtype)).sum().clamp(min=1.0)
    return total / max(positives.numel(), 1)


class _StreamedLoss(torch.autograd.Function):
    """Computes value and gradients in one walk over chunks of queries."""

    @staticmethod
    def forward(
        ctx: Any,
        chunk_loss: Callable[..., tuple[Tensor, Tensor]],
        compare: Compare,
        queries: Tensor,
        candidates: Tensor,
        offsets: Tensor,
        positives: Tensor,
        chunk_scores: int,
    ) -> Tensor:
        step = max(1, chunk_scores // max(candidates.shape[0], 1))
        rows = rows_of(offsets)
        bounds = offsets.tolist()
        walk = _tiled(compare, candidates) if isinstance(compare, DotProduct) else _followed(compare, candidates)
        grad_queries, grad_candidates = torch.zeros_like(queries), torch.zeros_like(candidates)
        total = queries.new_zeros(())
        for first in range(0, queries.shape[0], step):
            last = min(first + step, queries.shape[0])
            span = slice(bounds[first], bounds[last])
            chunk = partial(chunk_loss, rows=rows[span] - first, positives=positives[span])
            total += walk(chunk, queries[first:last], grad_queries[first:last], grad_candidates)
        ctx.save_for_backward(grad_queries, grad_candidates)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        grad_queries, grad_candidates = ctx.saved_tensors
        scale = gradients[0]
        return None, None, grad_queries * scale, grad_candidates * scale, None, None, None


Chunk = Callable[[Tensor], tuple[Tensor, Tensor]]
Walk = Callable[[Chunk, Tensor, Tensor, Tensor], Tensor]
"""One chunk of queries: its value; gradients are added to those of the queries and of the candidates."""


def _tiled(compare: DotProduct, candidates: Tensor) -> Walk:
    """Dot products: gradients go straight to where they are summed, and one buffer serves all chunks."""
    table = compare.operand(candidates)
    buffer = candidates.new_empty(0)

    def walk(chunk: Chunk, queries: Tensor, grad_queries: Tensor, grad_candidates: Tensor) -> Tensor:
        nonlocal buffer
        size = len(candidates) * len(queries)
        buffer = buffer if buffer.numel() >= size else candidates.new_empty(size)
        rows = compare.operand(queries)
        scores = compare.scores(rows, table, buffer[:size].view(len(candidates), len(queries)))
        value, gradient = chunk(scores)
        compare.add_gradients(gradient, rows, table, grad_queries, grad_candidates)
        return value

    return walk


def _followed(compare: Compare, candidates: Tensor) -> Walk:
    """Any other comparison: autograd finds its gradient, chunk by chunk."""

    def walk(chunk: Chunk, queries: Tensor, grad_queries: Tensor, grad_candidates: Tensor) -> Tensor:
        with torch.enable_grad():
            rows, table = queries.detach().requires_grad_(), candidates.detach().requires_grad_()
            scores = compare(rows, table)  # [b, M]
        value, gradient = chunk(scores.detach())
        grad_rows, grad_table = torch.autograd.grad(scores, (rows, table), gradient)
        grad_queries += grad_rows
        grad_candidates += grad_table
        return value

    return walk

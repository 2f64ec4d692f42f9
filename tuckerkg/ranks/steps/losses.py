"""Losses over candidates that lie in shards: what a shard's scores say alone, and what they mean beside the others'.

A softmax needs its sum over all candidates: every shard gives its largest score and the sum of the powers below it, and
with those of all shards each finishes its own gradients. Binary cross entropies need nothing of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tuckerkg.errors import SettingsError
from tuckerkg.losses.bce import BinaryCrossEntropy, BinaryCrossEntropyAll, binary
from tuckerkg.losses.nt_xent import NTXent
from tuckerkg.nn.contracts import Loss


@dataclass(frozen=True)
class ShardScores:
    """Scores of a chunk of queries with the candidates of one shard; they may be overwritten."""

    scores: Tensor  # [b, m]
    rows: Tensor  # [p] rows of the positives that are in this shard
    positives: Tensor  # [p] their places in it
    counts: Tensor  # [b] positives of each query, in any shard
    weights: Tensor | None  # [m] importance weights of a sample


class ShardLoss(Protocol):
    """What is computed of a shard before and after the shards' sums are exchanged."""

    def begin(self, part: ShardScores) -> tuple[Tensor, Tensor | None]:
        """The part of the value that this shard has alone, and what others need to know ``[k, b]``."""
        ...

    def common(self, sums: Tensor, counts: Tensor) -> Tensor:
        """The part of the value that depends on ``sums [S, k, b]`` of all shards."""
        ...

    def finish(self, part: ShardScores, own: Tensor | None, sums: Tensor | None) -> Tensor:
        """The gradient of the scores ``[b, m]``."""
        ...


class ShardSoftmax(ShardLoss):
    """``NTXent`` in shards, over ``candidates`` in all."""

    def __init__(self, loss: NTXent, candidates: int) -> None:
        self.temperature, self.smoothing, self.candidates = loss.temperature, loss.label_smoothing, candidates

    def begin(self, part: ShardScores) -> tuple[Tensor, Tensor | None]:
        """The positives' scores; the largest score and the sum of powers."""
        scores = part.scores if self.temperature == 1.0 else part.scores.div_(self.temperature)
        value = -((1.0 - self.smoothing) * scores[part.rows, part.positives]).sum()
        if self.smoothing:
            value = value - self.smoothing / self.candidates * (part.counts * scores.sum(1)).sum()
        if scores.shape[1] == 0:
            return value, torch.stack(
                [part.counts.new_full(part.counts.shape, -torch.inf), torch.zeros_like(part.counts)]
            )
        top = scores.amax(1)
        return value, torch.stack([top, scores.sub_(top[:, None]).exp_().sum(1)])

    def common(self, sums: Tensor, counts: Tensor) -> Tensor:
        """``k logsumexp(s)``."""
        top, total = _joined(sums)
        return (counts * (total.log() + top)).sum()

    def finish(self, part: ShardScores, own: Tensor | None, sums: Tensor | None) -> Tensor:
        """Powers over their sum, less the positives."""
        assert own is not None
        assert sums is not None
        top, total = _joined(sums)
        gradient = part.scores.mul_((part.counts / total * torch.exp(own[0] - top))[:, None])
        if self.smoothing:
            gradient.sub_((self.smoothing / self.candidates) * part.counts[:, None])
        keep = torch.full_like(part.rows, 1.0 - self.smoothing, dtype=gradient.dtype)
        gradient.index_put_((part.rows, part.positives), -keep, accumulate=True)
        return gradient if self.temperature == 1.0 else gradient.div_(self.temperature)


class ShardBinary(ShardLoss):
    """Binary cross entropy in shards; ``candidates`` is their number, or the sum of their importance weights."""

    def __init__(self, loss: BinaryCrossEntropy | BinaryCrossEntropyAll, candidates: float) -> None:
        self.once, self.smoothing, self.candidates = loss.marks_known, loss.label_smoothing, candidates

    def begin(self, part: ShardScores) -> tuple[Tensor, Tensor | None]:
        """Everything: the gradient takes the place of the scores."""
        counts = torch.ones_like(part.counts) if self.once else part.counts
        total = part.scores.new_tensor(self.candidates)
        value, gradient = binary(
            part.scores, part.rows, part.positives, counts, self.smoothing, part.weights, candidates=total
        )
        assert gradient is part.scores
        return value, None

    def common(self, sums: Tensor, counts: Tensor) -> Tensor:
        """Nothing."""
        return counts.new_zeros(())

    def finish(self, part: ShardScores, own: Tensor | None, sums: Tensor | None) -> Tensor:
        """What ``begin`` left."""
        return part.scores


def _joined(sums: Tensor) -> tuple[Tensor, Tensor]:
    """Largest score and sum of powers over all shards, of ``sums [S, 2, b]``, in the order of the shards."""
    tops, totals = sums[:, 0], sums[:, 1]
    top = tops.amax(0)
    return top, (totals * torch.exp(tops - top)).sum(0)


def shard_loss(loss: Loss, candidates: int, weights: Tensor | None) -> ShardLoss:
    """The same loss for candidates in shards.

    Raises:
        SettingsError: it is none of those that are known to add up.
    """
    makers: dict[type, Callable[[], ShardLoss]] = {
        NTXent: lambda: ShardSoftmax(loss, candidates),  # type: ignore[arg-type]
        BinaryCrossEntropy: lambda: ShardBinary(loss, _total(candidates, weights)),  # type: ignore[arg-type]
        BinaryCrossEntropyAll: lambda: ShardBinary(loss, _total(candidates, weights)),  # type: ignore[arg-type]
    }
    if type(loss) not in makers:
        raise SettingsError(f"loss {type(loss).__name__}: is not trained on ranks; choose softmax, bce or bce-all")
    return makers[type(loss)]()


def _total(candidates: int, weights: Tensor | None) -> float:
    return float(candidates) if weights is None else float(weights.sum())

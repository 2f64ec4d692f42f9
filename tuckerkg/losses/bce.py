"""Binary cross entropy over candidates, Eq. (10)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.nn.contracts import Loss
from tuckerkg.ranges import Smoothing


class BinaryCrossEntropy(Loss):
    """1-N training, Eq. (10), as printed: each triple marks its own tail only, y = 1 if t' = t.

    Grouped by query: ``k sum softplus(s) - sum s[positives]``, divided by the number of candidates.

    Args:
        label_smoothing: share of each label that is spread evenly over all candidates.
    """

    correction = "importance"

    def __init__(self, *, label_smoothing: Smoothing = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def chunk(
        self, scores: Tensor, rows: Tensor, positives: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Every positive of a query is a labelling of its own."""
        counts = torch.bincount(rows, minlength=scores.shape[0]).to(scores.dtype)
        return binary(scores, rows, positives, counts, self.label_smoothing, weights)


class BinaryCrossEntropyAll(Loss):
    """1-N training with all known tails of a query marked at once: ``sum softplus(s) - sum s[tails]``.

    Args:
        label_smoothing: share of each label that is spread evenly over all candidates.
    """

    marks_known = True
    correction = "importance"

    def __init__(self, *, label_smoothing: Smoothing = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def chunk(
        self, scores: Tensor, rows: Tensor, positives: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """One labelling per query."""
        return binary(scores, rows, positives, scores.new_ones(scores.shape[0]), self.label_smoothing, weights)


def binary(
    scores: Tensor,
    rows: Tensor,
    positives: Tensor,
    counts: Tensor,
    label_smoothing: float,
    weights: Tensor | None,
    candidates: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``counts`` labellings per query, together marking ``positives``; smoothed labels are (1 - e) y + e / M.

    Where candidates are a sample, each counts ``weights`` times, but a query's positives, which are always in the
    sample, once. ``candidates`` is their number or weight where these are not all of them.
    """
    keep = 1.0 - label_smoothing
    if weights is None:
        over, number = None, scores.new_tensor(float(scores.shape[1]))
        softplus = F.softplus(scores).sum(1)  # [b]
    else:
        over, number = (weights[positives] - 1.0) * counts[rows], weights.sum()  # [K] the positives' excess weight
        softplus = F.softplus(scores) @ weights
    candidates = number if candidates is None else candidates
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

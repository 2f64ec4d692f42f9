"""Softmax over candidates, Eq. (11)."""

from __future__ import annotations

import torch
from torch import Tensor

from tuckerkg.nn.contracts import Loss
from tuckerkg.ranges import PositiveFloat, Smoothing


class NTXent(Loss):
    """1-b training, Eq. (11): softmax over the batch's candidates, one term per positive.

    Differs from the printed equation: the denominator's scores are divided by the temperature too, without which it is
    not a distribution.

    Args:
        temperature: tau, which scores are divided by.
        label_smoothing: share of each target that is spread evenly over all candidates.
    """

    correction = "logq"

    def __init__(self, *, temperature: PositiveFloat = 1.0, label_smoothing: Smoothing = 0.0) -> None:
        self.temperature, self.label_smoothing = temperature, label_smoothing

    def chunk(
        self, scores: Tensor, rows: Tensor, positives: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """``sum over queries of k logsumexp(s) - (1 - e) sum s[positives] - e k mean s``, with s = scores / tau."""
        if self.temperature != 1.0:
            scores = scores.div_(self.temperature)
        counts = torch.bincount(rows, minlength=scores.shape[0]).to(scores.dtype)  # [b] k
        keep = 1.0 - self.label_smoothing
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
        gradient.index_put_((rows, positives), -torch.full_like(rows, keep, dtype=scores.dtype), accumulate=True)
        if self.temperature != 1.0:
            gradient.div_(self.temperature)
        return value, gradient

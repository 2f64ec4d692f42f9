"""Self-adversarial negative sampling."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.nn.contracts import Loss
from tuckerkg.ranges import PositiveFloat


class SelfAdversarial(Loss):
    """Negative sampling of Sun et al. (2019): ``softplus(-s[t]) + sum over negatives of p softplus(s)``, halved.

    Negatives are the candidates that are not a known tail of the query; p is the softmax of ``temperature`` times their
    scores, through which no gradient flows. The phase's ``candidates`` is their number.

    Args:
        temperature: how much harder negatives count more.
    """

    marks_known = True

    def __init__(self, *, temperature: PositiveFloat = 1.0) -> None:
        self.temperature = temperature

    def chunk(
        self, scores: Tensor, rows: Tensor, positives: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Each of a query's k positives meets all of its negatives, so these count k times."""
        counts = torch.bincount(rows, minlength=scores.shape[0]).to(scores.dtype)
        true = scores[rows, positives]  # [K]
        hardness = scores * self.temperature
        hardness[rows, positives] = -torch.inf
        hardness = torch.softmax(hardness, 1).nan_to_num_(0.0).mul_(counts[:, None])  # no negatives: zeros
        value = -F.logsigmoid(true).sum() - (hardness * F.logsigmoid(-scores)).sum()
        gradient = torch.sigmoid_(scores).mul_(hardness)
        gradient.index_put_((rows, positives), -torch.sigmoid(-true), accumulate=True)
        return value / 2.0, gradient.div_(2.0)

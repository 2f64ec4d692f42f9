"""The k best of every row of scores, ties in a fixed order."""

from __future__ import annotations

import torch
from torch import Tensor


def top_of_rows(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Values and places ``[b, k']`` of the ``k' = min(k, M)`` largest of ``scores [b, M]``, best first.

    Equal scores come in order of place, so that the best k are the beginning of the best k + 1. Rows are not sorted
    as a whole, except where the last score taken has an equal that was left out.
    """
    if k >= scores.shape[1]:
        return _sorted(scores, k)
    scores = scores.contiguous()
    values, places = scores.topk(k + 1)
    unclear = (values[:, k] == values[:, k - 1]).nonzero()[:, 0]
    places = places[:, :k].sort(1).values
    values, order = _sorted(scores.gather(1, places), k)
    places = places.gather(1, order)
    if len(unclear):
        values[unclear], places[unclear] = _sorted(scores[unclear], k)
    return values, places


def _sorted(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    ordered = torch.sort(scores, dim=1, descending=True, stable=True)
    return ordered.values[:, :k], ordered.indices[:, :k]

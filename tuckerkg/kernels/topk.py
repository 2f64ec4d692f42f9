"""The k best of every row of scores, ties in a fixed order."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64  # neighbouring scores that are examined by their largest first
MANY = 1 << 17  # scores from which that pays


def top_of_rows(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Values and places ``[b, k']`` of the ``k' = min(k, M)`` largest of ``scores [b, M]``, best first.

    Equal scores come in order of place, so that the best k are the beginning of the best k + 1. Rows are not sorted
    as a whole, except where the last score taken has an equal that was left out.
    """
    if scores.numel() >= MANY and scores.shape[1] >= 4 * k * BLOCK:
        return _top_by_blocks(scores, k)
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


def _top_by_blocks(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Only the k blocks with the largest maxima, the earlier of equals first, can hold any of the k best.

    That is so with ties as well: every block left out has k blocks before it whose maximum is larger, or equal and
    at an earlier place.
    """
    whole = scores.shape[1] // BLOCK * BLOCK
    if scores.T.is_contiguous():  # queries side by side: the maxima of many queries in one walk
        maxima = scores.T[:whole].unflatten(0, (-1, BLOCK)).amax(1).T
    else:
        maxima = scores[:, :whole].unflatten(1, (-1, BLOCK)).amax(2)
    blocks = top_of_rows(maxima, k)[1].sort(1).values  # [b, k]
    places = (BLOCK * blocks[:, :, None] + torch.arange(BLOCK, device=scores.device)).flatten(1)
    rest = torch.arange(whole, scores.shape[1], device=scores.device).expand(len(scores), -1)
    places = torch.cat([places, rest], 1)
    values, order = top_of_rows(scores.gather(1, places), k)
    return values, places.gather(1, order)


def _sorted(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    ordered = torch.sort(scores, dim=1, descending=True, stable=True)
    return ordered.values[:, :k], ordered.indices[:, :k]

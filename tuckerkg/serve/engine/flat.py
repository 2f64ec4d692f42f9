"""The vectors of entities in a plane: their two directions of largest variance."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def in_plane(vectors: Tensor) -> tuple[np.ndarray, float]:
    """Principal components: places ``[M, 2]`` between -1 and 1, and the share of the variance that they keep.

    Args:
        vectors: ``[M, d]``.
    """
    centred = vectors.double() - vectors.double().mean(0)
    values, directions = torch.linalg.eigh(centred.T @ centred)  # ascending
    directions = directions[:, -2:].flip(1)
    # A direction and its opposite are equally right: the larger end points the same way every time.
    largest = directions.abs().argmax(0, keepdim=True)
    directions = directions * directions.gather(0, largest).sign()
    places = centred @ directions  # [M, 2]
    if places.shape[1] < 2:
        places = torch.cat([places, torch.zeros(len(places), 2 - places.shape[1], dtype=places.dtype)], 1)
    spread, total = float(values.clamp(min=0.0)[-2:].sum()), float(values.clamp(min=0.0).sum())
    return (places / places.abs().max().clamp(min=1e-12)).numpy(), spread / total if total > 0.0 else 1.0

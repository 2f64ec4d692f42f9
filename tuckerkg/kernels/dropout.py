"""Dropout decided by random bytes: an eighth of the random numbers that torch draws, which are most of its cost."""

from __future__ import annotations

import torch
from torch import Tensor


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """``x`` with numbers set to 0 at random in training, the others scaled up; see ``kept_bytes`` on the rate."""
    kept, gain = kept_bytes(rate, training, tuple(x.shape), x.device)
    return x if kept is None else x * kept.to(x.dtype).mul_(gain)


def kept_bytes(
    rate: float, training: bool, shape: tuple[int, ...], device: torch.device
) -> tuple[Tensor | None, float]:
    """Bytes of 0 (dropped) and 1, and the gain that makes up for the zeros; None and 1 where nothing is dropped.

    The rate is taken to the nearest multiple of 1 / 256, below 1.
    """
    zeros = min(round(256 * rate), 255) if training else 0
    if zeros == 0:
        return None, 1.0
    size = torch.Size(shape).numel()
    words = torch.empty(-(-size // 8), dtype=torch.long, device=device)
    words.random_(-(1 << 63), (1 << 63) - 1)
    kept = (words.view(torch.uint8)[:size] >= zeros).view(torch.uint8)
    return kept.view(shape), 256.0 / (256 - zeros)

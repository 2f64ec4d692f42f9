"""How far probabilities hold: what was said, and what was true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from tuckerkg.types import JsonObject

BINS = 15
LEAST = 100  # facts in a bin, but for the first one: with fewer, sampling noise counts as an error
SMALLEST = 1e-12


@dataclass(frozen=True)
class Bin:
    """Facts of about one probability: the mean probability, and the share that was true."""

    confidence: float
    accuracy: float
    count: int


@dataclass(frozen=True)
class Reliability:
    """``ece``: expected calibration error over bins of equal mass; with Brier score and log loss."""

    ece: float
    brier: float
    log_loss: float
    bins: tuple[Bin, ...]

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return asdict(self)


def reliability(chances: Tensor, is_true: Tensor, share: float = 1.0, weights: Tensor | None = None) -> Reliability:
    """Of facts with probabilities ``chances [n]``.

    Args:
        is_true: whether each is in the split that is measured on, ``[n]``.
        share: of all hidden facts, the part that this split holds: a probability p should find it true in ``share p``
            of the cases, and what is found is divided by ``share``.
        weights: importance weights, where the facts are a sample.
    """
    labels = is_true.double()
    bins = max(1, min(BINS, len(labels) // LEAST))
    importance = torch.ones_like(labels) if weights is None else weights
    order = torch.argsort(chances, stable=True)
    mass = torch.cumsum(importance[order], 0)
    part_of = torch.ceil(mass * (bins / mass[-1].clamp(min=SMALLEST)) - 1e-9).long() if len(mass) else mass.long()
    found, error, total = [], 0.0, max(float(importance.sum()), SMALLEST)
    for number in torch.unique(part_of):
        rows = order[part_of == number]
        size = importance[rows]
        said = float((size * chances[rows]).sum() / size.sum())
        true = float((size * labels[rows]).sum() / size.sum()) / share
        found.append(Bin(said, true, len(rows)))
        error += float(size.sum()) * abs(said - true) / total
    expected = (share * chances).clamp(SMALLEST, 1.0 - SMALLEST)
    losses = torch.nn.functional.binary_cross_entropy(expected, labels, reduction="none")
    return Reliability(
        ece=error,
        brier=float((importance * (expected - labels).square()).sum()) / total,
        log_loss=float((importance * losses).sum()) / total,
        bins=tuple(found),
    )


@dataclass(frozen=True)
class First:
    """The first facts of a list: the mean probability that was said, and the share that is true.

    ``true_by_test`` counts the test split alone, as the part of the hidden facts that it is: nothing was fitted on it.
    """

    count: int
    said: float
    true: float
    true_by_test: float


def first_of_list(
    chances: np.ndarray, is_true: np.ndarray, in_test: np.ndarray, test_share: float, counts: Sequence[int]
) -> tuple[First, ...]:
    """Of facts in the order of a list, for each of ``counts`` that it is long enough for."""
    return tuple(
        First(
            count,
            float(chances[:count].mean()),
            float(is_true[:count].mean()),
            float(in_test[:count].mean() / test_share) if test_share else float("nan"),
        )
        for count in counts
        if count <= len(chances)
    )

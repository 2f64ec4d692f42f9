"""How well classes are told: accuracy, macro F1, likelihood, confusion, and how far probabilities can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

BINS = 10  # of the calibration error


@dataclass(frozen=True)
class Judgement:
    """Classes that were told, beside the true ones.

    Attributes:
        confusion: how many items of a class (row) were put into a class (column), ``[C, C]``.
        likelihood: the geometric mean of the probability that the true class was given.
        calibration_error: the expected gap between the probability of the told class and how often it is right.
    """

    classes: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    likelihood: float
    calibration_error: float

    @property
    def count(self) -> int:
        """Judged items."""
        return sum(map(sum, self.confusion))

    @property
    def accuracy(self) -> float:
        """The share of right ones."""
        return sum(self.confusion[place][place] for place in range(len(self.classes))) / max(self.count, 1)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that there are."""
        found = []
        for place in range(len(self.classes)):
            own, told = sum(self.confusion[place]), sum(row[place] for row in self.confusion)
            if own:
                found.append(2 * self.confusion[place][place] / (own + told))
        return sum(found) / max(len(found), 1)

    @property
    def headline(self) -> float:
        """What training maximizes on labels that it does not see."""
        return self.likelihood

    headline_name = "likelihood"

    def figures(self) -> dict[str, float]:
        """For the log and for files."""
        return {
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "likelihood": self.likelihood,
            "calibration_error": self.calibration_error,
            "count": self.count,
        }

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.figures(), "classes": list(self.classes), "confusion": [list(row) for row in self.confusion]}


def judge(probabilities: Tensor, label: Tensor, classes: tuple[str, ...]) -> Judgement:
    """Hold probabilities ``[m, C]`` against the true classes ``[m]``."""
    number = len(classes)
    told = probabilities.argmax(1)
    counts = torch.bincount(label * number + told, minlength=number * number).view(number, number)
    own = probabilities[torch.arange(len(label)), label].clamp_min(1e-12)
    return Judgement(
        classes,
        tuple(tuple(row) for row in counts.tolist()),
        float(own.log().mean().exp()) if len(label) else 0.0,
        _calibration_error(probabilities.max(1).values, told == label),
    )


def _calibration_error(said: Tensor, right: Tensor) -> float:
    if not len(said):
        return 0.0
    bins = (said * BINS).long().clamp_max(BINS - 1)
    gaps = torch.zeros(BINS, dtype=torch.double).index_add_(0, bins, said.double() - right.double())
    return float(gaps.abs().sum() / len(said))

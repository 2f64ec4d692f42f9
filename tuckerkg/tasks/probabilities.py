"""Probabilities of classes from a committee's scores, and when it had better say that it is unsure.

Both are fitted on the labels to train on, each judged by the member that did not see it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

TEMPERATURES = torch.logspace(-1.0, 1.0, 81, dtype=torch.double)
ALLOWED_ERROR = 0.05  # of the answers that are given
FEWEST = 10  # answers that an error rate is measured on


@dataclass(frozen=True)
class ClassProbabilities:
    """A temperature that scores are divided by, and the probability from which a class is told.

    Attributes:
        threshold: below it the answer is "unsure"; 1 and more: nothing is sure enough.
        answered, error: the share of labels that reach it, and how often they were wrong.
    """

    temperature: float
    threshold: float
    answered: float
    error: float

    def of(self, scores: Tensor) -> Tensor:
        """The members' mean probabilities: ``[K, m, C] -> [m, C]``."""
        return F.softmax(scores.double() / self.temperature, -1).mean(0)


def unseen_scores(scores: Tensor, fold: Tensor) -> Tensor:
    """Of each labelled item the scores by the member that did not see its label: ``[K, m, C] -> [m, C]``."""
    return scores[fold, torch.arange(len(fold), device=scores.device)]


def fit_probabilities(scores: Tensor, label: Tensor, allowed_error: float = ALLOWED_ERROR) -> ClassProbabilities:
    """Fit on scores ``[m, C]`` of labels ``[m]`` that the scoring members did not see."""
    losses = torch.stack([F.cross_entropy(scores.double() / heat, label) for heat in TEMPERATURES])
    temperature = float(TEMPERATURES[losses.argmin()])
    probabilities = F.softmax(scores.double() / temperature, -1)
    said, told = probabilities.max(1)
    order = torch.argsort(said, descending=True, stable=True)
    wrong = (told[order] != label[order]).double().cumsum(0) / torch.arange(1, len(label) + 1)
    fine = torch.nonzero((wrong <= allowed_error) & (torch.arange(len(label)) + 1 >= min(FEWEST, len(label))))
    if not len(fine):
        return ClassProbabilities(temperature, 2.0, 0.0, 0.0)
    last = int(fine[-1])
    threshold = 0.0 if last == len(label) - 1 else float(said[order[last]])
    return ClassProbabilities(temperature, threshold, (last + 1) / len(label), float(wrong[last]))

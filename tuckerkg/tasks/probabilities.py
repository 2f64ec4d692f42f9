"""Probabilities of classes from a committee's scores, and when it had better say that it is unsure.

The share of counts beside encoders, the temperature and what is sure enough are fitted on the labels to train on, each
judged by the member that did not see it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

TEMPERATURES = torch.logspace(-1.0, 1.0, 81, dtype=torch.double)
SHARES = torch.linspace(0.0, 1.0, 11, dtype=torch.double)
ALLOWED_ERROR = 0.05  # of the answers that are given
FEWEST = 10  # answers that an error rate is measured on


@dataclass(frozen=True)
class ClassProbabilities:
    """A temperature that scores are divided by, and the probability from which a class is told.

    Attributes:
        counted: the share of counts in the scores, beside the encoder; 0: it alone.
        threshold: below it the answer is "unsure"; 1 and more: nothing is sure enough.
        answered, error: the share of labels that reach it, and how often they were wrong.
    """

    temperature: float
    threshold: float
    answered: float
    error: float
    counted: float = 0.0

    def of(self, scores: Tensor, counts: Tensor | None = None) -> Tensor:
        """The members' mean probabilities: ``[K, m, C] -> [m, C]``; ``counts [m, C]`` are scores by counts."""
        return F.softmax(_joined(scores, counts, self.counted) / self.temperature, -1).mean(0)


def unseen_scores(scores: Tensor, fold: Tensor) -> Tensor:
    """Of each labelled item the scores by the member that did not see its label: ``[K, m, C] -> [m, C]``."""
    return scores[fold, torch.arange(len(fold), device=scores.device)]


def fit_probabilities(
    scores: Tensor, label: Tensor, counts: Tensor | None = None, allowed_error: float = ALLOWED_ERROR
) -> ClassProbabilities:
    """Fit on scores ``[m, C]``, by encoders and by counts, of labels ``[m]`` that the members did not see."""
    best, share, temperature = float("inf"), 0.0, 1.0
    for each in SHARES.tolist() if counts is not None else [0.0]:
        joined = _joined(scores, counts, each)
        losses = torch.stack([F.cross_entropy(joined / heat, label) for heat in TEMPERATURES])
        if float(losses.min()) < best:
            best, share, temperature = float(losses.min()), each, float(TEMPERATURES[losses.argmin()])
    probabilities = F.softmax(_joined(scores, counts, share) / temperature, -1)
    said, told = probabilities.max(1)
    order = torch.argsort(said, descending=True, stable=True)
    wrong = (told[order] != label[order]).double().cumsum(0) / torch.arange(1, len(label) + 1)
    fine = torch.nonzero((wrong <= allowed_error) & (torch.arange(len(label)) + 1 >= min(FEWEST, len(label))))
    if not len(fine):
        return ClassProbabilities(temperature, 2.0, 0.0, 0.0, share)
    last = int(fine[-1])
    threshold = 0.0 if last == len(label) - 1 else float(said[order[last]])
    return ClassProbabilities(temperature, threshold, (last + 1) / len(label), float(wrong[last]), share)


def _joined(scores: Tensor, counts: Tensor | None, share: float) -> Tensor:
    if counts is None or share == 0.0:
        return scores.double()
    return (1.0 - share) * scores.double() + share * counts

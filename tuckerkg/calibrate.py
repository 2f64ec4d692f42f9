"""From scores to probabilities: the paper's sigmoid, with slope and shift fitted on validation (Platt scaling).

A loss such as softmax leaves scores without an absolute meaning: their plain sigmoid may be 1 for everything. Here a
candidate counts as true if validation holds it, so a probability says how often such a fact is among those held out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.answers import Answers, rows_of
from tuckerkg.model import Encoded
from tuckerkg.triples import add_inverses

MOST_SCORES = 1 << 22


@dataclass(frozen=True)
class Calibration:
    """``probability = sigmoid(slope * score + shift)``; slope 1 and shift 0 is the plain sigmoid."""

    slope: float = 1.0
    shift: float = 0.0

    def probability(self, score: float) -> float:
        """The probability of one score."""
        return float(torch.sigmoid(torch.tensor(self.slope * score + self.shift, dtype=torch.float64)))


def fit_calibration(encoded: Encoded, train: np.ndarray, valid: np.ndarray) -> Calibration:
    """Fits slope and shift on validation's questions (a random part of them on a large graph), both directions.

    Every entity is a candidate, except the tails that training already holds.
    """
    num_entities, num_relations = encoded.model.num_entities, encoded.model.num_relations
    asked = np.unique(add_inverses(valid, num_relations)[:, :2], axis=0)
    most = max(50, MOST_SCORES // max(num_entities, 1))
    if len(asked) > most:
        asked = asked[np.sort(np.random.default_rng(0).permutation(len(asked))[:most])]
    if len(asked) == 0:
        return Calibration()
    queries = torch.from_numpy(asked)
    scores = encoded.scores(queries[:, 0], queries[:, 1]).cpu().double()  # [Q, N]
    kept = ~_marked(_answers(train, num_relations), queries, num_entities)
    labels = _marked(_answers(valid, num_relations), queries, num_entities)
    return fit_platt(scores[kept], labels[kept].double())


def fit_platt(scores: Tensor, labels: Tensor) -> Calibration:
    """Logistic regression of ``labels [n]`` on ``scores [n]``; slope is kept from turning the order around."""
    if labels.sum() == 0:
        return Calibration()
    centre, spread = scores.mean(), scores.std().clamp(min=1e-12)
    standard = (scores - centre) / spread
    weights = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=50, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = F.binary_cross_entropy_with_logits(weights[0] * standard + weights[1], labels)
        value.backward()
        return value

    optimiser.step(closure)
    slope = max(float(weights[0].detach() / spread), 1e-6)
    return Calibration(slope, float(weights[1].detach()) - slope * float(centre))


def _answers(triples: np.ndarray, num_relations: int) -> Answers:
    return Answers.of(torch.from_numpy(add_inverses(triples, num_relations)), 2 * num_relations)


def _marked(answers: Answers, queries: Tensor, num_entities: int) -> Tensor:
    """Which candidates are known answers, ``[Q, N]``."""
    marked = torch.zeros(len(queries), num_entities, dtype=torch.bool)
    offsets, tails = answers.find(queries[:, 0], queries[:, 1])
    marked[rows_of(offsets), tails] = True
    return marked

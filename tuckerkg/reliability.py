"""How far probabilities can be trusted: calibration error, and answer sets that hold the answer as often as said."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuckerkg.answers import rows_of
from tuckerkg.calibrate import Best, Calibration
from tuckerkg.evaluate import CHUNK_SCORES, known_answers
from tuckerkg.model import Encoded
from tuckerkg.triples import add_inverses

BINS = 15


@dataclass(frozen=True)
class Bin:
    """Candidates of about one probability: the mean of what was said, and the share that was true."""

    said: float
    true: float
    count: int


@dataclass(frozen=True)
class Reliability:
    """``ece``: expected calibration error over bins of equal mass; Brier score and log loss beside."""

    ece: float
    brier: float
    log_loss: float
    bins: tuple[Bin, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def reliability(best: Best, calibration: Calibration, bins: int = BINS) -> Reliability:
    """Of the best candidates of held-out questions, against which of them are held out."""
    shown = torch.isfinite(best.scores)
    logits = calibration.logits(best.scores, best.asked)[shown].double()
    labels = best.is_true[shown].double()
    chances = torch.sigmoid(logits)
    order = torch.argsort(chances, stable=True).numpy()
    parts = [part for part in np.array_split(order, bins) if len(part)]
    found = tuple(Bin(float(chances[part].mean()), float(labels[part].mean()), len(part)) for part in parts)
    return Reliability(
        ece=sum(each.count * abs(each.said - each.true) for each in found) / max(len(order), 1),
        brier=float((chances - labels).square().mean()),
        log_loss=float(torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)),
        bins=found,
    )


@dataclass(frozen=True)
class Conformal:
    """Log shares from which on a candidate belongs to the answer set: one for tails, one for heads.

    Split conformal prediction: the threshold is the quantile of what the true answers of validation have, so that the
    set of a new question holds the answer with probability ``coverage``, as long as questions are of the same kind.
    """

    coverage: float
    tail: float
    head: float

    def threshold(self, relation_ids: Tensor, num_relations: int) -> Tensor:
        """Of each question: inverse relations ask for heads."""
        return torch.where(relation_ids < num_relations, self.tail, self.head)


def fit_conformal(encoded: Encoded, train: np.ndarray, valid: np.ndarray, coverage: float) -> Conformal:
    """From the log shares of validation's answers, the other known ones left out."""
    shares, _ = answer_shares(encoded, [train, valid], valid)
    return Conformal(coverage, *(_quantile(part, coverage) for part in np.split(shares, 2)))


def _quantile(shares: np.ndarray, coverage: float) -> float:
    """The share that ``coverage`` of the answers reach, with the correction for their number; -inf: too few to say."""
    place = math.floor((len(shares) + 1) * (1.0 - coverage) + 1e-9) - 1  # not thrown off by rounding
    return float(np.sort(shares)[place]) if place >= 0 else -math.inf


def answer_shares(
    encoded: Encoded, known: list[np.ndarray], triples: np.ndarray, conformal: Conformal | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Log share of each answer of ``triples [n, 3]``: tail questions, then head questions, and the size of its set.

    The other ``known`` answers are left out of the candidates. Sizes are 0 without ``conformal``.
    """
    num_entities, num_relations = encoded.model.num_entities, encoded.model.num_relations
    both = torch.from_numpy(add_inverses(triples, num_relations))
    left_out = known_answers(known, num_relations)
    found, sizes = [], []
    for chunk in both.split(max(1, CHUNK_SCORES // max(num_entities, 1))):
        heads, relation_ids, tails = chunk.unbind(1)
        scores = encoded.scores(heads, relation_ids).cpu()
        own = scores.gather(1, tails[:, None])
        offsets, answers = left_out.find(heads, relation_ids)
        scores[rows_of(offsets), answers] = -torch.inf
        scores.scatter_(1, tails[:, None], own)
        totals = torch.logsumexp(scores, 1)
        found.append(own[:, 0] - totals)
        if conformal is not None:
            least = conformal.threshold(relation_ids, num_relations).to(scores.dtype) + totals
            sizes.append((scores >= least[:, None]).sum(1))
    shares = torch.cat(found).double().numpy() if found else np.empty(0)
    return shares, torch.cat(sizes).numpy() if sizes else np.zeros(len(shares), dtype=np.int64)


@dataclass(frozen=True)
class Coverage:
    """How often answer sets held the answer, and how large they were, by direction."""

    asked: float
    tail: float
    head: float
    mean_size_tail: float
    mean_size_head: float

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


def measure_coverage(encoded: Encoded, conformal: Conformal, known: list[np.ndarray], triples: np.ndarray) -> Coverage:
    """On ``triples``, the other known answers left out."""
    shares, sizes = answer_shares(encoded, known, triples, conformal)
    tail, head = np.split(shares, 2)
    size_tail, size_head = np.split(sizes, 2)
    return Coverage(
        conformal.coverage,
        float((tail >= conformal.tail).mean()),
        float((head >= conformal.head).mean()),
        float(size_tail.mean()),
        float(size_head.mean()),
    )

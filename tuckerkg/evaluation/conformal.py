"""Answer sets with a promised coverage (split conformal prediction)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.evaluation.ranking import score_chunks
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.nn.contracts import Scorer, fit_questions


@dataclass(frozen=True)
class Conformal:
    """Smallest log shares of candidates in an answer set: one for tails, one for heads.

    Split conformal prediction: the threshold is the quantile of what the true answers of validation have, so that the
    set of a new question holds the answer with probability ``coverage``, as long as questions are of the same kind.
    """

    coverage: float
    tail: float
    head: float

    def threshold(self, relation_ids: Tensor, num_relations: int) -> Tensor:
        """Of each question: inverse relations ask for heads."""
        return torch.where(relation_ids < num_relations, self.tail, self.head)


def fit_conformal(scorer: Scorer, train: np.ndarray, valid: np.ndarray, coverage: float) -> Conformal:
    """From the log shares of validation's answers, the other known ones left out."""
    asked = valid
    if len(valid) > (most := fit_questions(scorer)):
        asked = valid[np.sort(np.random.default_rng(0).permutation(len(valid))[:most])]
    shares, _ = answer_shares(scorer, [train, valid], asked)
    return Conformal(coverage, *(_quantile(part, coverage) for part in np.split(shares, 2)))


def _quantile(shares: np.ndarray, coverage: float) -> float:
    """The share that ``coverage`` of the answers reach, with the correction for their number; -inf: too few to say."""
    place = math.floor((len(shares) + 1) * (1.0 - coverage) + 1e-9) - 1  # not thrown off by rounding
    return float(np.sort(shares)[place]) if place >= 0 else -math.inf


def answer_shares(
    scorer: Scorer, known: list[np.ndarray], triples: np.ndarray, conformal: Conformal | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Log share of each answer of ``triples [n, 3]``: tail questions, then head questions, and the size of its set.

    The other ``known`` answers are left out of the candidates. Sizes are 0 without ``conformal``.
    """
    num_relations = scorer.num_relations
    heads, relation_ids, tails = torch.from_numpy(add_inverses(triples, num_relations)).unbind(1)
    found, sizes = [], []
    for chunk in score_chunks(scorer, heads, relation_ids, KnownTails.from_splits(known, num_relations)):
        targets = tails[chunk.first : chunk.first + len(chunk.heads)]
        scores = chunk.hide_known(keep=targets)
        totals = torch.logsumexp(scores, 1)
        found.append(scores.gather(1, targets[:, None])[:, 0] - totals)
        if conformal is not None:
            least = conformal.threshold(chunk.relation_ids, num_relations).to(scores.dtype) + totals
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


def measure_coverage(scorer: Scorer, conformal: Conformal, known: list[np.ndarray], triples: np.ndarray) -> Coverage:
    """On ``triples``, the other known answers left out."""
    shares, sizes = answer_shares(scorer, known, triples, conformal)
    tail, head = np.split(shares, 2)
    size_tail, size_head = np.split(sizes, 2)
    return Coverage(
        conformal.coverage,
        float((tail >= conformal.tail).mean()),
        float((head >= conformal.head).mean()),
        float(size_tail.mean()),
        float(size_head.mean()),
    )

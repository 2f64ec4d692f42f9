"""From scores to probabilities that mean something, fitted on validation alone.

A loss such as softmax leaves scores without an absolute meaning: their plain sigmoid may be 1 for everything. What
tells how likely an answer is, is its share among all candidates of its own question, ``score - log sum exp``: where a
known answer takes it all, no other is likely. A logistic regression on this log share and on the number of answers
that are known already gives a probability, with a slope and a shift of each relation and direction, drawn towards those
of the whole graph the fewer questions a relation has.

It is fitted on what users see, the best few candidates of validation's questions; one counts as true if
validation holds it. So a probability says how often such a fact is among those that were held out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.evaluation.ranking import ScoredChunk, score_chunks
from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.nn.contracts import Scorer, fit_questions
from tuckerkg.types import JsonObject

CANDIDATES = 10  # of each question
PRIOR = 1.0  # weight of the squares that draw a relation towards the whole: a deviation of .7 costs half a nat
STEEPEST = 1e-6  # least slope: a higher score is never less likely


@dataclass(frozen=True)
class QuestionTotals:
    """What a probability needs to know of Q questions."""

    relation_ids: Tensor  # [Q] below 2R
    totals: Tensor  # [Q] log of the sum of the exponentials of all candidates' scores
    known: Tensor  # [Q] number of known answers

    @classmethod
    def of(cls, chunk: ScoredChunk) -> QuestionTotals:
        """Of a chunk whose scores are all there, those of known answers too."""
        offsets = chunk.known[0]
        totals = torch.logsumexp(chunk.scores, 1).double()
        return cls(chunk.relation_ids, totals, (offsets[1:] - offsets[:-1]).double())


@dataclass(frozen=True)
class Calibration:
    """``sigmoid(slope * (score - total) + shift + per_answer * log(1 + known))``, slope and shift by relation.

    ``total`` is the log of the sum of the exponentials of a question's candidates, ``known`` the number of its known
    answers. Without slopes it is the paper's plain sigmoid of the score.
    """

    slopes: Tensor | None = None
    shifts: Tensor | None = None
    per_answer: float = 0.0

    def tensors(self) -> dict[str, Tensor]:
        """The fitted numbers, to be stored; none for the plain sigmoid."""
        if self.slopes is None or self.shifts is None:
            return {}
        per_answer = torch.tensor(self.per_answer, dtype=torch.float64)
        return {"slopes": self.slopes, "shifts": self.shifts, "per_answer": per_answer}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Calibration:
        """The calibration that ``tensors`` came from."""
        if not tensors:
            return cls()
        return cls(tensors["slopes"], tensors["shifts"], float(tensors["per_answer"]))

    def logits(self, scores: Tensor, asked: QuestionTotals) -> Tensor:
        """``scores [Q, M]`` of some candidates of Q questions -> logits ``[Q, M]``."""
        if self.slopes is None or self.shifts is None:
            return scores
        slopes = self.slopes[asked.relation_ids]
        shifts = self.shifts[asked.relation_ids] + self.per_answer * torch.log1p(asked.known) - slopes * asked.totals
        return scores * slopes.to(scores.dtype)[:, None] + shifts.to(scores.dtype)[:, None]


@dataclass(frozen=True)
class Best:
    """The best candidates of questions about held-out facts: their scores, and which of them are held out."""

    asked: QuestionTotals
    scores: Tensor  # [Q, k]
    is_true: Tensor  # [Q, k]


def best_candidates(scorer: Scorer, known: list[np.ndarray], held_out: np.ndarray, most: int | None = None) -> Best:
    """Ask every question of ``held_out`` in both directions (or ``most`` random ones), without ``known`` answers."""
    num_entities, num_relations = scorer.num_entities, scorer.num_relations
    asked = np.unique(add_inverses(held_out, num_relations)[:, :2], axis=0)
    if most is not None and len(asked) > most:
        asked = asked[np.sort(np.random.default_rng(0).permutation(len(asked))[:most])]
    questions = torch.from_numpy(asked)
    left_out, wanted = (KnownTails.from_splits(part, num_relations) for part in (known, [held_out]))
    k = min(CANDIDATES, num_entities)
    found = []
    for chunk in score_chunks(scorer, questions[:, 0], questions[:, 1], left_out):
        asked_here = QuestionTotals.of(chunk)
        values, places = chunk.hide_known().topk(k, 1)
        is_true = torch.zeros(chunk.scores.shape, dtype=torch.bool)
        offsets, tails = wanted.find(chunk.heads, chunk.relation_ids)
        is_true[rows_of(offsets), tails] = True
        found.append((chunk.relation_ids, asked_here.totals, asked_here.known, values, is_true.gather(1, places)))
    if not found:
        none = torch.empty(0, dtype=torch.double)
        return Best(QuestionTotals(none.long(), none, none), torch.empty(0, k), torch.empty(0, k) > 0)
    relation_ids, totals, counts, values, is_true = (torch.cat(part) for part in zip(*found, strict=True))
    return Best(QuestionTotals(relation_ids, totals, counts), values, is_true)


def fit_calibration(scorer: Scorer, train: np.ndarray, valid: np.ndarray) -> Calibration:
    """Fit on validation, with what training holds left out of the candidates."""
    return fit_logistic(best_candidates(scorer, [train], valid, fit_questions(scorer)), 2 * scorer.num_relations)


def fit_logistic(best: Best, num_relations: int) -> Calibration:
    """A penalized logistic regression of truth on log shares, with slopes and shifts for ``num_relations``."""
    shown = torch.isfinite(best.scores)
    labels = best.is_true[shown].double()
    if labels.sum() == 0:
        return Calibration()
    rows = torch.arange(len(best.scores))[:, None].expand_as(best.scores)[shown]
    shares = best.scores[shown].double() - best.asked.totals[rows]
    relation_ids, counts = best.asked.relation_ids[rows], torch.log1p(best.asked.known[rows])
    whole = torch.zeros(3, dtype=torch.float64, requires_grad=True)  # slope, shift, per answer
    own = torch.zeros(2, num_relations, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([whole, own], max_iter=100, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        slopes, shifts = whole[:2, None] + own
        logits = slopes[relation_ids] * shares + shifts[relation_ids] + whole[2] * counts
        value = F.binary_cross_entropy_with_logits(logits, labels) + PRIOR / len(labels) * own.square().sum()
        value.backward()
        return value

    optimizer.step(closure)
    slopes, shifts = (whole[:2, None] + own).detach()
    return Calibration(slopes.clamp(min=STEEPEST), shifts, float(whole[2].detach()))


BINS = 15


@dataclass(frozen=True)
class Bin:
    """Candidates of about one probability: the mean probability, and the share that was true."""

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
        ece=sum(each.count * abs(each.confidence - each.accuracy) for each in found) / max(len(order), 1),
        brier=float((chances - labels).square().mean()),
        log_loss=float(torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)),
        bins=found,
    )

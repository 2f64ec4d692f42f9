"""From scores to probabilities that mean something, fitted on validation alone.

A probability says: of the facts that were hidden as validation and test were, this share is true. It is a logistic
regression on what ``features.py`` names, over the facts that people are shown (``population.py``), with effects of
each relation drawn towards the whole graph the fewer facts a relation has. There are three: from the tail question
alone, from the head question alone, and from both, which is the one probability of a fact, whichever way it is asked.

A scorer that is slow to ask shows too few facts to know what is rare: single facts stand for thousands. Where a quick
scorer answers the same questions, its logits, fitted on many more facts, are one more feature, where the fit starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from tuckerkg.errors import TuckerkgError
from tuckerkg.nn.contracts import Scorer, fit_questions, is_slow
from tuckerkg.probability.features import (
    BASES,
    GraphFacts,
    held_out_columns,
    num_features,
    rising_columns,
    share_columns,
)
from tuckerkg.probability.logistic import PRIOR, Labelled, Logistic, fit, refit
from tuckerkg.probability.population import Guess, Sample, Shown, are_in, shown_facts
from tuckerkg.probability.shares import shares_of
from tuckerkg.probability.verdicts import Verdicts, fit_on, fit_verdicts
from tuckerkg.types import Basis

FACTS = 200_000  # to fit on, where a question costs little, and
FIT_SCORES = 4 * 10**9  # computed to find them, at most, but for ``fit_questions``
EVENLY = 0.25  # others among these, whether they may be believed or not, for each one that may
FACTS_PER_QUESTION = 1.5  # where it costs much
QUESTIONS_PER_VERDICT = 4  # one true fact, and two false ones with two questions each, cost about so many
KNOWN_RELATIONS = 4.0  # times the prior of relations, where they have had their effects on a feature
ALONE = "alone"  # what is stored of a calibration without its quick scorer
FEW = 20  # true facts of one direction; with fewer, those of both directions are taken


@dataclass(frozen=True)
class Calibration:
    """Turns shares into logits of probabilities. Without regressions it is the plain sigmoid of the score.

    Attributes:
        hidden: the share of all facts that was hidden when it was fitted, or of true ones among the labelled: the base
            rate.
        shift: added to every logit; another base rate, or none.
        verdicts: whether facts are true, by thresholds; None where no false fact could be made.
        labelled: what labelled facts change about the logits.
        quick: whose logits are the last feature; None: nobody's.
        alone: the same without ``quick``, for graphs that it cannot answer for.
    """

    regressions: Mapping[Basis, Logistic] = field(default_factory=dict)
    hidden: float = 0.0
    shift: float = 0.0
    verdicts: Verdicts | None = None
    labelled: Logistic | None = None
    quick: QuickProbabilities | None = None
    alone: Calibration | None = None

    @property
    def fitted(self) -> bool:
        """False for the plain sigmoid."""
        return bool(self.regressions)

    def logits(self, graph: GraphFacts, facts: Tensor, shares: Tensor, basis: Basis = "both") -> Tensor:
        """``facts [n, 3]`` with log shares ``[n, 2]`` -> ``[n]``.

        The share of a question that is not in ``basis`` is not read.
        """
        features = _features(graph, facts, shares, basis, self.quick)
        logits = self.regressions[basis].logits(features, facts[:, 1])
        if self.labelled is not None:
            logits = self.labelled.logits(logits[:, None], facts[:, 1])
        return logits + self.shift

    def judge(self, logits: Tensor, relation_ids: Tensor) -> tuple[Tensor, Tensor] | None:
        """Verdicts and their error rates ``[n]`` of facts with these logits, at any base rate; None where none fit."""
        return None if self.verdicts is None else self.verdicts.of(logits - self.shift, relation_ids)

    @property
    def of_any_graph(self) -> Calibration:
        """The same without a quick scorer, which may not answer for another graph."""
        if self.alone is None:
            return self
        if self.labelled is None:
            return replace(self.alone, shift=self.shift)
        return replace(self, regressions=self.alone.regressions, quick=None, alone=None)

    def at_base_rate(self, rate: float) -> Calibration:
        """The same where ``rate`` of all facts are missing, instead of the share that was hidden for the fit.

        The odds of every fact change by the ratio of the odds of the two rates.
        """
        if not 0.0 < rate < 1.0:
            raise TuckerkgError(f"the base rate is {rate}, expected the share of facts that are missing, such as 0.1")
        if not self.fitted:
            raise TuckerkgError("a base rate needs fitted probabilities, and these are plain sigmoids of the score")
        return replace(self, shift=_logit(rate) - _logit(self.hidden))

    def with_labels(self, logits: Tensor, relation_ids: Tensor, is_true: Tensor, num_relations: int) -> Calibration:
        """Fitted on labelled facts with logits ``[n]`` of this one.

        Of facts like these, a probability is the share that is true. ``is_true [n]`` has facts of both kinds.
        """
        ones = torch.ones_like(logits)
        labels = Labelled(logits[:, None], relation_ids, is_true, ones, ones)
        changed = fit(labels, num_relations, [0])
        new = changed.logits(logits[:, None], relation_ids)
        verdicts = fit_on(new, relation_ids, is_true, num_relations)
        return replace(self, labelled=changed, verdicts=verdicts, hidden=float(is_true.double().mean()), shift=0.0)

    def tensors(self) -> dict[str, Tensor]:
        """The fitted numbers, to be stored; none for the plain sigmoid."""
        if not self.fitted:
            return {}
        found = {"hidden": torch.tensor(self.hidden, dtype=torch.float64)}
        for part, fitted in (*self.regressions.items(), ("verdicts", self.verdicts), ("labelled", self.labelled)):
            if fitted is not None:
                found |= {f"{part}.{name}": value for name, value in fitted.tensors().items()}
        if self.alone is not None:
            found |= {f"{ALONE}.{name}": value for name, value in self.alone.tensors().items()}
        return found

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], quick: QuickProbabilities | None = None) -> Calibration:
        """The calibration that ``tensors`` came from; those of earlier versions of the program count as none.

        Args:
            quick: whose logits were a feature of the fit, where anybody's were.
        """
        if "hidden" not in tensors:
            return cls()
        parts: dict[str, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            part, _, name = key.partition(".")
            parts.setdefault(part, {})[name] = value
        alone = cls.from_tensors(parts[ALONE]) if ALONE in parts else None
        if alone is not None and quick is None:
            return alone
        extra = 0 if alone is None else 1
        if any(len(parts[basis]["means"]) != num_features(basis) + extra for basis in BASES):
            return cls()
        return cls(
            {basis: Logistic.from_tensors(parts[basis]) for basis in BASES},
            float(tensors["hidden"]),
            verdicts=Verdicts.from_tensors(parts["verdicts"]) if "verdicts" in parts else None,
            labelled=Logistic.from_tensors(parts["labelled"]) if "labelled" in parts else None,
            quick=quick if extra else None,
            alone=alone,
        )


@dataclass(frozen=True)
class QuickProbabilities:
    """A scorer that is quick to ask, and its fitted probabilities."""

    scorer: Scorer
    calibration: Calibration

    def logits(self, graph: GraphFacts, facts: Tensor, basis: Basis) -> Tensor:
        """``facts [n, 3]`` -> ``[n]``; questions outside ``basis`` are not asked."""
        shares = shares_of(self.scorer, facts, graph.known, basis)
        return self.calibration.logits(graph, facts, shares, basis)


def _logit(share: float) -> float:
    return math.log(share) - math.log1p(-share)


def fit_calibration(
    scorer: Scorer,
    train: np.ndarray,
    valid: np.ndarray,
    num_test: int,
    promise: Guess | None = None,
    quick: QuickProbabilities | None = None,
) -> Calibration:
    """Fit on validation.

    Args:
        train: what the scorer has seen.
        valid: a part of what was hidden.
        num_test: how many other facts were hidden in the same way; they are not read.
        promise: for a scorer that is slow to ask, what finds questions whose answers are believed.
        quick: for such a scorer, whose probabilities its own start from.
    """
    graph = GraphFacts(train, scorer.num_entities, scorer.num_relations)
    questions = fit_questions(scorer)
    if is_slow(scorer):
        belief = None if quick is None else partial(quick.logits, graph, basis="both")
        sample = Sample(questions, int(FACTS_PER_QUESTION * questions), promise, belief)
    else:
        sample = Sample(max(questions, FIT_SCORES // scorer.num_entities), FACTS, evenly=EVENLY)
    for typed in (True, False):  # where every entity is new to its place, no typed answer is true
        shown = shown_facts(scorer, graph, valid, sample, typed=typed, all_answers=True)
        if are_in(shown.facts, valid, graph).any():
            break
    else:
        return Calibration()
    halves = np.array_split(np.random.default_rng(0).permutation(len(valid)), 2)
    situations = [(graph, valid)] + [(graph.with_held_out(valid[half]), np.delete(valid, half, 0)) for half in halves]
    hidden = (len(valid) + num_test) / (len(train) + len(valid) + num_test)

    def fitted(quick: QuickProbabilities | None) -> Calibration:
        regressions = {basis: _fitted(situations, shown, basis, num_test, quick) for basis in BASES}
        found = Calibration(regressions, hidden, quick=quick)
        verdicts = fit_verdicts(
            scorer,
            graph,
            lambda facts, shares: found.logits(graph, facts, shares),
            valid,
            len(valid) / (len(valid) + num_test),
            most=max(1, fit_questions(scorer) // QUESTIONS_PER_VERDICT),
        )
        return replace(found, verdicts=verdicts)

    alone = fitted(None)
    return alone if quick is None else replace(fitted(quick), alone=alone)


def _features(
    graph: GraphFacts, facts: Tensor, shares: Tensor, basis: Basis, quick: QuickProbabilities | None
) -> Tensor:
    """``GraphFacts.features``, and the logits of ``quick`` in a last column."""
    features = graph.features(facts, shares, basis)
    return features if quick is None else torch.cat([features, quick.logits(graph, facts, basis)[:, None]], 1)


def _fitted(
    situations: list[tuple[GraphFacts, np.ndarray]],
    shown: Shown,
    basis: Basis,
    num_test: int,
    quick: QuickProbabilities | None,
) -> Logistic:
    """The regression of the first of ``situations``, in which no fact of validation is known.

    In the others some are, though the scorer has not seen them, and the rest is to be found. They tell how far a known
    answer lowers the other answers to its question, and nothing else.
    """
    (graph, wanted), *others = situations
    labelled = _labelled(graph, wanted, shown, basis, num_test, quick)
    own, rising = share_columns(basis), rising_columns(basis)
    if quick is None:
        fitted = fit(labelled, graph.num_relations, own, rising)
    else:
        last = num_features(basis)
        expected = {last: 1.0}  # at first, probabilities are those of ``quick``, which knows the relations
        fitted = fit(labelled, graph.num_relations, own, [*rising, last], expected, KNOWN_RELATIONS * PRIOR)
    known = [_labelled(*other, shown, basis, num_test, quick, with_held_out=True) for other in others]
    return refit(fitted, Labelled.joined(known), held_out_columns(basis))


def _labelled(
    graph: GraphFacts,
    wanted: np.ndarray,
    shown: Shown,
    basis: Basis,
    num_test: int,
    quick: QuickProbabilities | None,
    *,
    with_held_out: bool = False,
) -> Labelled:
    """Shown facts to fit on, true where they are ``wanted``; ``with_held_out`` those whose questions have such an
    answer alone.
    """
    heads, relation_ids, tails = shown.facts.unbind(1)
    rows = ~graph.known.hold(heads, relation_ids, tails)
    if with_held_out:
        inverse_ids = relation_ids + graph.num_relations
        rows &= _has_held_out(graph, heads, relation_ids) | _has_held_out(graph, tails, inverse_ids)
    asked = shown.asked_tail if basis == "tail" else ~shown.asked_tail
    is_true = are_in(shown.facts, wanted, graph)
    if basis != "both" and int((is_true & rows & asked).sum()) >= FEW:
        rows &= asked
    facts, weights = shown.facts[rows], shown.weights[rows]
    per_true = weights[is_true[rows]].mean() if is_true[rows].any() else 1.0  # penalties go by how many were seen
    found = torch.full((len(facts),), len(wanted) / max(len(wanted) + num_test, 1), dtype=torch.float64)
    features = _features(graph, facts, shown.shares[rows], basis, quick)
    return Labelled(features, facts[:, 1], is_true[rows], found, weights / per_true)


def _has_held_out(graph: GraphFacts, anchors: Tensor, relation_ids: Tensor) -> Tensor:
    return graph.known.counts(anchors, relation_ids) > graph.seen.counts(anchors, relation_ids)

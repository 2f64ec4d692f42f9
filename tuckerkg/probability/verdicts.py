"""Is this triple true? Thresholds per relation, chosen on validation against plausible false facts.

A false fact is a validation fact with one end replaced by an entity of the right type: one at random, and one of those
that the scorer ranks near the top. Where as many false as true facts are asked, the chance that a fact is true is a
logistic regression on the logit of its probability, with each relation's own slope and shift. A fact is true where that
chance is one half or more, and where it is close to one half the answer is unsure. How often "yes" and "no" were
wrong is measured on facts that the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tuckerkg.evaluation.ranking import score_chunks
from tuckerkg.kernels.topk import top_of_rows
from tuckerkg.nn.contracts import Scorer
from tuckerkg.probability.features import GraphFacts
from tuckerkg.probability.logistic import FOLDS, Labelled, Logistic, fit
from tuckerkg.probability.shares import both_shares
from tuckerkg.types import Verdict

VERDICTS: tuple[Verdict, ...] = ("no", "unsure", "yes")
NO, UNSURE, YES = range(3)
UNSURE_FROM = 0.4  # chance of being true from where on, up to 1 - 0.4, nothing is said
NEAR = 30  # first ranks that a near answer is drawn from
FACTS = 5_000  # of validation; fewer where a question costs much
PRIOR_FACTS = 20.0  # an error rate of a relation counts as so many facts with that of all relations


@dataclass(frozen=True)
class Verdicts:
    """``truth``: the regression. ``errors [R, 2]``: how often no and yes were wrong."""

    truth: Logistic
    errors: Tensor

    def chances(self, logits: Tensor, relation_ids: Tensor) -> Tensor:
        """The chance that a fact is true where as many false ones are asked, ``[n]``."""
        return torch.sigmoid(self.truth.logits(logits[:, None], relation_ids))

    def of(self, logits: Tensor, relation_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Places in ``VERDICTS`` ``[n]`` and their measured error rates ``[n]``; nan for unsure."""
        found = verdict_of(self.chances(logits, relation_ids))
        errors = self.errors[relation_ids, (found == YES).long()]
        return found, torch.where(found == UNSURE, torch.nan, errors)

    def tensors(self) -> dict[str, Tensor]:
        """To be stored."""
        return {**self.truth.tensors(), "errors": self.errors}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Verdicts:
        """What ``tensors`` came from."""
        rest = {name: value for name, value in tensors.items() if name != "errors"}
        return cls(Logistic.from_tensors(rest), tensors["errors"])


def verdict_of(chances: Tensor) -> Tensor:
    """Places in ``VERDICTS`` ``[n]``."""
    return (chances >= UNSURE_FROM).long() + (chances > 1.0 - UNSURE_FROM).long()


def fit_verdicts(
    scorer: Scorer,
    graph: GraphFacts,
    logits_of: Callable[[Tensor, Tensor], Tensor],
    valid: np.ndarray,
    share: float,
    most: int = FACTS,
) -> Verdicts | None:
    """On validation; None where no false fact of the right type exists.

    Args:
        graph: of what training holds.
        logits_of: gives facts ``[n, 3]`` with shares ``[n, 2]`` their logits ``[n]``.
        share: of all hidden facts, the part that validation holds; of what is called false, some is true and hidden.
        most: how many facts of validation to take.
    """
    generator = torch.Generator().manual_seed(0)
    true = torch.from_numpy(valid[torch.randperm(len(valid), generator=generator)[:most].numpy()])
    known = graph.with_held_out(valid)
    false = torch.cat([random_false(true, known, generator), near_false(scorer, true, known, generator)])
    if not len(false):
        return None
    facts = torch.cat([true, false])
    is_true = torch.arange(len(facts)) < len(true)
    logits = logits_of(facts, both_shares(scorer, facts, graph.known))
    chances = torch.sigmoid(logits)
    elsewhere = chances * (1.0 - share) / (1.0 - share * chances)  # that it is hidden, though not in validation
    weights = torch.where(is_true, 1.0, 1.0 - elsewhere)
    return fit_on(logits, facts[:, 1], is_true, graph.num_relations, weights)


def fit_on(
    logits: Tensor, relation_ids: Tensor, is_true: Tensor, num_relations: int, certain: Tensor | None = None
) -> Verdicts:
    """Of facts with logits ``[n]``; false ones count as much as true ones, whatever their number.

    ``certain [n]`` is the chance that what is called false is false.
    """
    weights = torch.ones_like(logits) if certain is None else certain
    true, false = (weights * is_true).sum(), (weights * ~is_true).sum()
    weights = weights * torch.where(is_true, (true + false) / (2 * true), (true + false) / (2 * false))
    labelled = Labelled(logits[:, None], relation_ids, is_true, torch.ones_like(weights), weights)
    folds = torch.randint(FOLDS, (len(logits),), generator=torch.Generator().manual_seed(0))
    left_out = torch.empty_like(logits)
    for fold in range(FOLDS):
        inside = labelled.rows(folds != fold)
        if 0 < int(inside.is_true.sum()) < len(inside.is_true):
            rows = folds == fold
            found = fit(inside, num_relations, [0])
            left_out[rows] = torch.sigmoid(found.logits(labelled.features[rows], relation_ids[rows]))
        else:
            left_out[folds == fold] = 0.5
    errors = _errors(verdict_of(left_out), relation_ids, is_true, weights, num_relations)
    return Verdicts(fit(labelled, num_relations, [0]), errors)


def _errors(found: Tensor, relation_ids: Tensor, is_true: Tensor, weights: Tensor, num_relations: int) -> Tensor:
    """Error rates of no and yes by relation ``[R, 2]``; those of relations with few facts lean on all of them."""
    errors = torch.empty(num_relations, 2, dtype=torch.float64)
    for place, (verdict, wrong) in enumerate(((NO, is_true), (YES, ~is_true))):
        said = found == verdict
        whole = (weights * (said & wrong)).sum() / (weights * said).sum().clamp(min=1e-9)
        wrong_of = torch.zeros(num_relations, dtype=torch.float64)
        wrong_of.index_add_(0, relation_ids, weights * (said & wrong))
        said_of = torch.zeros(num_relations, dtype=torch.float64).index_add_(0, relation_ids, weights * said)
        errors[:, place] = (wrong_of + PRIOR_FACTS * whole) / (said_of + PRIOR_FACTS)
    return errors


def random_false(true: Tensor, graph: GraphFacts, generator: torch.Generator, tries: int = 20) -> Tensor:
    """One false fact for each of ``true [n, 3]``, with its head or its tail replaced by one seen in that place.

    Where all of them are known, there is none.
    """
    found, left = [], true
    for _ in range(tries):
        at_tail = torch.rand(len(left), generator=generator) < 0.5
        slots = left[:, 1] + graph.num_relations * (~at_tail).long()
        starts, sizes = graph.types.offsets[slots], graph.types.offsets[slots + 1] - graph.types.offsets[slots]
        usable = sizes > 0
        left, at_tail, starts, sizes = left[usable], at_tail[usable], starts[usable], sizes[usable]
        draw = (torch.rand(len(left), generator=generator, dtype=torch.float64) * sizes).long()
        other = graph.types.entity_ids[starts + torch.minimum(draw, sizes - 1)]
        facts = _replaced(left, other, at_tail)
        fresh = ~graph.known.hold(*facts.unbind(1))
        found.append(facts[fresh])
        left = left[~fresh]
    return torch.cat(found)


def near_false(scorer: Scorer, true: Tensor, graph: GraphFacts, generator: torch.Generator) -> Tensor:
    """One false fact for each of ``true [n, 3]`` that the scorer ranks among the first ``NEAR`` of the right type."""
    at_tail = torch.rand(len(true), generator=generator) < 0.5
    anchors = torch.where(at_tail, true[:, 0], true[:, 2])
    relation_ids = true[:, 1] + graph.num_relations * (~at_tail).long()
    found = []
    for chunk in score_chunks(scorer, anchors, relation_ids, graph.known):
        rows = torch.arange(chunk.first, chunk.first + len(chunk.heads))
        graph.types.leave_only(chunk.scores, chunk.heads, chunk.relation_ids)
        best, places = top_of_rows(chunk.hide_known(), min(NEAR, scorer.num_entities))
        sizes = (best > -torch.inf).sum(1)
        draw = (torch.rand(len(rows), generator=generator, dtype=torch.float64) * sizes).long()
        other = places.gather(1, torch.minimum(draw, (sizes - 1).clamp(min=0))[:, None])[:, 0]
        some = sizes > 0
        found.append(_replaced(true[rows[some]], other[some], at_tail[rows[some]]))
    return torch.cat(found) if found else true[:0]


def _replaced(facts: Tensor, other: Tensor, at_tail: Tensor) -> Tensor:
    heads, relation_ids, tails = facts.unbind(1)
    return torch.stack([torch.where(at_tail, heads, other), relation_ids, torch.where(at_tail, other, tails)], 1)

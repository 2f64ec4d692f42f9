"""The one probability of a fact, whichever way it was found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from tuckerkg.nn.contracts import Scorer
from tuckerkg.probability.calibration import Calibration
from tuckerkg.probability.features import BASES, GraphFacts
from tuckerkg.probability.shares import log_shares
from tuckerkg.types import ProgressFunction

TAIL, HEAD, BOTH = range(len(BASES))


@dataclass(frozen=True)
class Found:
    """n answers to questions (anchor, relation, ?), as they were found."""

    questions: Tensor  # [n] place of the question
    anchors: Tensor  # [n]
    relation_ids: Tensor  # [n] below 2R
    answers: Tensor  # [n]
    scores: Tensor  # [n]
    shares: Tensor  # [n] log share among the candidates of the question, float64

    @classmethod
    def joined(cls, parts: Iterable[Found]) -> Found:
        """Those of ``parts``, one after the other."""
        columns = list(zip(*(vars(part).values() for part in parts), strict=True))
        if not columns:
            none = torch.empty(0, dtype=torch.long)
            return cls(none, none, none, none, torch.empty(0), torch.empty(0, dtype=torch.float64))
        return cls(*(torch.cat(column) for column in columns))

    def rows(self, chosen: Tensor) -> Found:
        """Some of them."""
        return Found(*(column[chosen] for column in vars(self).values()))

    def facts(self, num_relations: int) -> Tensor:
        """As (head, relation below R, tail), ``[n, 3]``."""
        turned = self.relation_ids >= num_relations
        heads, tails = torch.where(turned, self.answers, self.anchors), torch.where(turned, self.anchors, self.answers)
        return torch.stack([heads, self.relation_ids % num_relations, tails], 1)


class Weigher:
    """Gives facts their probabilities."""

    def __init__(self, scorer: Scorer, graph: GraphFacts, calibration: Calibration) -> None:
        self.scorer, self.graph, self.calibration = scorer, graph, calibration

    def logits_of_question(self, found: Found) -> Tensor:
        """Logits ``[n]`` from the question that was asked alone; within a question in the order of the scores,
        but for what the graph and, with a quick scorer's probabilities, that one say of the answers.
        """
        if not self.calibration.fitted:
            return found.scores.double()
        facts = found.facts(self.scorer.num_relations)
        shares = found.shares[:, None].expand(-1, 2)
        logits = torch.empty(len(facts), dtype=torch.float64)
        asked_tail = found.relation_ids < self.scorer.num_relations
        for rows, basis in ((asked_tail, BASES[TAIL]), (~asked_tail, BASES[HEAD])):
            logits[rows] = self.calibration.logits(self.graph, facts[rows], shares[rows], basis)
        return logits

    def logits(self, found: Found, progress: ProgressFunction | None = None) -> Tensor:
        """Logits ``[n]`` of the facts' probabilities, from both of their questions: the other one is asked too."""
        if not self.calibration.fitted:
            return found.scores.double()
        num_relations = self.scorer.num_relations
        asked_tail = found.relation_ids < num_relations
        other_ids = torch.where(asked_tail, found.relation_ids + num_relations, found.relation_ids - num_relations)
        other = self.shares(found.answers, other_ids, found.anchors, progress)
        shares = torch.stack(
            [torch.where(asked_tail, found.shares, other), torch.where(asked_tail, other, found.shares)], 1
        )
        return self.calibration.logits(self.graph, found.facts(num_relations), shares)

    def shares(
        self, anchors: Tensor, relation_ids: Tensor, answers: Tensor, progress: ProgressFunction | None = None
    ) -> Tensor:
        """Log shares ``[n]`` of answers to the questions (anchor, relation, ?)."""
        return log_shares(self.scorer, anchors, relation_ids, answers, self.graph.known, progress=progress)[1]

    def basis(self, found: Found, joined: bool) -> Tensor:
        """Where the logits come from, ``[n]`` places in ``BASES``; a plain sigmoid from the question asked."""
        if joined and self.calibration.fitted:
            return torch.full_like(found.anchors, BOTH)
        return (found.relation_ids >= self.scorer.num_relations).long()

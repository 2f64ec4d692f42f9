"""The scorer made of other scorers: a weighted sum of their log shares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tuckerkg.graph.strongest_paths import WeighedPath
from tuckerkg.nn.contracts import AnswersOtherGraphs, NamesPaths, ReadsEdges, Scorer, fit_questions


class BlendScorer(Scorer):
    """``score(t) = sum over members i of w[r, i] * log share_i(t)``.

    Provides ``ReadsEdges``, ``NamesPaths`` and ``AnswersOtherGraphs`` where a member does.

    A member's log share is ``score - log sum exp`` of its scores over all entities of the question, so that members
    whose scores have another level or spread can be added. A member that has no weight for a relation is not asked.

    Args:
        members: scorers of the same entities and relations.
        weights: ``[2R, members]``, 0 or more: how much each counts for a relation, in each direction.
    """

    def __init__(self, members: Sequence[Scorer], weights: Tensor) -> None:
        self.members, self.weights = tuple(members), weights
        self.num_entities, self.num_relations = self.members[0].num_entities, self.members[0].num_relations
        self.fit_questions = min(fit_questions(member) for member in self.members)

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """Raw scores of every entity as the tail: ``heads [B]``, ``relation_ids [B]`` below 2R -> ``[B, N]``."""
        weights = self.weights[relation_ids.cpu()]  # [B, members]
        total: Tensor | None = None
        for place, member in enumerate(self.members):
            asked = weights[:, place].nonzero()[:, 0]
            if not len(asked):
                continue
            everything = len(asked) == len(heads)
            questions = (heads, relation_ids) if everything else (heads[asked], relation_ids[asked])
            shares = log_shares(member.scores(*questions))
            shares.mul_(weights[asked, place, None].to(shares))
            if everything:  # what there is then lies in memory as the member's scores do
                total = shares if total is None else total.add_(shares)
            else:
                total = shares.new_zeros(len(heads), self.num_entities) if total is None else total
                total.index_add_(0, asked, shares)
        return torch.zeros(len(heads), self.num_entities) if total is None else total

    @property
    def reads_edges(self) -> bool:
        """Whether any member reads edges."""
        return any(isinstance(member, ReadsEdges) and member.reads_edges for member in self.members)

    def without(self, rows: Sequence[int]) -> BlendScorer:
        """The blend of the members over the training graph without ``rows``; those that read no edges stay."""
        left = [member.without(rows) if isinstance(member, ReadsEdges) else member for member in self.members]
        return BlendScorer(left, self.weights)

    def important_edges(self, head: int, relation: int, tail: int, count: int) -> list[tuple[int, float]]:
        """The facts that carried most by the members' lists, each fact's losses weighted and added up."""
        losses: dict[int, float] = defaultdict(float)
        for weight, member in zip(self.weights[relation].tolist(), self.members, strict=True):
            if weight and isinstance(member, ReadsEdges):
                for row, loss in member.important_edges(head, relation, tail, count):
                    losses[row] += weight * loss
        return sorted(losses.items(), key=lambda found: (-found[1], found[0]))[:count]

    @property
    def names_paths(self) -> bool:
        """Whether any member names paths."""
        return any(isinstance(member, NamesPaths) and member.names_paths for member in self.members)

    def strongest_paths(self, head: int, relation: int, tail: int, count: int) -> list[WeighedPath]:
        """The members' strongest paths, each counted by its member's share of the weights; equal ones are added up."""
        weights = self.weights[relation]
        parts = (weights / weights.sum()).tolist()
        shares: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = defaultdict(float)
        for weight, member in zip(parts, self.members, strict=True):
            if weight > 0 and isinstance(member, NamesPaths) and member.names_paths:
                for path in member.strongest_paths(head, relation, tail, count):
                    shares[path.entity_ids, path.relation_ids] += weight * path.share
        heaviest = sorted(shares.items(), key=lambda found: (-found[1], found[0]))[:count]
        return [WeighedPath(*path, share) for path, share in heaviest]

    @property
    def answers_other_graphs(self) -> bool:
        """Whether any member does."""
        return bool(self._movable())

    def on(self, train: np.ndarray, num_entities: int) -> BlendScorer:
        """The blend of those members that can over the facts ``train [n, 3]`` of another graph.

        They take over the weight of the others: a relation's weights keep their sum, so that scores keep their spread.

        Raises:
            TypeError: no member can; ``answers_other_graphs`` tells.
        """
        movable = self._movable()
        if not movable:
            raise TypeError("no member of this blend answers for another graph than its own")
        weights = self.weights[:, list(movable)]  # [2R, members that can]
        some = weights.sum(1, keepdim=True) > 0
        weights = torch.where(some, weights, torch.ones_like(weights))
        weights = weights * (self.weights.sum(1, keepdim=True) / weights.sum(1, keepdim=True))
        return BlendScorer([member.on(train, num_entities) for member in movable.values()], weights)

    def _movable(self) -> dict[int, AnswersOtherGraphs]:
        """The members that answer for other graphs, by their place."""
        return {
            place: member
            for place, member in enumerate(self.members)
            if isinstance(member, AnswersOtherGraphs) and member.answers_other_graphs
        }


def log_shares(scores: Tensor) -> Tensor:
    """``scores [B, N]`` less the log of the sum of their exponentials, on the CPU, in a tensor of their own."""
    return (scores - torch.logsumexp(scores, 1, keepdim=True)).cpu()

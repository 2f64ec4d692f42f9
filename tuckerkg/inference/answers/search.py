"""How the best answers to questions are found among all entities, and what share of a question an answer has.

``Search`` is the contract: everything that asks, from ``predict`` to the service, goes through it. ``ExactSearch``
scores every entity here; on ranks each scores its own; an index scores those that it proposes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from tuckerkg.evaluation.ranking import ScoredChunk, score_chunks
from tuckerkg.graph.known_tails import rows_of
from tuckerkg.kernels.topk import top_of_rows
from tuckerkg.nn.contracts import Scorer
from tuckerkg.probability.calibration import Calibration
from tuckerkg.probability.features import GraphFacts
from tuckerkg.probability.shares import log_shares
from tuckerkg.probability.weigher import Found, Weigher
from tuckerkg.types import ProgressFunction


class Search(Protocol):
    """Finds answers to questions (anchor, relation below 2R, ?)."""

    def best(
        self, queries: Tensor, known: Tensor, typed: Tensor, counts: Tensor, progress: ProgressFunction | None = None
    ) -> Iterator[Found]:
        """The best answers by score to ``queries [Q, 2]``, some questions at a time, best first.

        Args:
            known: whose known facts are wanted, ``[Q]``.
            typed: who takes only entities seen in that place, ``[Q]``.
            counts: how many answers are wanted at least, ``[Q]``; fewer where fewer are left.
        """
        ...

    def log_shares(
        self, anchors: Tensor, relation_ids: Tensor, answers: Tensor, progress: ProgressFunction | None = None
    ) -> tuple[Tensor, Tensor]:
        """Scores ``[n]`` and log shares ``[n]`` of ``answers [n]`` to the questions (anchor, relation)."""
        ...


class ExactSearch(Search):
    """Scores every entity in this process."""

    def __init__(self, scorer: Scorer, graph: GraphFacts) -> None:
        self.scorer, self.graph = scorer, graph

    def best(
        self, queries: Tensor, known: Tensor, typed: Tensor, counts: Tensor, progress: ProgressFunction | None = None
    ) -> Iterator[Found]:
        """A matrix product for many questions."""
        for chunk in score_chunks(self.scorer, queries[:, 0], queries[:, 1], self.graph.known, progress=progress):
            totals = torch.logsumexp(chunk.scores, 1).double()  # over all candidates, before any is left out
            span = slice(chunk.first, chunk.first + len(chunk.heads))
            leave_wanted(chunk, ~known[span], typed[span], self.graph)
            yield _best_of_rows(chunk, totals, int(counts[span].max()))

    def log_shares(
        self, anchors: Tensor, relation_ids: Tensor, answers: Tensor, progress: ProgressFunction | None = None
    ) -> tuple[Tensor, Tensor]:
        """Every distinct question is asked once."""
        return log_shares(self.scorer, anchors, relation_ids, answers, self.graph.known, progress=progress)


class SearchWeigher(Weigher):
    """Gives facts their probabilities, with the shares that a search finds."""

    def __init__(self, scorer: Scorer, graph: GraphFacts, calibration: Calibration, search: Search) -> None:
        super().__init__(scorer, graph, calibration)
        self.search = search

    def shares(
        self, anchors: Tensor, relation_ids: Tensor, answers: Tensor, progress: ProgressFunction | None = None
    ) -> Tensor:
        """As the search gives them."""
        return self.search.log_shares(anchors, relation_ids, answers, progress)[1]


def leave_wanted(chunk: ScoredChunk, hidden: Tensor, typed: Tensor, graph: GraphFacts, begin: int = 0) -> None:
    """Set the scores of answers that are not wanted to minus infinity, in place.

    Args:
        chunk: scores of the entities from ``begin`` on; its known tails are counted from there.
        hidden: whose known facts are not wanted, ``[b]``.
        typed: who takes only entities seen in that place, ``[b]``.
        graph: what is known and of which type.
        begin: the first entity.
    """
    offsets, tails = chunk.known
    rows = rows_of(offsets)
    chosen = hidden[rows]
    chunk.scores[rows[chosen], tails[chosen]] = -torch.inf
    limited = typed.nonzero()[:, 0]
    if len(limited) == len(chunk.heads):
        graph.types.leave_only(chunk.scores, chunk.heads, chunk.relation_ids, begin)
    elif len(limited):
        part = chunk.scores[limited]
        graph.types.leave_only(part, chunk.heads[limited], chunk.relation_ids[limited], begin)
        chunk.scores[limited] = part


def _best_of_rows(chunk: ScoredChunk, totals: Tensor, count: int) -> Found:
    """The ``count`` best answers by score to each question of a chunk, fewer where fewer are left."""
    best, places = top_of_rows(chunk.scores, min(count, chunk.scores.shape[1]))
    return found_of_rows(chunk.first, chunk.heads, chunk.relation_ids, best, places, totals)


def found_of_rows(
    first: int, heads: Tensor, relation_ids: Tensor, best: Tensor, answers: Tensor, totals: Tensor
) -> Found:
    """Answers ``[b, k]`` with their scores ``best [b, k]``, minus infinity where there is none, one after the other."""
    rows, columns = (best > -torch.inf).nonzero().unbind(1)
    scores = best[rows, columns]
    return Found(
        first + rows, heads[rows], relation_ids[rows], answers[rows, columns], scores, scores.double() - totals[rows]
    )

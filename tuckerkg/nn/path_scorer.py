"""The scorer of messages that start from the question, over any graph with the relations that it was trained with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tuckerkg.errors import TuckerkgError
from tuckerkg.graph.in_edges import in_edges
from tuckerkg.graph.strongest_paths import LayeredEdges, WeighedPath, strongest_paths
from tuckerkg.kernels.questions.graph import NO_FACTS, QuestionGraph, Trace
from tuckerkg.nn.contracts import FIT_QUESTIONS, Scorer
from tuckerkg.nn.paths import PathModel

DELETED = 24  # facts that are deleted one by one to find their order
FIT_EDGES = 2 * 10**10
FEWEST_QUESTIONS = 4_000
FEW = 64  # facts that are left out question by question; more are taken out of the graph


class PathScorer(Scorer):
    """Sends messages from each question's head. Provides ``ReadsEdges``, ``NamesPaths`` and ``AnswersOtherGraphs``.

    Args:
        model: the weights.
        train: the facts that carry messages, ``[n, 3]``.
        graph: the same, where it is at hand.
        num_entities: N, where the facts are of another graph than the model was trained on.
        removed: facts of ``train`` that no message may use, ``[k, 3]``.
    """

    def __init__(
        self,
        model: PathModel,
        train: np.ndarray,
        graph: QuestionGraph | None = None,
        num_entities: int | None = None,
        removed: np.ndarray = NO_FACTS,
    ) -> None:
        self.model, self.train, self.removed = model, train, removed
        self.num_entities = model.num_entities if num_entities is None else num_entities
        self.num_relations = model.num_relations
        self.graph = graph or QuestionGraph(in_edges(train, self.num_entities, self.num_relations))

    @property
    def fit_questions(self) -> int:
        """As many as send messages over so many edges, ``FIT_EDGES``; at least ``FEWEST_QUESTIONS``."""
        edges = 2 * max(len(self.train), 1) * self.model.layers
        return min(FIT_QUESTIONS, max(FEWEST_QUESTIONS, FIT_EDGES // edges))

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """Raw scores of every entity as the tail: ``heads [B]``, ``relation_ids [B]`` below 2R -> ``[B, N]``."""
        without = [self.removed] * len(heads) if len(self.removed) else None
        return self.model.scores(self.graph, heads, relation_ids, without)

    @property
    def reads_edges(self) -> bool:
        """Always: without an edge, only the head is told from the others."""
        return True

    @property
    def answers_other_graphs(self) -> bool:
        """Always: no entity has a parameter."""
        return True

    @property
    def names_paths(self) -> bool:
        """Always."""
        return True

    def on(self, train: np.ndarray, num_entities: int) -> PathScorer:
        """The same weights over the facts ``train [n, 3]`` of another graph, whose relations have the same ids."""
        return PathScorer(self.model, train, num_entities=num_entities)

    def without(self, rows: Sequence[int]) -> PathScorer:
        """The same weights over the graph without the facts in ``rows``."""
        if not len(rows):
            return self
        if len(rows) > FEW:
            return self.on(np.delete(self.train, list(rows), 0), self.num_entities)
        removed = np.concatenate([self.removed, self.train[list(rows)]])
        return PathScorer(self.model, self.train, self.graph, self.num_entities, removed)

    def important_edges(self, head: int, relation: int, tail: int, count: int) -> list[tuple[int, float]]:
        """The facts that carry most of a score: gradients of messages name them, deleting each puts them in order."""
        trace = self._trace(head, relation, tail)
        inverse = trace.relations >= self.num_relations
        facts = np.stack(
            [
                np.where(inverse, trace.targets, trace.sources),
                trace.relations % self.num_relations,
                np.where(inverse, trace.sources, trace.targets),
            ],
            1,
        )
        carried = trace.gradients.sum(0)
        used = carried != 0
        named, places = np.unique(facts[used], axis=0, return_inverse=True)
        total = np.bincount(places.ravel(), carried[used], minlength=len(named))
        first = named[np.argsort(-total, kind="stable")[: max(DELETED, count)]]
        if not len(first):
            return []
        asked = torch.full((len(first) + 1,), head), torch.full((len(first) + 1,), relation)
        scores = self.model.scores(self.graph, *asked, [NO_FACTS, *(fact[None] for fact in first)])
        shares = torch.log_softmax(scores, 1)[:, tail]
        lost = (shares[0] - shares[1:]).tolist()
        rows = self._rows(first)
        return sorted(zip(rows, lost, strict=True), key=lambda found: -found[1])[:count]

    def strongest_paths(self, head: int, relation: int, tail: int, count: int) -> list[WeighedPath]:
        """The paths that carried most of a score, by its gradient; the fact itself is none."""
        trace = self._trace(head, relation, tail, np.array([[head, relation, tail]]))
        if not len(trace.sources):
            return []
        layered = LayeredEdges(
            trace.sources, trace.relations, trace.targets, trace.gradients, trace.entities, trace.own
        )
        return strongest_paths(layered, head, tail, count)

    def _trace(self, head: int, relation: int, tail: int, without: np.ndarray = NO_FACTS) -> Trace:
        if self.model.core == "tucker":
            raise TuckerkgError(
                "paths.core = tucker: explanations follow messages feature by feature, and this core mixes them; train "
                "with paths.core=question or cp to have them"
            )
        hidden = np.concatenate([self.removed, without])
        weights = self.model.arrays(torch.tensor([relation]))
        return self.graph.trace(self.model.shape, weights, (head, relation, tail), hidden)

    def _rows(self, facts: np.ndarray) -> list[int]:
        """Where ``facts [k, 3]`` stand in ``train``."""
        return [int(np.flatnonzero((self.train == fact).all(1))[0]) for fact in facts]

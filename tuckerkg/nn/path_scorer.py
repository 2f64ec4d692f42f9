"""The scorer of messages that start from the question, over any graph with the relations that it was trained with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from tuckerkg.graph.in_edges import in_edges
from tuckerkg.kernels.questions.graph import QuestionGraph
from tuckerkg.nn.contracts import Scorer
from tuckerkg.nn.paths import PathModel


class PathScorer(Scorer):
    """Sends messages from each question's head. Provides ``ReadsEdges``.

    Args:
        model: the weights.
        train: the facts that carry messages, ``[n, 3]``.
        graph: the same, where it is at hand.
        num_entities: N, where the facts are of another graph than the model was trained on.
    """

    def __init__(
        self,
        model: PathModel,
        train: np.ndarray,
        graph: QuestionGraph | None = None,
        num_entities: int | None = None,
    ) -> None:
        self.model, self.train = model, train
        self.num_entities = model.num_entities if num_entities is None else num_entities
        self.num_relations = model.num_relations
        self.graph = graph or QuestionGraph(in_edges(train, self.num_entities, self.num_relations))

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """Raw scores of every entity as the tail: ``heads [B]``, ``relation_ids [B]`` below 2R -> ``[B, N]``."""
        return self.model.scores(self.graph, heads, relation_ids)

    @property
    def reads_edges(self) -> bool:
        """Always: without an edge, only the head is told from the others."""
        return True

    def on(self, train: np.ndarray, num_entities: int) -> PathScorer:
        """The same weights over the facts ``train [n, 3]`` of another graph, whose relations have the same ids."""
        return PathScorer(self.model, train, num_entities=num_entities)

    def without(self, rows: Sequence[int]) -> PathScorer:
        """The same weights over the graph without the facts in ``rows``."""
        return self.on(np.delete(self.train, list(rows), 0), self.num_entities) if len(rows) else self

    def important_edges(self, head: int, relation: int, tail: int, count: int) -> list[tuple[int, float]]:
        """The facts that carry most of a score."""
        raise NotImplementedError

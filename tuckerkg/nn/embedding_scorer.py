"""The scorer made of a model: all entities encoded once over the training graph, ready for any number of questions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.nn.contracts import Scorer
from tuckerkg.nn.edge_importance import EdgeImportance
from tuckerkg.nn.model import Model

if TYPE_CHECKING:
    from collections.abc import Iterator


class EmbeddingScorer(Scorer):
    """Compares a question's query with encoded entities. Provides ``HasVectors`` and ``ReadsEdges``.

    Args:
        model: embeddings, encoder and decoder; dropout is off while it scores.
        train: training triples ``[n, 3]``, whose messages encode the entities; without any, no message is sent.
        graph: the message graph of ``train``, where it is at hand.
    """

    def __init__(self, model: Model, train: np.ndarray, graph: MessageGraph | None = None) -> None:
        self.model, self.train = model, train
        self.num_entities, self.num_relations = model.num_entities, model.num_relations
        with evaluating(model):
            entities, relations = model.encode(model.message_graph(train) if graph is None else graph)
        self.entities, self.relations = entities.detach(), relations.detach()  # [N, d], [2R, d_r]

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """Raw scores of every entity as the tail: ``heads [B]``, ``relation_ids [B]`` below 2R -> ``[B, N]``."""
        return self.compare(self.queries(heads, relation_ids))

    def queries(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """Query vectors ``[B, d_q]``."""
        device = self.entities.device
        with evaluating(self.model):
            rows = F.embedding(heads.to(device), self.entities)
            return self.model.decoder.query(rows, self.relations, relation_ids.to(device))

    def compare(self, queries: Tensor) -> Tensor:
        """Raw scores ``[B, N]`` of ``queries [B, d_q]`` with all entities."""
        with torch.no_grad():
            scores = self.model.decoder.comparison(queries, self.entities)
            return scores if self._bias is None else scores + self._bias

    @cached_property
    def _bias(self) -> Tensor | None:
        """Kept beside the candidates: as one more column of them, they would be copied for every question."""
        with torch.no_grad():
            return self.model.candidate_bias(self.entities)

    def vectors(self, what: Literal["encoded", "entities", "relations"] = "encoded") -> Tensor:
        """Vectors of entities after or before the encoder, or of relations with their inverses."""
        if what == "encoded":
            return self.entities
        table = self.model.entities if what == "entities" else self.model.relations
        return table.detach()

    @property
    def reads_edges(self) -> bool:
        """Whether the encoder sends messages."""
        return self.model.encoder.uses_graph

    def without(self, rows: Sequence[int]) -> EmbeddingScorer:
        """Encode again over the training graph without ``rows``; an encoder without messages stays as it is."""
        if not len(rows) or not self.reads_edges:
            return self
        return EmbeddingScorer(self.model, np.delete(self.train, list(rows), 0))

    def important_edges(self, head: int, relation: int, tail: int, count: int) -> list[tuple[int, float]]:
        """The facts whose messages carried a score; see ``edge_importance.py``."""
        if not self.reads_edges or len(self.train) == 0:
            return []
        return self._importance.of(head, relation, tail, count)

    @cached_property
    def _importance(self) -> EdgeImportance:
        return EdgeImportance(self.model, self.train, self.entities)


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """No gradients, no dropout, running statistics; afterwards the model is in the mode it was in."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)

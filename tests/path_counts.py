"""A scorer that answers for any graph: it counts paths of two steps, each pair of relations with a weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.nn.contracts import Scorer


class PathCounts(Scorer):
    """score(h, q, t) = sum over relations a, b of weight[q, a, b] times the paths h -a-> ? -b-> t.

    A weight is how often such paths end where q does in the graph that it was fitted on. No entity has a parameter.
    """

    def __init__(self, weights: Tensor, train: np.ndarray, num_entities: int) -> None:
        self.weights, self.train = weights, train  # [2R, 2R, 2R], [n, 3]
        self.num_entities, self.num_relations = num_entities, len(weights) // 2
        self.edges = edges_of(train, num_entities, self.num_relations)

    @classmethod
    def fitted(cls, train: np.ndarray, num_entities: int, num_relations: int) -> PathCounts:
        edges = edges_of(train, num_entities, num_relations)
        paths = torch.einsum("ahm,bmt->abht", edges, edges)
        ends = torch.einsum("abht,qht->qab", paths, edges)
        return cls(ends / paths.sum((2, 3)).clamp(min=1.0), train, num_entities)

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        first = self.edges[:, heads]  # [2R, B, N]
        weighted = torch.einsum("sab,asm->sbm", self.weights[relation_ids], first)  # [B, 2R, N]
        return torch.einsum("sbm,bmt->st", weighted, self.edges).float()

    answers_other_graphs = True

    def on(self, train: np.ndarray, num_entities: int) -> PathCounts:
        return PathCounts(self.weights, train, num_entities)

    @property
    def reads_edges(self) -> bool:
        return True

    def without(self, rows: Sequence[int]) -> PathCounts:
        return self.on(np.delete(self.train, list(rows), axis=0), self.num_entities)

    def important_edges(self, head: int, relation: int, tail: int, count: int) -> list[tuple[int, float]]:
        def log_share(scorer: PathCounts) -> float:
            return float(torch.log_softmax(scorer.scores(torch.tensor([head]), torch.tensor([relation])), 1)[0, tail])

        whole = log_share(self)
        lost = [(row, whole - log_share(self.without([row]))) for row in range(len(self.train))]
        return sorted(lost, key=lambda each: -each[1])[:count]


def edges_of(train: np.ndarray, num_entities: int, num_relations: int) -> Tensor:
    """``[2R, N, N]``, 1 where there is an edge."""
    edges = torch.zeros(2 * num_relations, num_entities, num_entities, dtype=torch.float64)
    heads, relation_ids, tails = torch.from_numpy(add_inverses(train, num_relations)).unbind(1)
    edges[relation_ids, heads, tails] = 1.0
    return edges

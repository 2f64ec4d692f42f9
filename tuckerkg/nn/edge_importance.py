"""Which edges carried a score, by gradients first and by deletion then.

Every message has a weight, 1 / c. The gradient of the fact's log share among all candidates with respect to the
weights, over all layers at once, ranks the edges; the first of them are then deleted one by one, the graph around the
fact is encoded again, and they are ordered by what is lost. An edge and its inverse are one fact. Works for every
encoder, since all of them sum messages by the graph's weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.graph.message_graph import Normalize, TracedGraph, edge_weights
from tuckerkg.nn.model import Model

DELETED = 24  # facts that are deleted one by one to find their order


class EdgeImportance:
    """Finds the facts that carry a score of one model over its training graph.

    Args:
        model: a model whose encoder reads messages.
        train: training triples ``[n, 3]``.
        encoded: all entities encoded over them, ``[N, d]``.
    """

    def __init__(self, model: Model, train: np.ndarray, encoded: Tensor) -> None:
        self.model, self.train, self.encoded = model, train, encoded
        self.edges = torch.from_numpy(add_inverses(train, model.num_relations))  # [2n, 3], fact i is i and i + n
        self.by_target = torch.argsort(self.edges[:, 2], stable=True)
        counts = torch.bincount(self.edges[:, 2], minlength=model.num_entities)
        self.offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])

    def of(self, head: int, relation: int, tail: int, count: int) -> list[tuple[int, float]]:
        """The ``count`` facts that carried most: rows of ``train``, and the log share lost without each."""
        near = self._neighbourhood((head, tail))
        carried = self._contributions(head, relation, tail, near)
        facts, places = torch.unique(near.ids % len(self.train), return_inverse=True)
        total = torch.zeros(len(facts), dtype=carried.dtype).index_add_(0, places, carried)
        first = facts[total.topk(min(max(DELETED, count), len(facts))).indices]
        before = self._log_share(head, relation, tail, near, near.weights())
        lost = []
        for fact in first.tolist():
            after = self._log_share(head, relation, tail, near, near.weights(without=fact))
            lost.append((fact, before - after))
        return sorted(lost, key=lambda found: -found[1])[:count]

    def _neighbourhood(self, ends: Sequence[int]) -> _Neighbourhood:
        """The edges whose messages reach ``ends`` through all layers."""
        targets = torch.tensor(sorted(set(ends)))
        depth = self.model.encoder.depth
        for layer in range(depth):
            ids = torch.cat([self.by_target[self.offsets[v] : self.offsets[v + 1]] for v in targets.tolist()])
            if layer < depth - 1:
                targets = torch.unique(torch.cat([targets, self.edges[ids, 0]]))
        return _Neighbourhood(self.edges, ids.sort().values, self.model.num_entities, self.model.encoder.normalize)

    def _contributions(self, head: int, relation: int, tail: int, near: _Neighbourhood) -> Tensor:
        """Weight times gradient of each edge of ``near``, over all layers."""
        leaf = near.weights().to(self.model.entities).requires_grad_()
        with torch.enable_grad():
            share = self._log_share_of(*self._encode(near, leaf), head, relation, tail)
            (gradient,) = torch.autograd.grad(share, leaf)
        return (gradient * leaf).detach().double().cpu()

    @torch.no_grad()
    def _log_share(self, head: int, relation: int, tail: int, near: _Neighbourhood, weights: Tensor) -> float:
        return float(self._log_share_of(*self._encode(near, weights.to(self.model.entities)), head, relation, tail))

    def _encode(self, near: _Neighbourhood, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Encode with the messages of ``near`` alone; right for the ends, since all that reach them are there."""
        self.model.eval()
        return self.model.encode(near.graph(weights.device).weighed(weights))

    def _log_share_of(self, entities: Tensor, relations: Tensor, head: int, relation: int, tail: int) -> Tensor:
        """The fact's log share, with head and tail as they are in ``entities`` and all others as they were."""
        model = self.model
        query = model.decoder.query(
            entities[head : head + 1], relations, torch.tensor([relation], device=entities.device)
        )
        compare, queries, candidates = model.comparison(query, self.encoded)
        scores = compare(queries, candidates)[0]
        compare, queries, candidate = model.comparison(query, entities[tail : tail + 1], slice(tail, tail + 1))
        own = compare(queries, candidate)[0, 0]
        others = torch.cat([scores[:tail], scores[tail + 1 :], own[None]])
        return own - torch.logsumexp(others, 0)


class _Neighbourhood:
    """The edges ``ids`` of all ``edges [2n, 3]``; edge i and its inverse i + n are one fact."""

    def __init__(self, edges: Tensor, ids: Tensor, num_entities: int, normalize: Normalize) -> None:
        self.edges, self.ids, self.num_entities, self.normalize = edges, ids, num_entities, normalize
        self._graph: TracedGraph | None = None

    def graph(self, device: torch.device) -> TracedGraph:
        """The edges' graph, prepared once."""
        if self._graph is None:
            self._graph = TracedGraph(self.edges[self.ids].to(device), self.num_entities)
        return self._graph

    def weights(self, without: int | None = None) -> Tensor:
        """1 / c of every edge, in double precision; those of the fact ``without`` are 0 and do not count."""
        gone = torch.tensor([] if without is None else [without, without + len(self.edges) // 2], dtype=torch.long)
        if self.normalize == "symmetric":  # needs what leaves every source, near or far
            kept = torch.ones(len(self.edges), dtype=torch.bool)
            kept[gone] = False
            weights = torch.zeros(len(self.edges), dtype=torch.double)
            weights[kept] = edge_weights(self.edges[kept], self.num_entities, self.normalize)
            return weights[self.ids]
        kept = ~torch.isin(self.ids, gone)  # all edges that reach an entity are here, or none
        weights = torch.zeros(len(self.ids), dtype=torch.double)
        weights[kept] = edge_weights(self.edges[self.ids[kept]], self.num_entities, self.normalize)
        return weights

"""Which chains of facts carried a question to its answer: the paths of a layered graph with the largest shares.

Every entity of a layer got its state from messages along edges and from its own state before; what each contributed is
given, as the gradient of a score times the contribution. Contributions above zero divide the entity's part of the score
among them, and so on backwards: a path's share is the product of the shares along it, and all paths share the whole.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count as counter

import numpy as np

NEXT = 64  # in-edges of an entity that are followed, the most promising ones
POPS = 20_000  # partial paths that are looked at, at most


@dataclass(frozen=True)
class WeighedPath:
    """A way through the graph: ``entity_ids [k + 1]``, ``relation_ids [k]`` below 2R, and its share of the score."""

    entity_ids: tuple[int, ...]
    relation_ids: tuple[int, ...]
    share: float


@dataclass(frozen=True)
class LayeredEdges:
    """Edges and what they contributed, those of one target side by side."""

    sources: np.ndarray  # [E]
    relations: np.ndarray  # [E]
    targets: np.ndarray  # [E]
    gains: np.ndarray  # [L, E] contribution of each edge's message
    entities: np.ndarray  # [n]
    own: np.ndarray  # [L, n] contribution of each entity's own state before the layer


def strongest_paths(edges: LayeredEdges, head: int, tail: int, count: int) -> list[WeighedPath]:
    """The ``count`` simple paths from head to tail with the largest shares, largest first.

    A path takes at most one edge per layer and may stay where it is in between; the ways to do so are one path, whose
    share is that of the best of them. Best-first search from the tail: what the rest of a way is worth at best is known
    exactly, so that paths come out in order.
    """
    steps = _Shares(edges, head)
    number = counter()
    start: _State = (-steps.best[-1].get(tail, -np.inf), next(number), len(edges.gains), 0.0, (tail,), ())
    heap = [start]
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    for _ in range(POPS):
        if not heap or len(found) == count or heap[0][0] == np.inf:
            break
        _, _, layer, weight, way, kinds = heapq.heappop(heap)
        if way[0] == head and kinds:
            found.setdefault((way, kinds), weight)
            continue
        if layer == 0:
            continue
        for gain, source, relation, worth in steps.into(layer - 1, way[0]):
            if source == way[0]:
                heapq.heappush(heap, (-(worth + weight), next(number), layer - 1, weight + gain, way, kinds))
            elif source not in way:
                further = (source, *way), (relation, *kinds)
                heapq.heappush(heap, (-(worth + weight), next(number), layer - 1, weight + gain, *further))
    return [WeighedPath(way, kinds, float(np.exp(weight))) for (way, kinds), weight in found.items()]


# Minus what the best whole way is worth, a number that breaks ties, layers left, worth so far, entities, relations.
_State = tuple[float, int, int, float, tuple[int, ...], tuple[int, ...]]


class _Shares:
    """Log shares of edges and of staying, and what the best way from the head to each entity is worth by each layer."""

    def __init__(self, edges: LayeredEdges, head: int) -> None:
        self.edges = edges
        self.starts = np.flatnonzero(np.append(True, edges.targets[1:] != edges.targets[:-1]))
        self.ends = np.append(self.starts[1:], len(edges.targets))
        self.group = {int(target): place for place, target in enumerate(edges.targets[self.starts])}
        size = int(edges.entities.max()) + 1
        reached = np.full(size, -np.inf)
        reached[head] = 0.0
        self.best = [{head: 0.0}]
        self.gains, self.stays = [], []
        for gain, own in zip(edges.gains, edges.own, strict=True):
            edge_shares, stay_shares = self._log_shares(gain.astype(np.float64), own.astype(np.float64), size)
            after = reached + stay_shares
            targets = edges.targets[self.starts]
            ways = np.maximum.reduceat(reached[edges.sources] + edge_shares, self.starts)
            after[targets] = np.maximum(after[targets], ways)
            after[head] = 0.0  # a way that has come to the head is whole, whatever layers are left
            reached = after
            places = np.flatnonzero(np.isfinite(reached))
            self.best.append(dict(zip(places.tolist(), reached[places].tolist(), strict=True)))
            self.gains.append(edge_shares)
            self.stays.append(stay_shares)

    def _log_shares(self, gain: np.ndarray, own: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Of each edge ``[E]`` and of each entity's own state ``[size]``."""
        stays = np.zeros(size)
        stays[self.edges.entities] = np.maximum(own, 0.0)
        gain = np.maximum(gain, 0.0)
        total = stays.copy()
        total[self.edges.targets[self.starts]] += np.add.reduceat(gain, self.starts)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.nan_to_num(gain / total[self.edges.targets])), np.log(np.nan_to_num(stays / total))

    def into(self, layer: int, entity: int) -> list[tuple[float, int, int, float]]:
        """Ways into an entity in a layer: log share, source, relation (-1: it stays), what the way is worth at best."""
        best, found = self.best[layer], []
        stay = float(self.stays[layer][entity])
        if entity in best and stay > -np.inf:
            found.append((stay, entity, -1, stay + best[entity]))
        place = self.group.get(entity)
        if place is None:
            return found
        edges = [
            (float(self.gains[layer][edge]), int(self.edges.sources[edge]), int(self.edges.relations[edge]))
            for edge in range(self.starts[place], self.ends[place])
            if self.gains[layer][edge] > -np.inf and int(self.edges.sources[edge]) in best
        ]
        ways = [(gain, source, relation, gain + best[source]) for gain, source, relation in edges]
        return found + heapq.nlargest(NEXT, ways, key=lambda way: way[3])

"""What stands around an item, as keys that can be counted: paths out of a node, Weisfeiler-Lehman colours of a graph.

A key is a 64-bit hash; what is alike in two places of a graph, or in two graphs of a set, has the same key.

Around a node: the relations of each path that begins there, alone and with the node that the path ends in (as in
RDF2Vec's walks, Ristoski and Paulheim 2016), and that node alone with the length of the path. Of a graph: the type of
every node, which types every edge joins, and in each further round a node's colour with the multiset of its neighbours'
colours and the relations to them (Shervashidze et al. 2011).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.tasks.task import TRAIN, Task

Keys = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.int64]

WIDEST = (200, 100, 50, 20, 10, 5, 2, 0)  # edges of a node that paths go on through: the first that is affordable
MOST_PATHS = 5_000_000  # of two facts, from all labels to train on
FACTORS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of SplitMix64


class Surroundings:
    """The edges of a task, sorted, to be walked from any of its items.

    Args:
        task: whose facts; messages' directions are theirs, so that inverses are walked too.
        hops: facts of a path, or rounds of colours.
    """

    def __init__(self, task: Task, hops: int) -> None:
        self.task, self.hops = task, hops
        edges = add_inverses(task.triples, task.num_relations) if task.inverses else task.triples
        order = np.argsort(edges[:, 0], kind="stable")
        self.edges = edges[order]
        self.facts = order % max(len(task.triples), 1)
        self.first = np.searchsorted(self.edges[:, 0], np.arange(task.num_nodes + 1))
        self.widest = self._widest() if task.kind == "nodes" and hops > 1 else 0

    def of(self, items: Ids, without: int | None = None) -> tuple[Ids, Keys]:
        """Places in ``items`` and a key found there, as often as it is; ``without`` is a fact that is not there."""
        return self._of_graphs(items, without) if self.task.graph_of is not None else self._of_nodes(items, without)

    def _widest(self) -> int:
        """How many edges a node may have that paths go on through; what is behind a hub says no more than the hub."""
        _, edges = self._edges_of(self.task.of_part(TRAIN)[0].numpy(), None)
        nodes = self.edges[edges, 2]
        degrees = self.first[nodes + 1] - self.first[nodes]
        return next(limit for limit in WIDEST if limit == 0 or degrees[degrees <= limit].sum() <= MOST_PATHS)

    def _of_nodes(self, items: Ids, without: int | None) -> tuple[Ids, Keys]:
        places, nodes = np.arange(len(items)), items
        paths = np.zeros(len(items), np.uint64)
        found: list[tuple[Ids, Keys]] = []
        for hop in range(self.hops):
            if hop:
                open_ = self.first[nodes + 1] - self.first[nodes] <= self.widest
                places, nodes, paths = places[open_], nodes[open_], paths[open_]
            rows, edges = self._edges_of(nodes, without)
            places, relations, nodes = places[rows], self.edges[edges, 1], self.edges[edges, 2]
            paths = mixed(paths[rows], relations)
            on = nodes != items[places]  # there and back again says nothing new
            places, nodes, paths = places[on], nodes[on], paths[on]
            lengths = np.full(len(nodes), hop, np.uint64)
            found += [
                (places, each) for each in (paths, mixed(mixed(paths, -1), nodes), mixed(mixed(lengths, -2), nodes))
            ]
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])

    def _of_graphs(self, items: Ids, without: int | None) -> tuple[Ids, Keys]:
        task = self.task
        assert task.graph_of is not None
        place_of = np.full(len(task.graphs), -1)
        place_of[items] = np.arange(len(items))
        own = place_of[task.graph_of.numpy()]  # [N], -1 where a node's graph was not asked for
        nodes = np.flatnonzero(own >= 0)
        rows, ids = self._edges_of(nodes, without)
        edges = self.edges[ids]
        types = np.zeros(task.num_nodes, np.int64) if task.node_types is None else task.node_types.numpy()
        colours = mixed(np.zeros(task.num_nodes, np.uint64), types)
        found = [(own[nodes], mixed(colours[nodes], 0))]
        joined = mixed(mixed(colours[edges[:, 0]], edges[:, 1]), colours[edges[:, 2]])
        found.append((own[nodes[rows]], mixed(joined, -1)))
        for hop in range(1, self.hops + 1):
            heard = np.zeros(task.num_nodes, np.uint64)  # a sum does not depend on the neighbours' order
            np.add.at(heard, edges[:, 0], mixed(mixed(colours[edges[:, 2]], edges[:, 1]), -2))
            colours = mixed(colours, heard)
            found.append((own[nodes], mixed(colours[nodes], hop)))
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])

    def _edges_of(self, nodes: Ids, without: int | None) -> tuple[Ids, Ids]:
        """All edges that leave ``nodes``: of each the place of its node, and its own."""
        counts = self.first[nodes + 1] - self.first[nodes]
        rows = np.repeat(np.arange(len(nodes)), counts)
        edges = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts) + self.first[nodes][rows]
        if without is not None:
            kept = self.facts[edges] != without
            rows, edges = rows[kept], edges[kept]
        return rows, edges


def mixed(keys: Keys, values: Keys | Ids | int) -> Keys:
    """A hash of two numbers each; the order matters (SplitMix64's finalizer)."""
    one, two, three = (np.uint64(factor) for factor in FACTORS)
    found: Keys = (keys + one) * three ^ np.asarray(values).astype(np.uint64) * one
    found = (found ^ found >> np.uint64(30)) * two
    found = (found ^ found >> np.uint64(27)) * three
    return found ^ found >> np.uint64(31)

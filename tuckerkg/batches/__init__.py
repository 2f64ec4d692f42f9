"""Ways to make training batches, by name."""

from collections.abc import Callable

from tuckerkg.batches.batch import Batches
from tuckerkg.batches.subgraph import RandomSubgraphs
from tuckerkg.batches.whole_graph import WholeGraph

BATCHES: dict[str, Callable[..., Batches]] = {
    "subgraph": RandomSubgraphs,
    "whole": WholeGraph,
}

__all__ = ["BATCHES", "RandomSubgraphs", "WholeGraph"]

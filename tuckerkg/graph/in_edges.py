"""The in-edges of every entity, grouped by relation: what messages from a question's head travel along."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tuckerkg.data.triple_sets import add_inverses


class InEdges(NamedTuple):
    """Edges by target, then relation, then source; a run holds the edges of one relation into one target.

    Each fact is an edge from head to tail and, with its inverse relation, one back.
    """

    starts: np.ndarray  # [N + 1] int64, first edge of each target
    sources: np.ndarray  # [E] int32
    run_starts: np.ndarray  # [N + 1] int64, first run of each target
    run_relations: np.ndarray  # [K] int32, below 2R
    run_ends: np.ndarray  # [K] int64, one past the last edge of each run
    num_relations: int  # R

    @property
    def num_entities(self) -> int:
        """N."""
        return len(self.starts) - 1

    def triples(self) -> np.ndarray:
        """The edges as (source, relation, target), ``[E, 3]``."""
        lengths = np.diff(self.run_ends, prepend=0)
        targets = np.repeat(np.arange(self.num_entities), np.diff(self.starts))
        return np.stack([self.sources.astype(np.int64), np.repeat(self.run_relations, lengths), targets], 1)


def in_edges(triples: np.ndarray, num_entities: int, num_relations: int) -> InEdges:
    """Group ``triples [n, 3]`` and their inverses."""
    edges = add_inverses(triples, num_relations)
    sources, relations, targets = edges[np.lexsort((edges[:, 0], edges[:, 1], edges[:, 2]))].T
    first = np.ones(len(edges), dtype=bool)  # of its run
    first[1:] = (targets[1:] != targets[:-1]) | (relations[1:] != relations[:-1])
    begins = np.flatnonzero(first)
    return InEdges(
        _offsets(targets, num_entities),
        sources.astype(np.int32),
        _offsets(targets[begins], num_entities),
        relations[begins].astype(np.int32),
        np.append(begins[1:], len(edges)).astype(np.int64)[: len(begins)],
        num_relations,
    )


def _offsets(targets: np.ndarray, num_entities: int) -> np.ndarray:
    offsets = np.zeros(num_entities + 1, dtype=np.int64)
    np.cumsum(np.bincount(targets, minlength=num_entities), out=offsets[1:])
    return offsets

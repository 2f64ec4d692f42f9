"""A graph that a run was not trained on: its own entities, and the run's relations by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuckerkg.data.labels import Labels
from tuckerkg.data.load import read_dataset
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.triple_sets import SPLITS, Triples
from tuckerkg.errors import InputError, Problem, TuckerkgError, did_you_mean

LONGEST_NAME = 100  # of a graph, as part of a file's name


@dataclass(frozen=True)
class OtherGraph:
    """Splits ``[n, 3]`` in which ids of entities are the graph's own and ids of relations the run's.

    ``train`` holds the facts that answers come from; ``valid`` and ``test`` are held out of it, or empty.
    """

    name: str
    entities: Labels
    relations: Labels
    splits: Mapping[str, Triples]

    @property
    def file_name(self) -> str:
        """The name with nothing in it that a file's name may not have."""
        return re.sub(r"[^\w.-]+", "_", self.name)[:LONGEST_NAME]


def read_other_graph(graph: Any, relations: Labels, options: ReadOptions | None = None) -> OtherGraph:
    """Read ``graph``, nothing of it split off, and number its relations as ``relations`` does.

    Args:
        graph: a dataset's name, a path, a ``Dataset`` or a graph in memory.
        relations: those that a run was trained with; titles of the graph's own take precedence over theirs.
        options: how to read its files.

    Raises:
        InputError: it has relations that are none of these; names them all.
    """
    read = read_dataset(graph, split=None, unseen_relations=True, options=options)
    if len(read.train) == 0:
        raise TuckerkgError(f"{read.name}: there are no facts to answer from")
    unknown = [label for label in read.relations.labels if label not in relations]
    if unknown:
        problems = [
            Problem(
                read.name, None, None, f"the relation {label!r} was not trained.{did_you_mean(label, relations.labels)}"
            )
            for label in unknown
        ]
        raise InputError(
            problems, "Rename them as they are called in the run, leave their facts out, or train with them."
        )
    ids = np.array([relations.id_of(label) for label in read.relations.labels], dtype=np.int64)
    return OtherGraph(
        name=read.name,
        entities=Labels("entity", read.entities.labels, read.entity_titles),
        relations=Labels("relation", relations.labels, {**relations.titles, **read.relation_titles}),
        splits={name: _renumbered(read.split(name), ids) for name in SPLITS},
    )


def _renumbered(triples: Triples, relation_ids: np.ndarray) -> Triples:
    """``triples [n, 3]`` with the run's ids of relations."""
    return np.stack([triples[:, 0], relation_ids[triples[:, 1]], triples[:, 2]], axis=1)

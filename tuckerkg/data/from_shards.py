"""A folder of shards to a graph in memory: the same names and facts that reading its files gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tuckerkg.data.from_files import ReadGraph, Titles, fill_splits
from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.read_report import report_on
from tuckerkg.data.readers.read import read_titles
from tuckerkg.data.shards import Ids, ShardedGraph
from tuckerkg.data.triple_sets import SPLITS, Triples

if TYPE_CHECKING:
    import polars as pl


def read_shards(
    path: Path,
    *,
    entity_titles: Titles | None = None,
    relation_titles: Titles | None = None,
    split: tuple[float, float, float] | None = (0.8, 0.1, 0.1),
    seed: int = 0,
) -> ReadGraph:
    """Read all shards; ids are those of a vocabulary in code-point order, as everywhere in memory.

    Args:
        path: a folder that ``tuckerkg ingest`` wrote.
        entity_titles, relation_titles: readable names by label, or a file of them, that replace the folder's.
        split: shares of train, valid and test where the folder has no such splits; None: none are made.
        seed: of the split.
    """
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    graph = ShardedGraph(path)
    names = pl.concat([graph.names(shard) for shard in range(graph.num_shards)])
    titles = pl.concat([graph.titles(shard) for shard in range(graph.num_shards)])
    relations = graph.relations()
    order = names.arg_sort()
    numbers = np.empty(len(names), dtype=np.int64)  # id here -> id in memory
    numbers[order.to_numpy()] = np.arange(len(names))
    entities = Vocabulary(tuple(names.gather(order).to_list()))
    given = {name: _renumbered(graph, name, numbers) for name in SPLITS if graph.about["counts"][name] is not None}
    labels = Vocabulary(tuple(relations["name"].to_list()))
    splits, warnings = fill_splits(given, len(entities), len(labels), split, seed)
    read = graph.report()
    return ReadGraph(
        name=path.resolve().name,
        entities=entities,
        relations=labels,
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
        entity_titles=_titles(names, titles, entity_titles, entities),
        relation_titles=_titles(relations["name"], relations["title"], relation_titles, labels),
        report=report_on(splits, read.files, read.counts, [*warnings, *read.warnings], entities.labels, labels.labels),
    )


def _renumbered(graph: ShardedGraph, split: str, numbers: npt.NDArray[np.int64]) -> Triples:
    parts: list[Ids] = [graph.held_out(split)] if split != "train" else []
    parts += [graph.triples(shard) for shard in range(graph.num_shards)] if split == "train" else []
    triples = np.concatenate(parts).astype(np.int64)  # [n, 3]
    triples[:, 0], triples[:, 2] = numbers[triples[:, 0]], numbers[triples[:, 2]]
    return triples


def _titles(names: pl.Series, titles: pl.Series, given: Titles | None, vocabulary: Vocabulary) -> dict[str, str]:
    found = {name: title for name, title in zip(names, titles, strict=True) if title is not None}
    if given is not None:
        found |= given if isinstance(given, Mapping) else read_titles(given)
    return {label: title for label, title in found.items() if label in vocabulary}

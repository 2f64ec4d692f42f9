"""A dataset: three splits of triples of ids with their names, from files or from memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuckerkg.data.from_files import ReadGraph, Source, Titles, read_graph
from tuckerkg.data.from_memory import edge_table, frame_table, networkx_table, table_of, triples_table
from tuckerkg.data.read_report import report_on
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.read import TripleTable
from tuckerkg.data.triple_sets import SPLITS, Triples
from tuckerkg.errors import UnknownNameError, did_you_mean

Fractions = tuple[float, float, float]


@dataclass(frozen=True)
class Dataset(ReadGraph):
    """Triples of ids, ``[n, 3]`` as (head, relation, tail), in three splits, with names and readable titles."""

    @classmethod
    def from_files(  # noqa: PLR0913  (by keyword)
        cls,
        train: Source,
        valid: Source | None = None,
        test: Source | None = None,
        *,
        name: str | None = None,
        entity_titles: Titles | None = None,
        relation_titles: Titles | None = None,
        options: ReadOptions | None = None,
        allow_leaks: bool = False,
        split: Fractions | None = (0.8, 0.1, 0.1),
        seed: int = 0,
        unseen_relations: bool = False,
    ) -> Dataset:
        """Read triple files: TSV, CSV, Parquet or RDF; the vocabulary takes in the names of all splits.

        Args:
            train, valid, test: files. Without ``valid`` that split is taken from ``train``, without both ``test`` too.
            name: of the dataset; None: the file's.
            entity_titles, relation_titles: readable names by label, or a file of them.
            options: delimiter, header, columns, what to do with bad rows.
            allow_leaks: accept triples that are in two files.
            split: shares of train, valid and test where splits are made; None: none are.
            seed: of the split.
            unseen_relations: accept relations that only held-out triples have: for a graph that nothing is trained on.

        Raises:
            InputError: a file is bad, a triple is in two files, or a relation is missing from training; names the line.
        """
        read = read_graph(
            train,
            valid,
            test,
            name=name,
            entity_titles=entity_titles,
            relation_titles=relation_titles,
            options=options,
            allow_leaks=allow_leaks,
            split=split,
            seed=seed,
            unseen_relations=unseen_relations,
        )
        return cls(**vars(read))

    @classmethod
    def from_triples(
        cls,
        triples: Iterable[Sequence[Any]],
        *,
        name: str = "graph",
        split: Fractions | None = (0.8, 0.1, 0.1),
        seed: int = 0,
    ) -> Dataset:
        """A list or array of (head, relation, tail)."""
        return cls._from_table(triples_table(triples), name, split, seed)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: Sequence[str] | None = None,
        *,
        name: str = "graph",
        split: Fractions | None = (0.8, 0.1, 0.1),
        seed: int = 0,
        options: ReadOptions | None = None,
    ) -> Dataset:
        """A pandas or Polars frame.

        Args:
            columns: head, relation and tail; not needed where they have well-known names or are the only three.
        """
        table = frame_table(frame, columns)
        chosen = options or ReadOptions()
        if columns is not None:
            chosen = replace(chosen, columns=(columns[0], columns[1], columns[2]))
        return cls._from_table(table, name, split, seed, chosen)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        relation: str = "relation",
        *,
        name: str = "graph",
        split: Fractions | None = (0.8, 0.1, 0.1),
        seed: int = 0,
    ) -> Dataset:
        """A NetworkX graph; an edge of an undirected graph is read once, as it is stored.

        Args:
            relation: the edge attribute that names the relation; without it a multigraph's key does.
        """
        return cls._from_table(networkx_table(graph, relation), name, split, seed)

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Any,
        edge_type: Any,
        *,
        entities: Sequence[str] | None = None,
        relations: Sequence[str] | None = None,
        name: str = "graph",
        split: Fractions | None = (0.8, 0.1, 0.1),
        seed: int = 0,
    ) -> Dataset:
        """PyG's ``edge_index [2, E]`` and ``edge_type [E]``.

        Args:
            entities, relations: names of the numbers; without them the numbers are the names.
        """
        return cls._from_table(edge_table(edge_index, edge_type, entities, relations), name, split, seed)

    @classmethod
    def of(cls, graph: Any, *, split: Fractions | None = (0.8, 0.1, 0.1)) -> Dataset:
        """Any graph in memory, recognized by its attributes; the other constructors have options."""
        return cls._from_table(table_of(graph), "graph", split, 0)

    @classmethod
    def _from_table(
        cls,
        table: TripleTable,
        name: str,
        split: Fractions | None,
        seed: int,
        options: ReadOptions | None = None,
    ) -> Dataset:
        return cls(**vars(read_graph(table, name=name, split=split, seed=seed, options=options)))

    def split(self, name: str) -> Triples:
        """The triples of ``train``, ``valid`` or ``test``."""
        if name not in SPLITS:
            hint = did_you_mean(name, SPLITS)
            raise UnknownNameError(f"unknown split {name!r}, use one of {', '.join(SPLITS)}.{hint}")
        return {"train": self.train, "valid": self.valid, "test": self.test}[name]

    def with_splits(self, splits: Mapping[str, Triples], what: str) -> Dataset:
        """The same names with other triples; ``what`` was done is the first of the report's warnings."""
        kept = {name: self.report.counts[name] for name in ("leaks",) if name in self.report.counts}
        report = report_on(splits, self.report.files, kept, [what], self.entities.labels, self.relations.labels)
        return replace(self, train=splits["train"], valid=splits["valid"], test=splits["test"], report=report)

    def __repr__(self) -> str:
        sizes = " / ".join(f"{len(self.split(name)):,}" for name in SPLITS)
        return (
            f"Dataset({self.name!r}: {len(self.entities):,} entities, {len(self.relations):,} relations, "
            f"{sizes} triples to train, validate, test)"
        )

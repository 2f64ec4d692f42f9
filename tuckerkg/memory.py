"""Graphs that are already in memory: pandas and Polars frames, NetworkX graphs, PyG's edge_index and edge_type.

None of these libraries is imported: an object is told by what it can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuckerkg.errors import TuckerkgError
from tuckerkg.read_options import ReadOptions
from tuckerkg.reading import TripleTable
from tuckerkg.rows import FIELDS
from tuckerkg.triples import Dataset, read_dataset

SHOWN = "the graph in memory"


def dataset_of(  # noqa: PLR0913  (the public surface, by keyword)
    graph: Any,
    *,
    name: str = "graph",
    columns: Sequence[str] | None = None,
    relation: str = "relation",
    entities: Sequence[str] | None = None,
    relations: Sequence[str] | None = None,
    split: tuple[float, float, float] | None = (0.8, 0.1, 0.1),
    seed: int = 0,
    options: ReadOptions | None = None,
) -> Dataset:
    """A dataset of a graph in memory, split by ``split`` and ``seed``.

    A pandas or Polars frame: ``columns`` names head, relation and tail unless they have well-known names or are the
    only three. A NetworkX graph: the edge attribute ``relation``, or else a multigraph's key, is the relation; an edge
    of an undirected graph is read once, as it is stored. Anything with ``edge_index [2, E]`` and ``edge_type [E]``:
    ``entities`` and ``relations`` name the numbers; without them the numbers are the names.
    """
    frame = _frame_of(graph, relation, entities, relations)
    chosen = options or ReadOptions()
    if columns is not None:
        if len(columns) != len(FIELDS):
            raise TuckerkgError(f"columns names {len(columns)} columns, expected head, relation and tail")
        chosen = ReadOptions(**{**vars(chosen), "columns": tuple(columns)})
    return read_dataset(TripleTable(frame, SHOWN), name=name, split=split, seed=seed, options=chosen)


def _is_networkx(thing: Any) -> bool:
    return hasattr(thing, "edges") and hasattr(thing, "is_multigraph")


def _is_edges(thing: Any) -> bool:
    return hasattr(thing, "edge_index") and hasattr(thing, "edge_type")


def _is_frame(thing: Any) -> bool:
    return hasattr(thing, "columns") and hasattr(thing, "__getitem__") and hasattr(thing, "shape")


def _frame_of(graph: Any, relation: str, entities: Sequence[str] | None, relations: Sequence[str] | None) -> Any:
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    if isinstance(graph, pl.LazyFrame):
        return graph.collect()
    if isinstance(graph, pl.DataFrame):
        return graph
    if _is_networkx(graph):
        return _columns(_networkx_edges(graph, relation))
    if _is_edges(graph):
        return _columns(_numbered_edges(graph, entities, relations))
    if _is_frame(graph):
        return pl.DataFrame({str(name): _values(graph[name]) for name in graph.columns})
    raise TuckerkgError(
        f"a {type(graph).__name__} is no graph that can be read: give a pandas or Polars frame, a NetworkX graph, "
        "or an object with edge_index and edge_type"
    )


def _values(column: Any) -> list[Any]:
    """A pandas column as plain values; what pandas calls missing is None."""
    missing = column.isna().tolist()
    return [None if absent else value for value, absent in zip(column.tolist(), missing, strict=True)]


def _columns(triples: list[tuple[str, str, str]]) -> Any:
    import polars as pl  # noqa: PLC0415

    heads, relations, tails = zip(*triples, strict=True) if triples else ((), (), ())
    parts = zip(FIELDS, (heads, relations, tails), strict=True)
    return pl.DataFrame({field: pl.Series(values, dtype=pl.String) for field, values in parts})


def _networkx_edges(graph: Any, relation: str) -> list[tuple[str, str, str]]:
    found = []
    many = graph.is_multigraph()
    for head, tail, *key, data in graph.edges(keys=True, data=True) if many else graph.edges(data=True):
        name = data.get(relation, key[0] if key and isinstance(key[0], str) else None)
        if name is None:
            raise TuckerkgError(
                f"the edge {head!r} - {tail!r} has no attribute {relation!r} to tell its relation; "
                f"set it on every edge, or name another one: relation=..."
            )
        found.append((str(head), str(name), str(tail)))
    return found


def _numbered_edges(
    graph: Any, entities: Sequence[str] | None, relations: Sequence[str] | None
) -> list[tuple[str, str, str]]:
    sources, targets = (_numbers(row) for row in graph.edge_index)
    kinds = _numbers(graph.edge_type)
    if len(kinds) != len(sources):
        raise TuckerkgError(f"edge_index has {len(sources):,} edges, edge_type {len(kinds):,}; they must be as many")
    nodes = _names("entities", entities, max([*sources, *targets], default=-1))
    edges = _names("relations", relations, max(kinds, default=-1))
    return [(nodes[s], edges[r], nodes[t]) for s, r, t in zip(sources, kinds, targets, strict=True)]


def _numbers(row: Any) -> list[int]:
    return [int(value) for value in row.tolist()]


def _names(kind: str, given: Sequence[str] | None, largest: int) -> Sequence[str]:
    if given is None:
        return [str(number) for number in range(largest + 1)]
    if len(given) <= largest:
        raise TuckerkgError(f"{kind} names {len(given):,}, but the graph counts up to {largest:,}")
    return given

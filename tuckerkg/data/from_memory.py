"""Graphs in memory as tables of triples: lists, pandas and Polars frames, NetworkX graphs, PyG's edge_index.

None of these libraries is imported: objects are recognized by their attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tuckerkg.data.readers.columns import FIELDS
from tuckerkg.data.readers.read import TripleTable
from tuckerkg.errors import TuckerkgError, printable

SHOWN = "the graph in memory"


def frame_table(frame: Any, columns: Sequence[str] | None = None) -> TripleTable:
    """A pandas or Polars frame; ``columns`` names head, relation and tail unless that is obvious."""
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    elif not isinstance(frame, pl.DataFrame):
        if not _is_frame(frame):
            raise TuckerkgError(f"a {type(frame).__name__} is not a frame: give a pandas or Polars frame")
        frame = pl.DataFrame({str(name): _values(frame[name]) for name in frame.columns})
    if columns is not None and len(columns) != len(FIELDS):
        raise TuckerkgError(f"columns names {len(columns)} columns, expected head, relation and tail")
    return TripleTable(frame, SHOWN)


def networkx_table(graph: Any, relation: str = "relation") -> TripleTable:
    """A NetworkX graph: the edge attribute ``relation``, or else a multigraph's key, is the relation."""
    if not _is_networkx(graph):
        raise TuckerkgError(f"a {type(graph).__name__} is not a NetworkX graph")
    return TripleTable(_columns(_networkx_edges(graph, relation)), SHOWN)


def edge_table(
    edge_index: Any, edge_type: Any, entities: Sequence[str] | None = None, relations: Sequence[str] | None = None
) -> TripleTable:
    """``edge_index [2, E]`` and ``edge_type [E]``; without names, the numbers are the names."""
    return TripleTable(_columns(_numbered_edges(edge_index, edge_type, entities, relations)), SHOWN)


def triples_table(triples: Iterable[Sequence[Any]]) -> TripleTable:
    """A list or array of (head, relation, tail)."""
    rows = triples.tolist() if hasattr(triples, "tolist") else list(triples)
    for place, row in enumerate(rows):
        if isinstance(row, str) or not hasattr(row, "__len__") or len(row) != len(FIELDS):
            raise TuckerkgError(f"triple {place} is {printable(repr(row))[:200]}, expected (head, relation, tail)")
    return TripleTable(_columns([(str(h), str(r), str(t)) for h, r, t in rows]), SHOWN)


def table_of(graph: Any) -> TripleTable:
    """Any of the above, recognized by its attributes."""
    if _is_networkx(graph):
        return networkx_table(graph)
    if _is_edges(graph):
        return edge_table(graph.edge_index, graph.edge_type)
    if hasattr(graph, "collect") or _is_frame(graph):
        return frame_table(graph)
    if isinstance(graph, Sequence) or hasattr(graph, "tolist"):
        return triples_table(graph)
    raise TuckerkgError(
        f"a {type(graph).__name__} is not a graph that can be read: give a list or array of triples, a pandas or "
        "Polars frame, a NetworkX graph, or an object with edge_index and edge_type"
    )


def _is_networkx(thing: Any) -> bool:
    return hasattr(thing, "edges") and hasattr(thing, "is_multigraph")


def _is_edges(thing: Any) -> bool:
    return hasattr(thing, "edge_index") and hasattr(thing, "edge_type")


def _is_frame(thing: Any) -> bool:
    return hasattr(thing, "columns") and hasattr(thing, "__getitem__") and hasattr(thing, "shape")


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
    edge_index: Any, edge_type: Any, entities: Sequence[str] | None, relations: Sequence[str] | None
) -> list[tuple[str, str, str]]:
    sources, targets = (_numbers(row) for row in edge_index)
    kinds = _numbers(edge_type)
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

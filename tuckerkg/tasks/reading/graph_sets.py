"""Sets of graphs: a folder in the TU format, or one file of triples with a column that names the graph of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.readers.bytes import read_bytes
from tuckerkg.errors import InputError, Problem, printable
from tuckerkg.tasks.reading.labels import read_table

PARTS = ("A", "graph_indicator", "graph_labels")  # files that every folder in the TU format has


@dataclass(frozen=True)
class GraphSet:
    """Graphs side by side: facts ``[n, 3]`` of ids, the graph and the type of every node, and names.

    Attributes:
        labels: of the graphs, where the set has them.
        edges_stand_twice: whether every edge stands in both directions, so that no inverses are needed.
    """

    name: str
    triples: np.ndarray
    graph_of: np.ndarray
    node_types: np.ndarray
    graphs: Vocabulary
    nodes: tuple[str, ...]
    relations: tuple[str, ...]
    features: np.ndarray | None
    labels: tuple[str, ...] | None
    edges_stand_twice: bool


def is_tu_folder(path: Path) -> bool:
    """Whether a folder holds one set of graphs in the TU format."""
    return path.is_dir() and len(list(path.glob("*_graph_indicator.txt"))) == 1


def read_tu(path: Path) -> GraphSet:
    """Read a folder with DS_A.txt, DS_graph_indicator.txt, DS_graph_labels.txt and the files that are optional.

    Raises:
        InputError: a file is missing, or does not fit the others; names file and line.
    """
    (indicator,) = path.glob("*_graph_indicator.txt")
    name = indicator.name.removesuffix("_graph_indicator.txt")
    files = {part: path / f"{name}_{part}.txt" for part in (*PARTS, "node_labels", "edge_labels", "node_attributes")}
    for part in PARTS:
        if not files[part].is_file():
            raise InputError([Problem(str(files[part]), None, None, "is missing from the set")])
    graph_of = _numbers(files["graph_indicator"], 1)[:, 0].astype(np.int64) - 1
    labels = _numbers(files["graph_labels"], 1)[:, 0]
    ends = _numbers(files["A"], 2).astype(np.int64) - 1
    nodes, count = len(graph_of), len(labels)
    _check_range(files["A"], ends, nodes, "node")
    _check_range(files["graph_indicator"], graph_of[:, None], count, "graph")
    across = np.flatnonzero(graph_of[ends[:, 0]] != graph_of[ends[:, 1]])
    if len(across):
        raise InputError([Problem(str(files["A"]), int(across[0]) + 1, None, "joins nodes of two graphs")])
    types = _optional(files["node_labels"], nodes)
    kinds = _optional(files["edge_labels"], len(ends))
    attributes = _numbers(files["node_attributes"], None) if files["node_attributes"].is_file() else None
    if attributes is not None and len(attributes) != nodes:
        text = f"has {len(attributes):,} rows, not {nodes:,}"
        raise InputError([Problem(str(files["node_attributes"]), None, None, text)])
    edge_values = np.zeros(len(ends)) if kinds is None else kinds[:, 0]
    edge_names, edge_kinds = np.unique(edge_values, return_inverse=True)
    node_types = np.unique(np.zeros(nodes) if types is None else types[:, 0], return_inverse=True)[1]
    triples = np.stack([ends[:, 0], edge_kinds, ends[:, 1]], 1).astype(np.int64)
    names = [f"{number:0{len(str(count))}}" for number in range(1, count + 1)]
    width = len(str(nodes))
    return GraphSet(
        name=name,
        triples=triples,
        graph_of=graph_of,
        node_types=node_types.astype(np.int64),
        graphs=Vocabulary(tuple(names)),
        nodes=tuple(f"{names[graph]}/{number:0{width}}" for number, graph in enumerate(graph_of.tolist(), 1)),
        relations=tuple(f"edge {number:g}" for number in edge_names.tolist()),
        features=None if attributes is None else attributes.astype(np.float32),
        labels=tuple(f"{label:g}" for label in labels.tolist()),
        edges_stand_twice=stand_twice(triples),
    )


def read_graph_column(path: Path, graph_column: str, delimiter: str | None = None) -> GraphSet:
    """Read one file of triples with a column that names the graph; nodes of different graphs are different nodes.

    Its columns are head, relation and tail, by these names or as the three others in their order; ``head_type`` and
    ``tail_type``, where it has them, say of which types nodes are.

    Raises:
        InputError: a column is missing or a cell is empty; names the line.
    """
    table = read_table(path, delimiter)
    if graph_column not in table.columns:
        known = ", ".join(printable(column) for column in table.columns)
        raise InputError([Problem(str(path), None, None, f"has no column '{printable(graph_column)}'. It has {known}")])
    typed = {"head_type", "tail_type"} <= set(table.columns)
    rest = [column for column in table.columns if column not in (graph_column, "head_type", "tail_type")]
    named = ["head", "relation", "tail"]
    columns = named if set(named) <= set(rest) else rest[:3]
    if len(columns) != 3:
        raise InputError([Problem(str(path), None, None, "needs three columns beside the graph: head, relation, tail")])
    for column in (graph_column, *columns):
        empty = table[column].is_null().arg_true()
        if len(empty):
            raise InputError([Problem(str(path), int(empty[0]) + 2, None, f"{printable(column)} is empty")])
    graph_names, graphs = np.unique(table[graph_column].to_numpy().astype(str), return_inverse=True)
    heads, tails = (
        [f"{graph}/{node}" for graph, node in zip(table[graph_column], table[column], strict=True)]
        for column in (columns[0], columns[2])
    )
    nodes, ids = np.unique(np.array([*heads, *tails]), return_inverse=True)
    relations, relation_ids = np.unique(table[columns[1]].to_numpy().astype(str), return_inverse=True)
    graph_of = np.zeros(len(nodes), np.int64)
    graph_of[ids[: len(heads)]] = graphs
    graph_of[ids[len(heads) :]] = graphs
    types = np.zeros(len(nodes), np.int64)
    if typed:
        said = np.array([*table["head_type"].to_list(), *table["tail_type"].to_list()], dtype=str)
        types[ids] = np.unique(said, return_inverse=True)[1]
    triples = np.stack([ids[: len(heads)], relation_ids, ids[len(heads) :]], 1).astype(np.int64)
    return GraphSet(
        name=path.stem,
        triples=np.unique(triples, axis=0),
        graph_of=graph_of,
        node_types=types,
        graphs=Vocabulary(tuple(graph_names.tolist())),
        nodes=tuple(nodes.tolist()),
        relations=tuple(relations.tolist()),
        features=None,
        labels=None,
        edges_stand_twice=False,
    )


def _numbers(path: Path, columns: int | None) -> np.ndarray:
    """A file of comma-separated numbers.

    Raises:
        InputError: a line holds something else.
    """
    rows = bytes(read_bytes(path).data).decode("utf-8", "replace").splitlines()
    found: list[list[float]] = []
    for line, row in enumerate(rows, start=1):
        if not row.strip():
            continue
        try:
            values = [float(part) for part in row.split(",")]
        except ValueError:
            raise InputError([Problem(str(path), line, None, f"'{printable(row)[:80]}' is no number")]) from None
        if len(values) != (columns or len(values)) or (found and len(values) != len(found[0])):
            text = f"has {len(values)} numbers, not {columns or len(found[0])}"
            raise InputError([Problem(str(path), line, None, text)])
        found.append(values)
    if not found:
        raise InputError([Problem(str(path), None, None, "has no row")])
    return np.array(found)


def _optional(path: Path, count: int) -> np.ndarray | None:
    if not path.is_file():
        return None
    found = _numbers(path, None)
    if len(found) != count:
        raise InputError([Problem(str(path), None, None, f"has {len(found):,} rows, not {count:,}")])
    return found


def _check_range(path: Path, ids: np.ndarray, count: int, what: str) -> None:
    wrong = np.flatnonzero(((ids < 0) | (ids >= count)).any(1))
    if len(wrong):
        text = f"names {what} {int(ids[wrong[0]].max()) + 1}, and there are {count:,}"
        raise InputError([Problem(str(path), int(wrong[0]) + 1, None, text)])


def stand_twice(triples: np.ndarray) -> bool:
    """Whether for every edge the turned one is there, of the same kind."""
    turned = triples[:, [2, 1, 0]]
    both = pl.DataFrame({"a": triples[:, 0], "r": triples[:, 1], "b": triples[:, 2]})
    other = pl.DataFrame({"a": turned[:, 0], "r": turned[:, 1], "b": turned[:, 2]})
    return len(both.join(other, on=["a", "r", "b"], how="anti")) == 0

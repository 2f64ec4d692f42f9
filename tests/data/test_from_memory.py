"""Graphs in memory give the dataset that the same facts in a file give."""

from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import tuckerkg
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.load import load
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.errors import InputError, TuckerkgError
from tuckerkg.training.callbacks import NullCallback

FACTS = sorted((f"e{i}", f"r{i % 3}", f"e{(i * 7 + 1) % 20}") for i in range(20))


@pytest.fixture
def from_file(tmp_path):
    path = tmp_path / "graph.tsv"
    path.write_text("".join("\t".join(fact) + "\n" for fact in FACTS), encoding="utf-8")
    return load(path)


def frame(names=("head", "relation", "tail")):
    return dict(zip(names, (list(part) for part in zip(*FACTS, strict=True)), strict=True))


def multigraph():
    graph = nx.MultiDiGraph()
    for head, relation, tail in FACTS:
        graph.add_edge(head, tail, key=relation)
    return graph


def attributes():
    graph = nx.MultiDiGraph()
    for head, relation, tail in FACTS:
        graph.add_edge(head, tail, kind=relation)
    return graph


def edges():
    nodes, kinds = sorted({end for fact in FACTS for end in fact[::2]}), sorted({fact[1] for fact in FACTS})
    pairs = [[nodes.index(fact[place]) for fact in FACTS] for place in (0, 2)]
    types = [kinds.index(fact[1]) for fact in FACTS]
    return SimpleNamespace(edge_index=torch.tensor(pairs), edge_type=torch.tensor(types)), nodes, kinds


def same(one, other):
    assert one.entities == other.entities
    assert one.relations == other.relations
    for split in ("train", "valid", "test"):
        assert np.array_equal(one.split(split), other.split(split))


def test_frames(from_file):
    for made in (pl.DataFrame(frame()), pl.DataFrame(frame()).lazy(), pd.DataFrame(frame())):
        same(Dataset.from_frame(made), from_file)
        same(Dataset.of(made), from_file)
    named = pd.DataFrame({"weight": 1.0, **frame(("s", "p", "o"))})
    same(Dataset.from_frame(named, ("s", "p", "o")), from_file)


def test_networkx_graphs(from_file):
    same(Dataset.from_networkx(multigraph()), from_file)
    same(Dataset.from_networkx(attributes(), relation="kind"), from_file)


def test_edge_index_and_edge_type(from_file):
    graph, nodes, kinds = edges()
    same(Dataset.from_edge_index(graph.edge_index, graph.edge_type, entities=nodes, relations=kinds), from_file)
    assert set(Dataset.of(graph).relations.labels) == {"0", "1", "2"}


def test_training_takes_a_frame(tmp_path):
    small = {"model.dim": 4, "model.relation_dim": 4, "train.epochs": 1.0, "train.threads": 1}
    run = tuckerkg.train(pd.DataFrame(frame()), out=tmp_path / "run", overrides=small, callback=NullCallback())
    assert len(run.predict(head="e1", relation="r1", k=2)) == 2


def test_missing_values_are_named_by_row_or_counted():
    made = pd.DataFrame(frame())
    made.loc[3, "tail"] = None
    with pytest.raises(InputError, match=r"the graph in memory:4:3: nothing in the column tail"):
        Dataset.from_frame(made)
    report = Dataset.from_frame(made, options=ReadOptions(on_error="skip")).report
    assert (report.read, report.rejected) == (20, 1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Dataset.of(3.5), "float is not a graph"),
        (lambda: Dataset.of(nx.path_graph(3)), "no attribute 'relation'"),
        (
            lambda: Dataset.from_edge_index(edges()[0].edge_index, edges()[0].edge_type, entities=["only one"]),
            "entities names 1",
        ),
        (lambda: Dataset.from_edge_index(torch.zeros(2, 3), torch.zeros(2)), "3 edges, edge_type 2"),
        (lambda: Dataset.from_frame(pd.DataFrame(frame()), ("head", "tail")), "2 columns"),
        (lambda: Dataset.of(pd.DataFrame({"a": [1], "b": ["x"], "c": ["y"]})), "holds Int64"),
        (lambda: Dataset.of(nx.MultiDiGraph()), "0 triples"),
        (lambda: Dataset.from_triples([("a", "r", "b"), ("a", "r")]), r"triple 1 is \('a', 'r'\)"),
        (lambda: Dataset.from_triples(["a r b"]), "triple 0 is 'a r b'"),
        (lambda: Dataset.from_frame([1, 2]), "list is not a frame"),
        (lambda: Dataset.from_networkx({}), "dict is not a NetworkX graph"),
    ],
)
def test_what_cannot_be_read_is_said(make, said):
    with pytest.raises(TuckerkgError, match=said):
        make()


def test_a_list_or_array_of_triples_reads_as_a_file_does(from_file):
    rows = [tuple(row) for row in pd.DataFrame(frame()).itertuples(index=False)]
    same(Dataset.from_triples(rows), from_file)
    same(Dataset.from_triples(np.array(rows)), from_file)
    same(Dataset.of(rows), from_file)

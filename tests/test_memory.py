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
from tuckerkg.datasets import load
from tuckerkg.errors import InputError, TuckerkgError
from tuckerkg.memory import dataset_of
from tuckerkg.read_options import ReadOptions
from tuckerkg.training import Silent

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
        same(dataset_of(made), from_file)
    named = pd.DataFrame({"weight": 1.0, **frame(("s", "p", "o"))})
    same(dataset_of(named, columns=("s", "p", "o")), from_file)


def test_networkx_graphs(from_file):
    same(dataset_of(multigraph()), from_file)
    same(dataset_of(attributes(), relation="kind"), from_file)


def test_edge_index_and_edge_type(from_file):
    graph, nodes, kinds = edges()
    same(dataset_of(graph, entities=nodes, relations=kinds), from_file)
    assert set(dataset_of(graph).relations.labels) == {"0", "1", "2"}


def test_training_takes_a_frame(tmp_path):
    small = {"model.dim": 4, "model.relation_dim": 4, "train.epochs": 1.0, "train.threads": 1}
    run = tuckerkg.train(pd.DataFrame(frame()), out=tmp_path / "run", overrides=small, observer=Silent())
    assert len(run.predict(head="e1", relation="r1", k=2)) == 2


def test_missing_values_are_named_by_row_or_counted():
    made = pd.DataFrame(frame())
    made.loc[3, "tail"] = None
    with pytest.raises(InputError, match=r"the graph in memory:4:3: nothing in the column tail"):
        dataset_of(made)
    report = dataset_of(made, options=ReadOptions(on_error="skip")).report
    assert (report.read, report.rejected) == (20, 1)


@pytest.mark.parametrize(
    ("graph", "options", "said"),
    [
        (3.5, {}, "float is no graph"),
        (nx.path_graph(3), {}, "no attribute 'relation'"),
        (edges()[0], {"entities": ["only one"]}, "entities names 1"),
        (SimpleNamespace(edge_index=torch.zeros(2, 3), edge_type=torch.zeros(2)), {}, "3 edges, edge_type 2"),
        (pd.DataFrame(frame()), {"columns": ("head", "tail")}, "2 columns"),
        (pd.DataFrame({"a": [1], "b": ["x"], "c": ["y"]}), {}, "holds Int64"),
        (nx.MultiDiGraph(), {}, "0 triples"),
    ],
)
def test_what_cannot_be_read_is_said(graph, options, said):
    with pytest.raises(TuckerkgError, match=said):
        dataset_of(graph, **options)

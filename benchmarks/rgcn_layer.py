"""One R-GCN layer, forward and backward, on the whole of FB15k-237, against PyG's and PyKEEN's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.measure import Line, Measured, Work, alternate, once
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.load import load
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.nn.encoders.rgcn import RGCNLayer

DIM = 100
SIZES = {"basis": 100, "block": 5}
FAST_SHARE = 0.1  # of the edges, for the peer that holds a matrix per edge: 22 GB for all of them


def run(peers: bool = True) -> Iterator[Line]:
    data = load("fb15k-237")
    num_entities, num_relations = len(data.entities), 2 * len(data.relations)
    edges = torch.from_numpy(add_inverses(data.train, len(data.relations)))
    graph = MessageGraph.of(edges, num_entities, order="fewest")
    prepared = alternate({"prepare": lambda: MessageGraph.of(edges, num_entities, order="fewest")}, 3)["prepare"]
    for decomposition, bases in SIZES.items():
        torch.manual_seed(0)
        layer = RGCNLayer(DIM, DIM, num_relations, decomposition=decomposition, bases=bases)  # type: ignore[arg-type]
        entities = torch.randn(num_entities, DIM, requires_grad=True)
        ours = partial(_forward_and_backward, layer, graph, entities, torch.randn(num_entities, DIM))
        found = alternate({"ours": ours, "bare GEMM": _bare(graph, num_relations, bases, decomposition)})
        rows = graph.groups.position.numel()
        work = f"fb15k-237 whole graph, {len(edges)} edges, {decomposition} {bases}, d {DIM}, forward + backward"
        line = Line("r-gcn-layer", work, found["ours"].seconds, found["ours"].peak_memory_mb, "")
        line.rate = f"{len(edges) / line.seconds / 1e6:.1f} million edges/s, {rows} rows instead of {len(edges)}"
        line.notes = f"the graph is prepared once, in {prepared.seconds:.3f} s"
        line.hold("bare GEMM", found["bare GEMM"], what="the layer's products alone")
        if peers:
            line.hold("PyG RGCNConv", _pyg(data, edges, num_relations, decomposition, bases))
            line.hold(
                "PyG FastRGCNConv",
                _pyg(data, edges[:: round(1 / FAST_SHARE)], num_relations, decomposition, bases, fast=True),
                what=f"{FAST_SHARE:.0%} of the edges, not scaled up: a matrix per edge",
            )
            line.hold("PyKEEN", _pykeen(data, decomposition, bases), what="RGCNRepresentation, one layer")
        yield line


def _forward_and_backward(
    layer: RGCNLayer, graph: MessageGraph, entities: torch.Tensor, gradient: torch.Tensor
) -> None:
    layer(entities, graph).backward(gradient)


def _bare(graph: MessageGraph, num_relations: int, bases: int, decomposition: str) -> Work:
    pairs = [
        (torch.randn(len(b.relation_ids), b.length, DIM), torch.randn(len(b.relation_ids), DIM, DIM))
        for b in graph.groups.buckets
    ]
    small, large = torch.randn(num_relations, bases), torch.randn(bases, DIM * DIM)
    entities, square = torch.randn(graph.num_entities, DIM), torch.randn(DIM, DIM)

    def work() -> None:
        for rows, matrices in pairs:
            torch.bmm(rows, matrices)
            torch.bmm(rows, matrices.mT)
            torch.bmm(rows.mT, rows)
        if decomposition == "basis":
            whole = small @ large
            whole @ large.T
            small.T @ whole
        for _ in range(2):
            entities @ square
        entities.T @ entities

    return work


def _pyg(
    data: Dataset, edges: torch.Tensor, num_relations: int, decomposition: str, bases: int, fast: bool = False
) -> Measured:
    from torch_geometric.nn import FastRGCNConv, RGCNConv

    option = {"num_bases": bases} if decomposition == "basis" else {"num_blocks": bases}
    conv = (FastRGCNConv if fast else RGCNConv)(DIM, DIM, num_relations, **option)
    entities = torch.randn(len(data.entities), DIM, requires_grad=True)
    edge_index, edge_type = edges[:, [0, 2]].T.contiguous(), edges[:, 1].contiguous()
    gradient = torch.randn(len(data.entities), DIM)
    return once(lambda: conv(entities, edge_index, edge_type).backward(gradient))


def _pykeen(data: Dataset, decomposition: str, bases: int) -> Measured:
    from pykeen.nn.message_passing import RGCNRepresentation
    from pykeen.triples import CoreTriplesFactory

    factory = CoreTriplesFactory(
        torch.from_numpy(data.train), num_entities=len(data.entities), num_relations=len(data.relations)
    )
    representation = RGCNRepresentation(
        triples_factory=factory,
        entity_representations_kwargs={"shape": DIM},
        num_layers=1,
        decomposition="bases" if decomposition == "basis" else "block",
        decomposition_kwargs={"num_bases": bases} if decomposition == "basis" else {"num_blocks": bases},
        edge_dropout=0.0,
        self_loop_dropout=0.0,
        cache=False,
    )
    gradient = torch.randn(len(data.entities), DIM)
    return once(lambda: representation(indices=None).backward(gradient))

"""R-GCN's layer against a loop over its equation, in float64, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.nn.encoders import rgcn
from tuckerkg.nn.encoders.rgcn import RGCN, RGCNLayer

N, R, D_IN, D_OUT = 12, 5, 4, 6
EDGES = torch.unique(
    torch.stack([torch.randint(h, (45,), generator=torch.Generator().manual_seed(h)) for h in (N - 2, R - 1, 5)], 1),
    dim=0,
)  # entities 10 and 11 are isolated, relation 4 has no edge, and few targets have many sources


def relation_matrix(layer: RGCNLayer, relation: int) -> Tensor:
    """W_r as the decomposition defines it."""
    if layer.decomposition == "basis":
        return sum(layer.coefficients[relation, b] * layer.weight[b] for b in range(layer.bases))
    if layer.decomposition == "block":
        return torch.block_diag(*layer.weight[relation])
    return layer.w2.T @ torch.diag(layer.coefficients[relation]) @ layer.w3


@pytest.mark.parametrize("decomposition", ["basis", "block", "cp"])
@pytest.mark.parametrize("normalize", ["relation", "degree"])
@pytest.mark.parametrize("order", ["source", "fewest"])
@pytest.mark.parametrize("product_width", [1, 100])
def test_layer_and_gradients_equal_the_loop_over_eq_1(monkeypatch, decomposition, normalize, order, product_width):
    monkeypatch.setattr(rgcn, "PRODUCT_WIDTH", product_width)  # 1: every block in a product of its own
    torch.manual_seed(0)
    layer = RGCNLayer(D_IN, D_OUT, R, decomposition=decomposition, bases=2).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    entities = torch.randn(N, D_IN, dtype=torch.double, requires_grad=True)
    ours = layer(entities, MessageGraph.of(EDGES, N, normalize, torch.double, order))
    rows = [entities[v] @ layer.self_loop + layer.bias for v in range(N)]
    for source, relation, target in EDGES.tolist():
        same = EDGES[:, 2] == target
        if normalize == "relation":
            same = same & (EDGES[:, 1] == relation)
        rows[target] = rows[target] + entities[source] @ relation_matrix(layer, relation) / same.sum()
    naive, weight = torch.stack(rows), torch.randn(N, D_OUT, dtype=torch.double)
    assert torch.allclose(ours, naive, rtol=0, atol=1e-10)
    leaves = [entities, *layer.parameters()]
    for mine, other in zip(
        torch.autograd.grad((ours * weight).sum(), leaves),
        torch.autograd.grad((naive * weight).sum(), leaves),
        strict=True,
    ):
        assert torch.allclose(mine, other, rtol=1e-10, atol=1e-10)


def test_blocks_that_do_not_divide_the_width_are_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"5 blocks divide, got 4 and 6; choose encoder\.bases"):
        RGCNLayer(D_IN, D_OUT, R, decomposition="block", bases=5)


@pytest.mark.parametrize(
    ("decomposition", "expected"),
    [
        ("basis", 2 * (R * 3 + 3 * 16 + 16 + 4)),
        ("block", 2 * (R * 4 * 4 + 16 + 4)),
        ("cp", 2 * (R * 3 + 2 * 3 * 4 + 16 + 4)),
    ],
)
def test_parameters_by_hand(decomposition, expected):
    bases = 1 if decomposition == "block" else 3
    encoder = RGCN(4, 7, R, decomposition=decomposition, bases=bases)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == expected


def test_relu_stands_between_layers_and_relations_pass_unchanged():
    torch.manual_seed(1)
    encoder = RGCN(4, 7, R, layers=2, bases=3).double()
    graph = MessageGraph.of(EDGES, N, "relation", torch.double)
    entities, relations = torch.randn(N, 4).double(), torch.randn(R, 7).double()
    encoded, same = encoder(graph, entities, relations)
    hidden = torch.relu(encoder.layers[0](entities, graph))
    assert torch.allclose(encoded, encoder.layers[1](hidden, graph))
    assert same is relations


def test_a_graph_without_edges_is_the_self_loop():
    layer = RGCNLayer(D_IN, D_OUT, R)
    entities = torch.randn(N, D_IN)
    empty = MessageGraph.of(torch.empty(0, 3, dtype=torch.long), N, order="fewest")
    assert torch.allclose(layer(entities, empty), entities @ layer.self_loop + layer.bias)

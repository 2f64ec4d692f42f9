"""CompGCN and SACN's weighted convolution against loops over edges, written from the papers' equations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.nn.encoders import SACN, CompGCN
from tuckerkg.nn.encoders.compgcn import CompGCNLayer, compose
from tuckerkg.nn.encoders.sacn import SACNLayer

N, R, D = 7, 3, 5  # R relations, as many inverses


def some_edges(count: int = 18) -> Tensor:
    torch.manual_seed(1)
    triples = torch.stack([torch.randint(N, (count,)), torch.randint(R, (count,)), torch.randint(N, (count,))], 1)
    inverses = torch.stack([triples[:, 2], triples[:, 1] + R, triples[:, 0]], 1)
    return torch.cat([triples, inverses])


def naive_phi(kind: str, h: Tensor, z: Tensor) -> Tensor:
    if kind == "subtraction":
        return h - z
    if kind == "multiplication":
        return h * z
    return torch.stack([sum(h[i] * z[(i + k) % D] for i in range(D)) for k in range(D)])


def layer_at_rest(layer):
    layer = layer.double().eval()
    layer.norm.eps = 0.0
    return layer


@pytest.mark.parametrize("order", ["source", "fewest"])
@pytest.mark.parametrize("kind", ["subtraction", "multiplication", "correlation"])
def test_a_compgcn_layer_equals_the_loop_over_edges(kind, order):
    edges = some_edges()
    graph = MessageGraph.of(edges, N, "symmetric", torch.double, order)
    layer = layer_at_rest(CompGCNLayer(D, 4, 6, 2 * R, composition=kind))
    torch.nn.init.normal_(layer.bias)
    entities, relations = torch.randn(N, D).double(), torch.randn(2 * R, D).double()
    found, found_relations = layer(entities, relations, graph)
    reached, left = torch.bincount(edges[:, 2], minlength=N), torch.bincount(edges[:, 0], minlength=N)
    for v in range(N):
        total = naive_phi(kind, entities[v], layer.self_relation[0]) @ layer.own
        for source, relation, target in edges.tolist():
            if target == v:
                weight = layer.along if relation < R else layer.against
                c = (reached[target] * left[source]).double().sqrt()
                total = total + naive_phi(kind, entities[source], relations[relation]) @ weight / c
        assert torch.allclose(found[v], total / 3 + layer.bias, atol=1e-10)
    assert torch.allclose(found_relations, relations @ layer.relation_weight)


@pytest.mark.parametrize("kind", ["subtraction", "multiplication", "correlation"])
def test_compositions_have_the_gradients_of_their_sums(kind):
    graph = MessageGraph.of(some_edges(), N, "symmetric", torch.double, "fewest")
    layer = layer_at_rest(CompGCNLayer(D, 4, 6, 2 * R, composition=kind))
    entities = torch.randn(N, D).double().requires_grad_()
    relations = torch.randn(2 * R, D).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda e, z: layer(e, z, graph), (entities, relations))


@pytest.mark.parametrize("kind", ["subtraction", "multiplication", "correlation"])
def test_compose_is_the_same_for_rows_side_by_side(kind):
    entities, relations = torch.randn(4, D).double(), torch.randn(4, D).double()
    rows = torch.stack([naive_phi(kind, h, z) for h, z in zip(entities, relations, strict=True)])
    assert torch.allclose(compose(kind, entities, relations), rows)


def test_compgcn_widths_of_entities_and_relations():
    encoder = CompGCN(D, D, 2 * R, layers=2, out_dim=6, out_relation_dim=3)
    entities, relations = encoder(MessageGraph.of(some_edges(), N), torch.randn(N, D), torch.randn(2 * R, D))
    assert (entities.shape, relations.shape) == ((N, 6), (2 * R, 3))
    with pytest.raises(ValueError, match="relation_dim = dim"):
        CompGCN(D, D + 1, 2 * R)


@pytest.mark.parametrize("order", ["source", "fewest"])
def test_a_sacn_layer_equals_the_loop_over_edges(order):
    edges = some_edges()
    graph = MessageGraph.of(edges, N, "degree", torch.double, order)
    layer = layer_at_rest(SACNLayer(D, 4, 2 * R))
    torch.nn.init.normal_(layer.strengths)
    torch.nn.init.normal_(layer.bias)
    entities = torch.randn(N, D).double()
    found = layer(entities, graph)
    reached = torch.bincount(edges[:, 2], minlength=N)
    for v in range(N):
        total = entities[v] @ layer.weight + layer.bias
        for source, relation, target in edges.tolist():
            if target == v:
                total = total + layer.strengths[relation] * entities[source] @ layer.weight / reached[v]
        assert torch.allclose(found[v], total, atol=1e-10)


def test_sacn_gradients_reach_the_strength_of_every_relation():
    graph = MessageGraph.of(some_edges(), N, "degree", torch.double, "fewest")
    layer = layer_at_rest(SACNLayer(D, 4, 2 * R))
    entities = torch.randn(N, D).double().requires_grad_()
    strengths = torch.randn(2 * R).double().requires_grad_()

    def run(e: Tensor, a: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"strengths": a}, (e, graph))

    assert torch.autograd.gradcheck(run, (entities, strengths))


@pytest.mark.parametrize("encoder", [SACN, CompGCN])
def test_messages_of_a_silent_start_begin_unheard_but_learn(encoder):
    graph, entities, relations = MessageGraph.of(some_edges(), N), torch.randn(N, D), torch.randn(2 * R, D)
    for init, heard in (("silent", False), ("xavier", True)):
        torch.manual_seed(0)
        made = encoder(D, D, 2 * R, layers=1, init=init).eval()
        found, without = made(graph, entities, relations)[0], made(None, entities, relations)[0]
        assert torch.allclose(found, without, atol=1e-6) != heard
        found.square().sum().backward()
        layer = made.layers[0]
        assert (layer.strengths if encoder is SACN else layer.along).grad.abs().sum() > 0


def test_without_messages_both_encoders_still_see_the_entities():
    for encoder in (SACN(D, D, 2 * R, out_dim=6), CompGCN(D, D, 2 * R, out_dim=6)):
        encoder.eval()
        entities, relations = torch.randn(N, D), torch.randn(2 * R, D)
        none = encoder(None, entities, relations)[0]
        assert torch.equal(none, encoder(MessageGraph.empty(N, "cpu"), entities, relations)[0])
        assert none.std() > 0


@pytest.mark.parametrize(
    "made",
    [
        *(CompGCN(D, D, 2 * R, layers=2, composition=kind, init="identity")
          for kind in ("subtraction", "multiplication", "correlation")),
        SACN(D, D, 2 * R, layers=2, init="identity"),
    ],
)  # fmt: skip
def test_an_identity_start_passes_what_was_trained_before_up_to_the_tanh(made):
    torch.manual_seed(2)
    entities, relations = 0.3 * torch.randn(N, D) + 0.1, torch.randn(2 * R, D)
    graph = MessageGraph.of(some_edges(), N)
    made.init_from_data(entities)
    for training in (False, True):
        made.dropout = 0.0
        found, found_relations = made.train(training)(graph, entities, relations)
        assert torch.allclose(found, torch.tanh(torch.tanh(entities)), atol=1e-4)
        assert torch.allclose(found_relations, relations, atol=1e-5)


@pytest.mark.parametrize("encoder", [SACN, CompGCN])
def test_an_identity_start_needs_equal_widths_and_another_start_does_not_adapt(encoder):
    with pytest.raises(ValueError, match="equal widths"):
        encoder(D, D, 2 * R, out_dim=D + 1, init="identity")
    made = encoder(D, D, 2 * R)
    made.init_from_data(torch.randn(N, D))
    assert torch.equal(made.layers[0].norm.weight, torch.ones(D))

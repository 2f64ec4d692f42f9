"""TGCN's layer against a loop over Eq. (3) and Eq. (7), in float64, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.kernels.batch_norm import WeightedBatchNorm
from tuckerkg.nn.encoders.tgcn import TGCN, TGCNConv, TGCNLayer

N, R, D_E, D_R, D_O = 12, 5, 4, 3, 6


def random_edges(seed: int = 0, count: int = 40) -> Tensor:
    """Edges that leave entities 10 and 11 isolated, and relation 4 with a single edge."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.stack([torch.randint(high, (count,), generator=generator) for high in (N - 2, R - 1, N - 2)], 1)
    edges = torch.unique(edges, dim=0)
    return torch.cat([edges, torch.tensor([[0, R - 1, 1]])])


def core_tensor(layer: TGCNLayer) -> Tensor:
    """W_c as the paper has it, [d_e, d_r, d_o]."""
    core = layer.core
    if core.bases:
        return torch.einsum("bj,bi,bk->ijk", core.w1, core.w2, core.w3)
    return core.core.permute(1, 0, 2)


def naive_layer(layer: TGCNLayer, entities: Tensor, relations: Tensor, edges: Tensor, normalize: str) -> Tensor:
    """Eq. (3) edge by edge; batch norms as torch's own over a row per edge."""
    W_c = core_tensor(layer)
    rows = entities[edges[:, 0]]
    if layer.input_norm is not None:
        rows = nn.functional.batch_norm(rows, None, None, layer.input_norm.weight, layer.input_norm.bias, training=True)
    messages = []
    for edge, (_, relation, _) in enumerate(edges.tolist()):
        message = torch.zeros(W_c.shape[2], dtype=entities.dtype)
        for i in range(W_c.shape[0]):
            for j in range(W_c.shape[1]):
                message = message + W_c[i, j] * rows[edge, i] * relations[relation, j]
        messages.append(message)
    stacked = torch.stack(messages)
    if layer.message_norm is not None:
        stacked = nn.functional.batch_norm(
            stacked, None, None, layer.message_norm.weight, layer.message_norm.bias, training=True
        )
    total = [entities[v] @ layer.self_loop + layer.bias for v in range(entities.shape[0])]
    for edge, (_, relation, target) in enumerate(edges.tolist()):
        same = edges[:, 2] == target
        if normalize == "relation":
            same = same & (edges[:, 1] == relation)
        total[target] = total[target] + stacked[edge] / same.sum()
    return torch.stack(total)


@pytest.mark.parametrize("bases", [0, 7])
@pytest.mark.parametrize("normalize", ["relation", "degree"])
@pytest.mark.parametrize(("norms", "order"), [(False, "source"), (True, "source"), (False, "fewest")])
@pytest.mark.parametrize("out_dim", [2, D_E, D_O])
def test_layer_and_gradients_equal_the_loop_over_eq_3(bases, normalize, norms, order, out_dim):
    torch.manual_seed(1)
    layer = TGCNLayer(D_E, D_R, out_dim, bases=bases, input_norm=norms, message_norm=norms).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    entities = torch.randn(N, D_E, dtype=torch.double, requires_grad=True)
    relations = torch.randn(R, D_R, dtype=torch.double, requires_grad=True)
    edges = random_edges()
    leaves = [entities, relations, *layer.parameters()]
    weight = torch.randn(N, out_dim, dtype=torch.double)
    graph = MessageGraph.of(edges, N, normalize, torch.double, order)
    layer(entities, relations, graph).sum().backward()  # the next pass uses its memory again

    ours = layer(entities, relations, graph)
    naive = naive_layer(layer, entities, relations, edges, normalize)
    assert torch.allclose(ours, naive, rtol=0, atol=1e-10)
    for mine, other in zip(
        torch.autograd.grad((ours * weight).sum(), leaves),
        torch.autograd.grad((naive * weight).sum(), leaves),
        strict=True,
    ):
        assert torch.allclose(mine, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("bases", [0, 7])
@pytest.mark.parametrize("normalize", ["relation", "degree", "symmetric", "none"])
@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_the_plain_form_of_eq_3_and_eq_7_has_the_values_and_gradients_of_the_fast_one(
    bases, normalize, norms, training
):
    torch.manual_seed(7)
    edges = random_edges()
    graph = MessageGraph.of(edges, N, normalize, torch.double)
    layer = TGCNLayer(D_E, D_R, D_O, bases=bases, input_norm=norms, message_norm=norms).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    entities = torch.randn(N, D_E, dtype=torch.double, requires_grad=True)
    relations = torch.randn(R, D_R, dtype=torch.double, requires_grad=True)
    layer(entities + 1.0, relations, graph).sum().backward()  # moves the running statistics away from 0 and 1
    leaves = [entities, relations, *layer.parameters()]
    weight = torch.randn(N, D_O, dtype=torch.double)
    found = []
    for form in (TGCNLayer.plain, TGCNLayer.forward):
        value = form(layer.train(training), entities, relations, graph)
        found.append((value.detach(), torch.autograd.grad((value * weight).sum(), leaves)))
    (plain, plain_gradients), (fast, fast_gradients) = found
    assert torch.allclose(plain, fast, rtol=1e-10, atol=1e-10)
    for one, other in zip(plain_gradients, fast_gradients, strict=True):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("bases", [0, 7])
@pytest.mark.parametrize("normalize", ["relation", "degree"])
def test_with_fixed_statistics_both_orders_agree(bases, normalize):
    torch.manual_seed(5)
    layer = TGCNLayer(D_E, D_R, D_O, bases=bases).double()
    entities, relations = torch.randn(N, D_E).double(), torch.randn(R, D_R).double()
    edges = torch.cat([random_edges(), torch.tensor([[i, 2, 0] for i in range(9)])])  # many sources, one target
    graphs = [MessageGraph.of(edges, N, normalize, torch.double, order) for order in ("source", "fewest")]
    layer(entities, relations, graphs[0])  # moves the running statistics
    nn.init.normal_(layer.message_norm.bias)
    layer.eval()
    from_sources, from_fewest = (layer(entities, relations, graph) for graph in graphs)
    assert graphs[1].groups.position.numel() < graphs[0].groups.position.numel()
    assert torch.allclose(from_sources, from_fewest, rtol=0, atol=1e-12)
    layer.train()
    with pytest.raises(ValueError, match="order 'source'"):
        layer(entities, relations, graphs[1])


def test_message_dropout_keeps_the_mean_of_the_messages():
    torch.manual_seed(6)
    layer = TGCNLayer(D_E, D_R, D_O, message_dropout=0.5, input_norm=False)
    entities, relations = torch.randn(N, D_E), torch.randn(R, D_R)
    graph = MessageGraph.of(random_edges(), N)
    drawn = torch.stack([layer(entities, relations, graph) for _ in range(2_000)]).mean(0)
    layer.message_dropout = 0.0
    assert torch.allclose(drawn, layer(entities, relations, graph), atol=0.2)


def test_running_statistics_equal_those_over_a_row_per_edge():
    torch.manual_seed(2)
    layer = TGCNLayer(D_E, D_R, D_O).double()
    entities, relations = torch.randn(N, D_E).double(), torch.randn(R, D_R).double()
    edges = random_edges(3)
    layer(entities, relations, MessageGraph.of(edges, N, "relation", torch.double))
    reference = nn.BatchNorm1d(D_E).double()
    rows = reference(entities[edges[:, 0]])
    assert torch.allclose(layer.input_norm.running_mean, reference.running_mean, atol=1e-12)
    assert torch.allclose(layer.input_norm.running_var, reference.running_var, atol=1e-12)
    reference = nn.BatchNorm1d(D_O).double()
    reference(torch.einsum("ei,ej,ijk->ek", rows, relations[edges[:, 1]], core_tensor(layer)))
    assert torch.allclose(layer.message_norm.running_mean, reference.running_mean, atol=1e-12)
    assert torch.allclose(layer.message_norm.running_var, reference.running_var, atol=1e-12)


def test_going_back_twice_through_memory_that_was_used_again_is_refused():
    layer = TGCNLayer(D_E, D_R, D_E)
    entities, relations = torch.randn(N, D_E, requires_grad=True), torch.randn(R, D_R)
    value = layer(entities, relations, MessageGraph.of(random_edges(), N)).square().sum()
    value.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_isolated_entities_get_their_self_loop_only():
    layer = TGCNLayer(D_E, D_R, D_O).double().eval()
    entities, relations = torch.randn(N, D_E).double(), torch.randn(R, D_R).double()
    encoded = layer(entities, relations, MessageGraph.of(random_edges(), N, "relation", torch.double))
    alone = entities @ layer.self_loop + layer.bias
    assert torch.allclose(encoded[10:], alone[10:])
    assert not torch.allclose(encoded[:10], alone[:10])


def test_a_graph_without_edges_is_the_self_loop():
    layer = TGCNLayer(D_E, D_R, D_O)
    entities, relations = torch.randn(N, D_E), torch.randn(R, D_R)
    empty = MessageGraph.of(torch.empty(0, 3, dtype=torch.long), N)
    assert torch.allclose(layer(entities, relations, empty), entities @ layer.self_loop + layer.bias)


def test_relation_dropout_uses_one_mask_per_relation():
    torch.manual_seed(0)
    layer = TGCNLayer(D_E, D_R, D_O, relation_dropout=0.5, input_norm=False, message_norm=False)
    entities, relations = torch.ones(N, D_E), torch.randn(R, D_R)
    edges = torch.tensor([[0, 1, 5], [1, 1, 6], [2, 2, 7]])
    encoded = layer(entities, relations, MessageGraph.of(edges, N))
    assert torch.equal(encoded[5], encoded[6])
    assert not torch.equal(encoded[5], encoded[7])


@pytest.mark.parametrize("start_bases", [0, 3])
def test_identity_start_passes_the_entities_through(start_bases):
    encoder = TGCN(D_E, D_R, layers=2, bases=start_bases, init="identity", output_norm=False, activation="none")
    entities, relations = torch.randn(N, D_E), torch.randn(2 * R, D_R)
    encoded, same = encoder(MessageGraph.of(random_edges(), N), entities, relations)
    assert torch.allclose(encoded, entities)
    assert same is relations


def test_encoder_applies_relu_between_layers_and_norm_at_the_end():
    torch.manual_seed(4)
    encoder = TGCN(D_E, D_R, layers=2).double().eval()
    entities, relations = torch.randn(N, D_E).double(), torch.randn(R, D_R).double()
    graph = MessageGraph.of(random_edges(), N, "relation", torch.double)
    encoded, _ = encoder(graph, entities, relations)
    hidden = torch.relu(encoder.layers[0](entities, relations, graph))
    assert torch.allclose(encoded, encoder.output_norm(encoder.layers[1](hidden, relations, graph)))


def test_conv_alone_takes_edge_index_and_edge_type_in_any_order():
    torch.manual_seed(5)
    conv = TGCNConv(D_E, D_O, num_relations=R, relation_dim=D_R, num_bases=4).double()
    x = torch.randn(N, D_E, dtype=torch.double)
    edges = random_edges()
    out = conv(x, edges[:, [0, 2]].T, edges[:, 1])
    assert out.shape == (N, D_O)
    assert torch.allclose(out, naive_layer(conv.layer, x, conv.relations, edges, "relation"), atol=1e-10)
    shuffled = edges[torch.randperm(len(edges))]
    assert torch.allclose(out, conv(x, shuffled[:, [0, 2]].T, shuffled[:, 1]), atol=1e-12)


def test_conv_counts_a_repeated_edge_twice():
    conv = TGCNConv(D_E, D_O, num_relations=2).double()
    x = torch.randn(3, D_E, dtype=torch.double)
    once = torch.tensor([[0, 1, 2], [1, 1, 2]])
    edges = torch.cat([once, once[:1]])
    out = conv(x, edges[:, [0, 2]].T, edges[:, 1])
    assert torch.allclose(out, naive_layer(conv.layer, x, conv.relations, edges, "relation"), atol=1e-10)


def test_conv_refuses_shapes_that_do_not_fit():
    conv = TGCNConv(D_E, D_O, num_relations=R)
    with pytest.raises(ValueError, match=r"edge_index is \[2, E\]"):
        conv(torch.randn(N, D_E), torch.zeros(3, 4, dtype=torch.long), torch.zeros(4, dtype=torch.long))
    with pytest.raises(ValueError, match=r"x is \[N, 4\]"):
        conv(torch.randn(N, D_E + 1), torch.zeros(2, 4, dtype=torch.long), torch.zeros(4, dtype=torch.long))


@pytest.mark.parametrize("bases", [0, 3])
def test_messages_of_a_silent_start_begin_unheard_but_learn(bases):
    graph, entities, relations = MessageGraph.of(random_edges(), N), torch.randn(N, D_E), torch.randn(R, D_R)
    for init, heard in (("silent", False), ("xavier", True)):
        torch.manual_seed(0)
        layer = TGCNLayer(D_E, D_R, D_O, bases=bases, init=init)
        found = layer(entities, relations, graph)
        assert torch.allclose(found, entities @ layer.self_loop + layer.bias, atol=1e-6) != heard
        found.square().sum().backward()
        assert layer.message_norm.weight.grad.abs().sum() > 0


def test_identity_and_silent_starts_need_the_message_norm():
    with pytest.raises(ValueError, match="init 'identity' needs message_norm"):
        TGCN(D_E, D_R, init="identity", message_norm=False)
    with pytest.raises(ValueError, match="init 'silent' needs message_norm"):
        TGCN(D_E, D_R, init="silent", message_norm=False)


def test_without_a_graph_the_layers_are_left_out_as_an_identity_start_has_them():
    torch.manual_seed(0)
    encoder = TGCN(6, 4, init="identity", activation="none", output_norm=False).double().eval()
    entities, relations = torch.randn(9, 6).double(), torch.randn(4, 4).double()
    edges = torch.stack([torch.randint(9, (20,)), torch.randint(4, (20,)), torch.randint(9, (20,))], 1)
    with_messages = encoder(MessageGraph.of(edges, 9, dtype=torch.double), entities, relations)[0]
    assert torch.allclose(encoder(None, entities, relations)[0], with_messages)
    assert torch.equal(encoder(None, entities, relations)[0], entities)


def test_a_norm_adapted_to_rows_lets_its_rows_pass_in_training_and_after():
    rows = 3.0 + 2.0 * torch.randn(50, 6, dtype=torch.double)
    norm = WeightedBatchNorm(6).double()
    norm.init_from_data(rows)
    assert torch.allclose(norm(rows), rows, atol=1e-12)
    assert torch.allclose(norm.eval()(rows), rows, atol=1e-2)  # the running variance has moved by one step

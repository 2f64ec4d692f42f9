"""Decoders and compositions against PyG's and PyKEEN's, with the same weights."""

from __future__ import annotations

import pytest
import torch

from tuckerkg.nn.decoders import ComplEx, ConvE, DistMult, RotatE, TuckER
from tuckerkg.nn.decoders.rotate import ANGLE
from tuckerkg.nn.encoders.compgcn import compose

pytestmark = pytest.mark.peers

N, R, D = 9, 4, 6
HEADS, RELATIONS, TAILS = torch.tensor([0, 3, 3, 8]), torch.tensor([1, 0, 3, 2]), torch.tensor([5, 3, 0, 7])


def our_scores(decoder, entities, relations):
    """Scores of the triples above."""
    queries = decoder.query(entities[HEADS], relations, RELATIONS)
    return decoder.comparison(queries, entities)[torch.arange(len(TAILS)), TAILS]


def halves(real, imaginary):
    return torch.cat([real.weight, imaginary.weight], 1).detach()


def test_distmult_equals_pygs():
    from torch_geometric.nn import DistMult as Theirs

    theirs = Theirs(N, R, D)
    ours = our_scores(DistMult(D, D), theirs.node_emb.weight.detach(), theirs.rel_emb.weight.detach())
    assert torch.allclose(ours, theirs(HEADS, RELATIONS, TAILS), atol=1e-6)


def test_complex_equals_pygs():
    from torch_geometric.nn import ComplEx as Theirs

    theirs = Theirs(N, R, D // 2)
    entities, relations = halves(theirs.node_emb, theirs.node_emb_im), halves(theirs.rel_emb, theirs.rel_emb_im)
    assert torch.allclose(our_scores(ComplEx(D, D), entities, relations), theirs(HEADS, RELATIONS, TAILS), atol=1e-6)


def test_rotate_equals_pygs():
    from torch_geometric.nn import RotatE as Theirs

    theirs = Theirs(N, R, D // 2, margin=3.0)
    entities, angles = halves(theirs.node_emb, theirs.node_emb_im), theirs.rel_emb.weight.detach()
    ours = our_scores(RotatE(D, D // 2, margin=3.0, p=2), entities, angles / ANGLE)
    assert torch.allclose(ours, theirs(HEADS, RELATIONS, TAILS), atol=1e-5)


def test_tucker_equals_pykeens():
    from pykeen.nn.modules import TuckERInteraction

    theirs = TuckERInteraction(embedding_dim=D, relation_dim=5).eval()
    theirs.head_relation_batch_norm = torch.nn.Identity()  # ours norms the head alone
    ours = TuckER(D, 5).eval()
    with torch.no_grad():
        ours.core.core.copy_(theirs.core_tensor.permute(1, 0, 2))
        for name, tensor in theirs.head_batch_norm.state_dict().items():
            if name != "num_batches_tracked":
                tensor.copy_(torch.rand_like(tensor) + 0.5)
                ours.norm.state_dict()[name].copy_(tensor)
    entities, relations = torch.randn(N, D), torch.randn(R, 5)
    expected = theirs(entities[HEADS], relations[RELATIONS], entities[TAILS])
    assert torch.allclose(our_scores(ours, entities, relations), expected, atol=1e-5)


def test_conve_equals_pykeens():
    from pykeen.nn.modules import ConvEInteraction

    dim, height = 12, 3
    theirs = ConvEInteraction(embedding_dim=dim, embedding_width=dim // height, output_channels=5).eval()
    ours = ConvE(dim, dim, height=height, filters=5, kernel=3).eval()
    pairs = (
        (ours.input_norm, theirs.hr2d[0]),
        (ours.convolution, theirs.hr2d[2]),
        (ours.map_norm, theirs.hr2d[3]),
        (ours.project, theirs.hr1d[0]),
        (ours.norm, theirs.hr1d[2]),
    )
    with torch.no_grad():
        for mine, other in pairs:
            for name, tensor in other.state_dict().items():
                if name != "num_batches_tracked":
                    tensor.copy_(torch.rand_like(tensor) + 0.1)
                    if name in mine.state_dict():
                        mine.state_dict()[name].copy_(tensor)
        ours.map_norm.running_mean -= theirs.hr2d[2].bias  # ours has no bias for the norm to take out
    entities, relations = torch.randn(N, dim), torch.randn(R, dim)
    expected = theirs(entities[HEADS], relations[RELATIONS], (entities[TAILS], torch.zeros(len(TAILS))))
    assert torch.allclose(our_scores(ours, entities, relations), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("subtraction", "SubtractionCompositionModule"),
        ("multiplication", "MultiplicationCompositionModule"),
        ("correlation", "CircularCorrelationCompositionModule"),
    ],
)
def test_compgcns_compositions_equal_pykeens(ours, theirs):
    from pykeen.nn import compositions

    entities, relations = torch.randn(7, 10), torch.randn(7, 10)
    expected = getattr(compositions, theirs)()(entities, relations)
    assert torch.allclose(compose(ours, entities, relations), expected, atol=1e-5)


def test_data_of_pyg_goes_through_our_layer_and_is_classified():
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader

    import tuckerkg

    torch.manual_seed(0)
    graphs = []
    for number in range(16):
        size = 4 + number % 3
        ends = [(k, (k + 1) % size) for k in range(size if number % 2 else size - 1)]
        both = torch.tensor(ends + [(b, a) for a, b in ends]).T
        kinds = torch.zeros(both.shape[1], dtype=torch.long)
        graphs.append(Data(torch.eye(size, 6), both, edge_type=kinds, y=torch.tensor([number % 2])))
    conv = tuckerkg.TGCNConv(6, 4, num_relations=1)
    batch = next(iter(DataLoader(graphs, batch_size=16)))
    together = conv(batch.x, batch.edge_index, batch.edge_type)
    alone = torch.cat([conv(each.x, each.edge_index, each.edge_type) for each in graphs])
    torch.testing.assert_close(together, alone)
    run = tuckerkg.classify(graphs, overrides={"train.epochs": 5.0, "train.threads": 1, "classify.counts": "sums"})
    assert run.task.node_types.tolist() == [k for each in graphs for k in range(each.num_nodes)]
    assert run.evaluate().judgement.count == 4

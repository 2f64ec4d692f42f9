"""DistMult (Eq. 8) and TuckER (Eq. 9) against loops, and the encoder that does nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graphs import toy_dataset

from tuckerkg.batches import TrainingGraph
from tuckerkg.config import build_batches, build_loss, build_model, load_settings
from tuckerkg.decoders import DistMult, TuckER
from tuckerkg.encoders import NoEncoder


def test_distmult_equals_the_sum_over_eq_8():
    decoder = DistMult(3, 3)
    heads, relations, tails = (torch.randn(n, 3, dtype=torch.double) for n in (4, 5, 6))
    relation_ids = torch.tensor([0, 4, 4, 2])
    scores = decoder.compare(decoder.query(heads, relations, relation_ids), tails)
    for b in range(4):
        for m in range(6):
            phi = sum(heads[b, i] * relations[relation_ids[b], i] * tails[m, i] for i in range(3))
            assert scores[b, m].item() == pytest.approx(phi.item(), abs=1e-12)


def test_distmult_can_norm_the_head():
    decoder = DistMult(8, 8, norm=True).double()
    heads, relations, relation_ids = torch.randn(50, 8).double(), torch.randn(5, 8).double(), torch.randint(5, (50,))
    normed = (heads - heads.mean(0)) / (heads.var(0, unbiased=False) + decoder.norm.eps).sqrt()
    assert torch.allclose(decoder.query(heads, relations, relation_ids), normed * relations[relation_ids])


def test_tucker_equals_the_sum_over_eq_9():
    decoder = TuckER(3, 4, norm=False).double()
    heads, tails = (torch.randn(n, 3, dtype=torch.double) for n in (4, 6))
    relations = torch.randn(5, 4, dtype=torch.double)
    relation_ids = torch.tensor([0, 4, 4, 2])
    scores = decoder.compare(decoder.query(heads, relations, relation_ids), tails)
    W_c = decoder.core.core.permute(1, 0, 2)  # [d_e, d_r, d_e]
    for b in range(4):
        for m in range(6):
            phi = sum(
                W_c[i, j, k] * heads[b, i] * relations[relation_ids[b], j] * tails[m, k]
                for i in range(3)
                for j in range(4)
                for k in range(3)
            )
            assert scores[b, m].item() == pytest.approx(phi.item(), abs=1e-12)


def test_tucker_norms_and_drops_the_head_only_as_the_paper_does():
    torch.manual_seed(0)
    decoder = TuckER(8, 4, dropout=0.5).double()
    heads, relations = torch.randn(50, 8).double(), torch.randn(5, 4).double()
    relation_ids = torch.randint(5, (50,))
    assert not torch.equal(decoder.query(heads, relations, relation_ids), decoder.query(heads, relations, relation_ids))
    decoder.eval()
    normed = decoder.norm(heads)
    expected = torch.einsum("bi,bj,jik->bk", normed, relations[relation_ids], decoder.core.core)
    assert torch.allclose(decoder.query(heads, relations, relation_ids), expected)


def test_tucker_can_norm_and_drop_the_query_too():
    decoder = TuckER(8, 4, norm=False, query_norm=True).double()
    heads, relations = torch.randn(50, 8).double(), torch.randn(5, 4).double()
    queries = decoder.query(heads, relations, torch.randint(5, (50,)))
    assert torch.allclose(queries.mean(0), torch.zeros(8).double(), atol=1e-10)
    assert torch.allclose(queries.var(0, unbiased=False), torch.ones(8).double(), atol=0.05)


def test_tucker_can_drop_entries_of_the_relations_matrices():
    torch.manual_seed(0)
    decoder = TuckER(8, 4, norm=False, relation_dropout=0.5).double()
    relations, relation_ids = torch.randn(5, 4).double(), torch.tensor([2]).repeat(8)
    matrix = decoder.query(torch.eye(8).double(), relations, relation_ids)  # row i is row i of the relation's matrix
    decoder.eval()
    whole = decoder.query(torch.eye(8).double(), relations, relation_ids)
    kept = matrix != 0
    assert 10 < kept.sum() < 54
    assert torch.allclose(matrix[kept], 2 * whole[kept])


def test_tucker_can_bend_the_head():
    decoder = TuckER(8, 4, norm=False, activation="prelu").double()
    heads, relations, relation_ids = torch.randn(9, 8).double(), torch.randn(5, 4).double(), torch.randint(5, (9,))
    bent = torch.where(heads > 0, heads, 0.25 * heads)
    expected = torch.einsum("bi,bj,jik->bk", bent, relations[relation_ids], decoder.core.core)
    assert torch.allclose(decoder.query(heads, relations, relation_ids), expected)
    decoder.query(heads, relations, relation_ids).sum().backward()
    assert decoder.slope.grad.abs() > 0


def test_tucker_can_shift_the_query_by_a_vector_per_relation():
    decoder = TuckER(8, 4, norm=False, translation=True).double()
    torch.nn.init.normal_(decoder.translation)
    heads, relations, relation_ids = torch.randn(9, 8).double(), torch.randn(5, 4).double(), torch.randint(5, (9,))
    turned = torch.einsum("bi,bj,jik->bk", heads, relations[relation_ids], decoder.core.core)
    shifts = torch.einsum("bj,jk->bk", relations[relation_ids], decoder.translation)
    assert torch.allclose(decoder.query(heads, relations, relation_ids), turned + shifts)


def test_distmult_refuses_unequal_widths():
    with pytest.raises(ValueError, match="relation_dim = dim"):
        DistMult(4, 5)


def test_no_encoder_passes_everything_through():
    entities, relations = torch.randn(3, 2), torch.randn(4, 2)
    found = NoEncoder(2, 2)(None, entities, relations)
    assert torch.equal(found[0], entities)
    assert found[1] is relations


def test_dropout_without_an_encoder_stands_on_entities_in_training_only():
    entities = torch.ones(50, 20)
    encoder = NoEncoder(20, 20, output_dropout=0.5)
    dropped = encoder(None, entities, entities)[0]
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(encoder.eval()(None, entities, entities)[0], entities)


def test_orthogonal_relation_matrices_have_no_penalty_and_others_the_printed_one():
    decoder = TuckER(3, 2, orthogonality=0.5).double()
    rotation = torch.linalg.qr(torch.randn(3, 3, dtype=torch.double)).Q
    stretched = torch.diag(torch.tensor([2.0, 1.0, 1.0], dtype=torch.double))
    with torch.no_grad():
        decoder.core.core.copy_(torch.stack([rotation, stretched]))
    relations = torch.eye(2, dtype=torch.double)
    assert decoder.penalty(relations[:1]).item() == pytest.approx(0.0, abs=1e-12)
    # W^T W - I of the second is diag(3, 0, 0): 9, a mean over two relations, divided by d = 3
    assert decoder.penalty(relations).item() == pytest.approx(0.5 * 9.0 / 2 / 3)


def test_the_penalty_is_part_of_the_loss_when_asked_for():
    values = []
    for weight in (0.0, 0.7):
        torch.manual_seed(0)
        settings = load_settings(
            None,
            {
                "encoder": "none",
                "model.dim": 4,
                "model.relation_dim": 3,
                "decoder.orthogonality": weight,
                "batch.queries": 8,
            },
        )
        model = build_model(settings, 20, 2)
        triples = np.array([[i, i % 2, i + 1] for i in range(19)])
        batch = build_batches(settings, TrainingGraph(triples, 20, 2, 0)).batch(0)
        values.append(model.loss(batch, build_loss(settings)).item())
    assert values[1] - values[0] == pytest.approx(model.decoder.penalty(model.relations).item(), rel=1e-4)


@pytest.mark.parametrize(("name", "relation_dim"), [("tucker", 4), ("distmult", 6)])
def test_asking_for_the_relation_gives_the_scores_of_asking_for_the_tail(name, relation_dim):
    decoder = {"tucker": TuckER, "distmult": DistMult}[name](6, relation_dim).double().eval()
    entities, relations = torch.randn(5, 6).double(), torch.randn(4, relation_dim).double()
    heads, tails = torch.tensor([0, 1, 4]), torch.tensor([2, 1, 3])
    scores = decoder.relation_query(entities[heads], entities[tails]) @ relations.T
    for relation in range(4):
        queries = decoder.query(entities[heads], relations, torch.full((3,), relation))
        expected = decoder.compare(queries, entities)[torch.arange(3), tails]
        assert torch.allclose(scores[:, relation], expected)


def test_the_relation_loss_is_the_cross_entropy_over_relations():
    data, settings = toy_dataset(), load_settings(None, {"encoder": "none", "batch.queries": 4})
    model = build_model(settings, len(data.entities), len(data.relations)).double().eval()
    batch = build_batches(settings, TrainingGraph(data.train, len(data.entities), len(data.relations), 0)).batch(0)
    loss = build_loss(settings)
    gained = {(model.loss(batch, loss, relation_loss=2.0) - model.loss(batch, loss)).item() for _ in range(50)}
    expected = []
    for query in range(len(batch.heads)):  # one random query of the four is asked, with one random tail of its own
        head, asked = batch.heads[query], batch.relation_ids[query]
        for tail in batch.positives[batch.offsets[query] : batch.offsets[query + 1]]:
            ids = torch.arange(2 * len(data.relations))
            queries = model.query(model.entities[head].expand(len(ids), -1), model.relations, ids)
            expected.append(-2.0 * torch.log_softmax(queries @ model.entities[tail], 0)[asked].item())
    for value in gained:
        assert min(abs(value - other) for other in expected) < 1e-9
    assert len({round(value, 9) for value in gained}) > 1

"""DistMult (Eq. 8) and TuckER (Eq. 9) against loops, and the encoder that does nothing."""

from __future__ import annotations

import pytest
import torch

from tuckerkg.nn.decoders import RESCAL, DistMult, TuckER
from tuckerkg.nn.encoders import NoEncoder


def test_distmult_equals_the_sum_over_eq_8():
    decoder = DistMult(3, 3)
    heads, relations, tails = (torch.randn(n, 3, dtype=torch.double) for n in (4, 5, 6))
    relation_ids = torch.tensor([0, 4, 4, 2])
    scores = decoder.comparison(decoder.query(heads, relations, relation_ids), tails)
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
    scores = decoder.comparison(decoder.query(heads, relations, relation_ids), tails)
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


def test_tucker_can_drop_the_query_too():
    torch.manual_seed(0)
    decoder = TuckER(8, 4, norm=False, query_dropout=0.5).double()
    heads, relations, relation_ids = torch.randn(50, 8).double(), torch.randn(5, 4).double(), torch.randint(5, (50,))
    dropped = decoder.query(heads, relations, relation_ids)
    whole = decoder.eval().query(heads, relations, relation_ids)
    kept = dropped != 0
    assert 120 < kept.sum() < 280
    assert torch.allclose(dropped[kept], 2 * whole[kept])


def test_the_matrix_of_a_relation_is_what_the_query_multiplies_the_head_by():
    for decoder, width in ((TuckER(3, 4, norm=False), 4), (RESCAL(3, 9), 9)):
        heads, relations = torch.randn(5, 3), torch.randn(4, width)
        matrices = decoder.relation_matrices(relations)
        for relation in range(4):
            queries = decoder.query(heads, relations, torch.full((5,), relation))
            assert torch.allclose(queries, heads @ matrices[relation], atol=1e-5)


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

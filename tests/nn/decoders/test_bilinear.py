"""ComplEx and RESCAL against their formulas, term by term."""

from __future__ import annotations

import pytest
import torch

from tuckerkg.nn.decoders import RESCAL, ComplEx

IDS = torch.tensor([0, 4, 4, 2])


def test_complex_equals_the_real_part_of_the_triple_product() -> None:
    decoder = ComplEx(6, 6)
    heads, relations, tails = (torch.randn(n, 6, dtype=torch.double) for n in (4, 5, 7))
    scores = decoder.comparison(decoder.query(heads, relations, IDS), tails)
    for b in range(4):
        for m in range(7):
            phi = 0j
            for i in range(3):
                h = complex(heads[b, i], heads[b, i + 3])
                e = complex(relations[IDS[b], i], relations[IDS[b], i + 3])
                t = complex(tails[m, i], tails[m, i + 3])
                phi += h * e * t.conjugate()
            assert scores[b, m].item() == pytest.approx(phi.real, abs=1e-12)


def test_complex_can_norm_the_head() -> None:
    plain, normed = ComplEx(6, 6).double(), ComplEx(6, 6, norm=True).double()
    heads, relations = (torch.randn(n, 6, dtype=torch.double) for n in (4, 5))
    by_hand = (heads - heads.mean(0)) / (heads.var(0, unbiased=False) + normed.norm.eps).sqrt()
    assert torch.allclose(normed.query(heads, relations, IDS), plain.query(by_hand, relations, IDS))


def test_complex_scores_the_conjugate_relation_as_the_turned_triple() -> None:
    decoder = ComplEx(6, 6)
    heads, tails = (torch.randn(1, 6, dtype=torch.double) for _ in range(2))
    relation = torch.randn(1, 6, dtype=torch.double)
    turned = torch.cat([relation[:, :3], -relation[:, 3:]], 1)
    first = torch.tensor([0])
    one = decoder.comparison(decoder.query(heads, relation, first), tails)
    other = decoder.comparison(decoder.query(tails, turned, first), heads)
    assert torch.allclose(one, other)


def test_complex_norms_are_taken_over_moduli() -> None:
    rows = torch.tensor([[3.0, 0.0, 4.0, 0.0]], dtype=torch.double, requires_grad=True)
    sizes = ComplEx(4, 4).magnitudes(rows)
    assert sizes[0, 0].item() == pytest.approx(5.0)
    sizes.pow(3).sum().backward()
    assert torch.isfinite(rows.grad).all()


def test_rescal_equals_the_double_sum_over_a_relations_matrix() -> None:
    decoder = RESCAL(3, 9)
    heads, tails = (torch.randn(n, 3, dtype=torch.double) for n in (4, 7))
    relations = torch.randn(5, 9, dtype=torch.double)
    scores = decoder.comparison(decoder.query(heads, relations, IDS), tails)
    for b in range(4):
        W = relations[IDS[b]].view(3, 3)
        for m in range(7):
            phi = sum(heads[b, i] * W[i, k] * tails[m, k] for i in range(3) for k in range(3))
            assert scores[b, m].item() == pytest.approx(phi.item(), abs=1e-12)


def test_gradients_of_both_queries() -> None:
    for decoder, width in ((ComplEx(4, 4), 4), (RESCAL(4, 16), 16)):
        heads = torch.randn(4, 4, dtype=torch.double, requires_grad=True)
        relations = torch.randn(5, width, dtype=torch.double, requires_grad=True)
        assert torch.autograd.gradcheck(lambda h, e, d=decoder: d.query(h, e, IDS), (heads, relations))


@pytest.mark.parametrize(("kind", "dim", "relation_dim"), [(ComplEx, 5, 5), (ComplEx, 4, 6), (RESCAL, 4, 4)])
def test_widths_that_do_not_fit_are_refused(kind: type, dim: int, relation_dim: int) -> None:
    with pytest.raises(ValueError, match="relation_dim"):
        kind(dim, relation_dim)

"""Padded buckets: every row keeps its place, its relation and its product."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from tuckerkg.graph.row_groups import RowGroups, padded_length
from tuckerkg.nn.tucker_core import TuckerCore


@given(st.lists(st.integers(0, 9), max_size=60))
def test_every_row_is_found_again_with_its_relation(ids):
    relation_ids = torch.tensor(ids, dtype=torch.long)
    groups = RowGroups.of(relation_ids)
    assert torch.equal(groups.source[groups.position], torch.arange(len(ids)))
    assert torch.equal(groups.relation_ids[groups.position], relation_ids)
    assert sum(b.relation_ids.numel() * b.length for b in groups.buckets) == groups.source.numel()


@given(st.integers(1, 100_000))
def test_padding_is_at_most_a_half(count):
    length = int(padded_length(torch.tensor([count]))[0])
    assert count <= length
    assert length <= 1.5 * count or count <= 2


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(0, 3))
def test_the_contraction_equals_one_einsum_over_rows(ids, bases):
    torch.manual_seed(0)
    core = TuckerCore(3, 4, 5, bases=bases).double()
    rows = torch.randn(len(ids), 3, dtype=torch.double)
    relations = torch.randn(7, 4, dtype=torch.double)
    relation_ids = torch.tensor(ids)
    groups = RowGroups.of(relation_ids)
    W_c = torch.einsum("bj,bi,bk->ijk", core.w1, core.w2, core.w3) if bases else core.core.permute(1, 0, 2)
    ours = core(rows[groups.source], relations, groups)[groups.position]
    assert torch.allclose(ours, torch.einsum("pi,pj,ijk->pk", rows, relations[relation_ids], W_c), atol=1e-12)

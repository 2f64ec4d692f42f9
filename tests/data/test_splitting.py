"""One set of triples into three: sizes, names that stay in training, no part in the order of rows."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import GRAPH, Ids
from hypothesis import given, settings
from hypothesis import strategies as st

from tuckerkg.data.splitting import split_triples
from tuckerkg.errors import TuckerkgError


@pytest.mark.parametrize("fractions", [(0.5, 0.5), (0.9, 0.2, -0.1), (0.5, 0.1, 0.1), (1, 1, 1)])
def test_split_shares_must_add_up(fractions: tuple[float, ...]) -> None:
    with pytest.raises(TuckerkgError, match="add up to 1"):
        split_triples(np.zeros((4, 3), dtype=np.int64), 1, 1, fractions, 0)


@settings(max_examples=50, deadline=None)
@given(graph=GRAPH, seed=st.integers(0, 5))
def test_a_split_shuffles_the_sorted_triples(graph: list[Ids], seed: int) -> None:
    train, _, _ = split_triples(np.array(graph, dtype=np.int64), 9, 4, (1.0, 0.0, 0.0), seed)
    order = np.random.default_rng(seed).permutation(len(graph))
    assert train.tolist() == np.array(sorted(graph))[order].tolist()


@settings(max_examples=150, deadline=None)
@given(graph=GRAPH, seed=st.integers(0, 5), share=st.sampled_from([0.0, 0.1, 0.3, 0.5]))
def test_splits_cover_all_names_and_do_not_depend_on_row_order(graph: list[Ids], seed: int, share: float) -> None:
    triples = np.array(graph, dtype=np.int64)
    parts = split_triples(triples, 9, 4, (1 - share - 0.1, share, 0.1), seed)
    train = parts[0]
    assert set(train[:, 1].tolist()) == set(triples[:, 1].tolist())
    assert set(train[:, [0, 2]].ravel().tolist()) == set(triples[:, [0, 2]].ravel().tolist())
    assert sorted(map(tuple, np.concatenate(parts).tolist())) == sorted(graph)
    again = split_triples(triples[::-1], 9, 4, (1 - share - 0.1, share, 0.1), seed)
    assert all(np.array_equal(one, other) for one, other in zip(parts, again, strict=True))


def test_a_dense_split_has_the_sizes_asked_for() -> None:
    triples = np.array([(h, r, t) for h in range(12) for r in range(3) for t in range(12)])
    sizes = [len(part) for part in split_triples(triples, 12, 3, (0.8, 0.1, 0.1), 0)]
    assert sizes == [432 - 2 * 43, 43, 43]
    other = split_triples(triples, 12, 3, (0.8, 0.1, 0.1), 1)[2]
    assert not np.array_equal(other, split_triples(triples, 12, 3, (0.8, 0.1, 0.1), 0)[2])


def test_a_million_triples_are_split_without_a_loop_per_row() -> None:
    generator = np.random.default_rng(0)
    triples = np.unique(generator.integers(0, (50_000, 100, 50_000), size=(1_000_000, 3)), axis=0)
    train, valid, test = split_triples(triples, 50_000, 100, (0.8, 0.1, 0.1), 0)
    assert len(valid) == len(test) == len(triples) // 10
    assert len(train) == len(triples) - 2 * (len(triples) // 10)

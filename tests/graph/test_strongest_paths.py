"""The strongest paths of a layered graph, against all paths written out one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tuckerkg.graph.strongest_paths import LayeredEdges, strongest_paths


def all_paths(edges: LayeredEdges, head: int, tail: int) -> dict[tuple, float]:
    """Every simple path with the share of its best way through the layers, by walking all ways."""
    number = len(edges.gains)
    found: dict[tuple, float] = {}

    def total(layer: int, entity: int) -> float:
        own = max(float(edges.own[layer][np.flatnonzero(edges.entities == entity)[0]]), 0.0)
        return own + sum(max(float(edges.gains[layer][e]), 0.0) for e in np.flatnonzero(edges.targets == entity))

    def walk(layer: int, way: tuple, kinds: tuple, share: float) -> None:
        if way[0] == head and kinds:
            found[way, kinds] = max(found.get((way, kinds), 0.0), share)
            return
        if layer < 0:
            return
        whole = total(layer, way[0])
        if whole == 0.0:
            return
        own = max(float(edges.own[layer][np.flatnonzero(edges.entities == way[0])[0]]), 0.0)
        if own:
            walk(layer - 1, way, kinds, share * own / whole)
        for edge in np.flatnonzero(edges.targets == way[0]):
            gain, source = max(float(edges.gains[layer][edge]), 0.0), int(edges.sources[edge])
            if gain and source not in way:
                walk(layer - 1, (source, *way), (int(edges.relations[edge]), *kinds), share * gain / whole)

    walk(number - 1, (tail,), (), 1.0)
    return {path: share for path, share in found.items() if share > 0}


def random_edges(seed: int, entities: int = 6, layers: int = 3) -> LayeredEdges:
    random = np.random.default_rng(seed)
    pairs = [pair for pair in itertools.product(range(entities), repeat=2) if random.random() < 0.5]
    pairs.sort(key=lambda pair: pair[1])
    sources, targets = np.array(pairs).T
    gains, own = random.normal(size=(layers, len(pairs))), random.normal(size=(layers, entities))
    return LayeredEdges(sources, random.integers(0, 4, len(pairs)), targets, gains, np.arange(entities), own)


@pytest.mark.parametrize("seed", range(12))
def test_they_are_the_best_of_all(seed):
    edges = random_edges(seed)
    expected = sorted(all_paths(edges, 0, 5).values(), reverse=True)
    found = strongest_paths(edges, 0, 5, 4)
    assert [path.share for path in found] == pytest.approx(expected[:4])
    everything = all_paths(edges, 0, 5)
    for path in found:
        assert path.share == pytest.approx(everything[path.entity_ids, path.relation_ids])


def test_shares_of_one_chain_are_the_whole():
    edges = LayeredEdges(
        np.array([0, 1]), np.array([3, 2]), np.array([1, 2]), np.array([[1.0, 0.0], [0.0, 2.0]]), np.arange(3),
        np.zeros((2, 3)),
    )  # fmt: skip
    (path,) = strongest_paths(edges, 0, 2, 5)
    assert (path.entity_ids, path.relation_ids, path.share) == ((0, 1, 2), (3, 2), 1.0)
    assert strongest_paths(edges, 1, 0, 5) == []

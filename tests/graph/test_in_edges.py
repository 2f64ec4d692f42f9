"""In-edges: every fact and its inverse, by target, then relation, then source."""

from __future__ import annotations

import numpy as np
from graphs import GRAPH
from hypothesis import given

from tuckerkg.graph.in_edges import in_edges


@given(GRAPH)
def test_every_fact_is_an_edge_in_both_directions(facts):
    edges = in_edges(np.array(facts), 11, 4)
    expected = [(h, r, t) for h, r, t in facts] + [(t, r + 4, h) for h, r, t in facts]
    assert edges.num_entities == 11
    assert [tuple(edge) for edge in edges.triples().tolist()] == sorted(expected, key=lambda edge: edge[::-1])


@given(GRAPH)
def test_a_run_holds_the_edges_of_one_relation_into_one_target(facts):
    edges = in_edges(np.array(facts), 11, 4)
    triples, begin = edges.triples(), 0
    for target in range(11):
        relations = []
        for run in range(edges.run_starts[target], edges.run_starts[target + 1]):
            end = edges.run_ends[run]
            relations.append(int(edges.run_relations[run]))
            assert end > begin
            assert (triples[begin:end, 1:] == (relations[-1], target)).all()
            begin = end
        assert relations == sorted(set(relations))
        assert begin == edges.starts[target + 1]


def test_a_graph_without_facts_has_no_edges():
    edges = in_edges(np.empty((0, 3), np.int64), 3, 2)
    assert edges.triples().shape == (0, 3)
    assert edges.starts.tolist() == edges.run_starts.tolist() == [0, 0, 0, 0]
    assert len(edges.run_ends) == len(edges.run_relations) == 0

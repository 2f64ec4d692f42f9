"""The blend of scorers: its formula as a loop, members that are not asked, edges taken out of all members."""

from __future__ import annotations

import math

import pytest
import torch
from graphs import toy_dataset

from tuckerkg.graph.strongest_paths import WeighedPath
from tuckerkg.nn.blend_scorer import BlendScorer
from tuckerkg.nn.contracts import AnswersOtherGraphs, HasVectors, NamesPaths, ReadsEdges, Scorer

DATA = toy_dataset()
N, R = len(DATA.entities), len(DATA.relations)


class Table:
    """A row of scores for each question; counts the questions that it is asked."""

    def __init__(self, seed: int, spread: float = 3.0) -> None:
        self.num_entities, self.num_relations, self.asked = N, R, 0
        self.table = spread * torch.randn(2 * R * N, N, generator=torch.Generator().manual_seed(seed))

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        self.asked += len(heads)
        return self.table[relation_ids * N + heads]


class Reader(Table):
    """A table that reads edges: without a fact, its row of scores is another one."""

    def __init__(self, seed: int, reads: bool = True, losses: dict[int, float] | None = None) -> None:
        super().__init__(seed)
        self.seed, self.reads_edges, self.losses = seed, reads, losses or {}

    def without(self, rows):
        return Reader(self.seed + 100 * len(rows), self.reads_edges, self.losses)

    def important_edges(self, head, relation, tail, count):
        return sorted(self.losses.items(), key=lambda found: -found[1])[:count]


class Pathfinder(Table):
    """A table that names paths and answers for other graphs."""

    names_paths = answers_other_graphs = True

    def __init__(self, seed: int, shares: dict[tuple[int, ...], float] | None = None) -> None:
        super().__init__(seed)
        self.shares, self.train = shares or {}, None

    def strongest_paths(self, head, relation, tail, count):
        found = sorted(self.shares.items(), key=lambda path: -path[1])[:count]
        return [WeighedPath((head, *way, tail), (relation,) * (len(way) + 1), share) for way, share in found]

    def on(self, train, num_entities):
        other = Pathfinder(9, self.shares)
        other.train, other.num_entities = train, num_entities
        return other


@pytest.fixture
def weights():
    found = torch.rand(2 * R, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    found[1, 0] = found[2, 2] = 0.0
    return found


def test_scores_are_those_of_a_loop(weights):
    members = [Table(1), Table(2, 30.0), Table(3, 0.1)]
    heads, relation_ids = torch.arange(N).repeat(2 * R), torch.arange(2 * R).repeat_interleave(N)
    found = BlendScorer(members, weights).scores(heads, relation_ids)
    for row, (head, relation) in enumerate(zip(heads.tolist(), relation_ids.tolist(), strict=True)):
        rows = [member.table[relation * N + head].double().tolist() for member in members]
        logs = [math.log(sum(math.exp(score) for score in scores)) for scores in rows]
        for tail in range(N):
            expected = sum(
                float(weights[relation, place]) * (rows[place][tail] - logs[place]) for place in range(len(members))
            )
            assert float(found[row, tail]) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_a_member_without_weight_is_not_asked_and_keeps_its_scores(weights):
    members = [Table(1), Table(2), Table(3)]
    before = [member.table.clone() for member in members]
    relation_ids = torch.tensor([0, 1, 1, 2])
    BlendScorer(members, weights).scores(torch.arange(4), relation_ids)
    assert [member.asked for member in members] == [2, 4, 3]
    for member, table in zip(members, before, strict=True):
        assert torch.equal(member.table, table)


def test_a_blend_is_a_scorer_without_vectors():
    blended = BlendScorer([Table(1), Table(2)], torch.ones(2 * R, 2))
    assert isinstance(blended, Scorer)
    assert isinstance(blended, ReadsEdges)
    assert not isinstance(blended, HasVectors)
    assert not blended.reads_edges
    assert not BlendScorer([Table(1), Reader(2, reads=False)], torch.ones(2 * R, 2)).reads_edges
    assert BlendScorer([Table(1), Reader(2)], torch.ones(2 * R, 2)).reads_edges


def test_edges_are_taken_out_of_every_member_that_reads_them():
    weights = torch.rand(2 * R, 2, dtype=torch.float64)
    heads, relation_ids = torch.arange(5), torch.tensor([0, 1, 2, 3, 4])
    found = BlendScorer([Table(1), Reader(2)], weights).without([4, 7]).scores(heads, relation_ids)
    expected = BlendScorer([Table(1), Reader(202)], weights).scores(heads, relation_ids)
    assert torch.equal(found, expected)


def test_important_edges_are_the_members_weighted_and_merged():
    first, second = Reader(1, losses={3: 1.0, 5: 0.5}), Reader(2, losses={5: 2.0, 8: 0.1})
    weights = torch.tensor([[2.0, 0.5]] + [[0.0, 1.0]] * (2 * R - 1), dtype=torch.float64)
    blended = BlendScorer([first, Table(7), second], torch.cat([weights[:, :1], weights], 1)[:, [0, 1, 2]])
    assert blended.important_edges(0, 0, 1, 2) == [(3, 2.0), (5, 2.0)]
    assert blended.important_edges(0, 1, 1, 5) == [(5, 2.0), (8, 0.1)]


def test_paths_count_by_their_members_share_of_the_weights_and_equal_ones_are_one():
    first, second = Pathfinder(1, {(3,): 0.6, (4,): 0.4}), Pathfinder(2, {(4,): 0.9, (5, 6): 0.1})
    weights = torch.tensor([[2.0, 1.0, 1.0]] + [[0.0, 3.0, 0.0]] * (2 * R - 1), dtype=torch.float64)
    blended = BlendScorer([first, Table(3), second], weights)
    assert isinstance(blended, NamesPaths)
    assert blended.names_paths
    found = blended.strongest_paths(0, 0, 1, 2)
    assert [path.entity_ids for path in found] == [(0, 4, 1), (0, 3, 1)]
    assert [path.share for path in found] == pytest.approx([0.5 * 0.4 + 0.25 * 0.9, 0.5 * 0.6])
    assert found[0].relation_ids == (0, 0)
    assert blended.strongest_paths(0, 1, 1, 2) == []
    assert not BlendScorer([Table(1), Table(2)], weights[:, :2]).names_paths
    assert BlendScorer([blended, Table(2)], weights[:, :2]).names_paths


def test_a_blend_answers_for_other_graphs_by_the_members_that_do():
    weights = torch.ones(2 * R, 2, dtype=torch.float64)
    blended = BlendScorer([Pathfinder(1), Pathfinder(2)], weights)
    assert isinstance(blended, AnswersOtherGraphs)
    assert blended.answers_other_graphs
    other = blended.on(DATA.train[:5], 7)
    assert other.num_entities == 7
    assert [len(member.train) for member in other.members] == [5, 5]
    uneven = torch.tensor([[3.0, 1.0, 2.0]] * (2 * R - 1) + [[0.0, 0.0, 4.0]], dtype=torch.float64)
    mixed = BlendScorer([Pathfinder(1), Pathfinder(2), Table(2)], uneven)
    assert mixed.answers_other_graphs
    moved = mixed.on(DATA.train[:5], 7)
    assert len(moved.members) == 2
    assert torch.allclose(moved.weights[0], torch.tensor([4.5, 1.5], dtype=torch.float64))  # the sum stays
    assert torch.allclose(moved.weights[-1], torch.tensor([2.0, 2.0], dtype=torch.float64))  # neither was asked before
    tables = BlendScorer([Table(1), Table(2)], weights)
    assert not tables.answers_other_graphs
    with pytest.raises(TypeError, match="no member of this blend"):
        tables.on(DATA.train, N)

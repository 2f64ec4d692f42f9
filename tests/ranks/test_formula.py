"""What ranks hold and send is what the formula says."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_programs import on_ranks
from shard_folders import ENTITIES, SAMPLED, SHARDS, SUBGRAPH, prepared, shard_folder

from benchmarks.rank_worker import train_and_count
from tuckerkg.config.settings import settings_of_run
from tuckerkg.data.shards import ShardedGraph
from tuckerkg.ranks.facts.batches import shards_of_graph
from tuckerkg.ranks.formula import StepCounts, bytes_of_step, memory_of_rank
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.loop import RankLoop
from tuckerkg.ranks.partition import Partition
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import NullCallback
from tuckerkg.training.signals import Interruptions

ROOT = Path(__file__).parent.parent.parent
SIZES = [(10**6, 10**7), (10**7, 10**8), (10**8, 10**9), (10**9, 10**10)]
RANKS = (1, 4, 16, 64)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return shard_folder(tmp_path_factory.mktemp("shards") / "graph")


RUNS = {
    "sampled": ({**SAMPLED, "train.optimizer": "rowwise-adagrad"}, "whole", 1),
    "all": ({}, "whole", 0),
    "subgraph": (SUBGRAPH, "subgraph", 0),
}
LARGER = {"facts": 20_000, "entities": 4_000, "relations": 20}


def train_all(group: Group, paths: list[Path]) -> list[dict]:
    return [train_and_count(group, path) for path in paths]


def trained_on(size: int, folders: list[RunFolder]) -> list[list[dict]]:
    """What each of the runs' ranks counted."""
    return [list(of_run) for of_run in zip(*on_ranks(size, train_all, [run.path for run in folders]), strict=True)]


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    return shard_folder(tmp_path_factory.mktemp("larger") / "graph", **LARGER)


@pytest.fixture(scope="module")
def on_two(graph, larger, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    made = [prepared(graph, place / name, **{**changes, "train.steps": 5}) for name, (changes, _, _) in RUNS.items()]
    chosen = {"batch.queries": 300, "phase": [{"candidates": 1000}], "train.steps": 3}
    made.append(prepared(larger, place / "larger", **chosen))
    return dict(zip([*RUNS, "larger"], trained_on(2, made), strict=True))


def hold_against_formula(found: list[dict], batch: str, more: int) -> None:
    for step in range(1, 5):
        counts = StepCounts.most([StepCounts(**one["counts"][step]) for one in found])
        shape = {"ranks": len(found), "shards": SHARDS, "dim": 8, "query_dim": 8 + more, "batch": batch}
        expected = sum(bytes_of_step(counts, **shape).values())
        assert {one["sent"][step] - one["sent"][step - 1] for one in found} == {expected}


@pytest.mark.parametrize("name", RUNS)
def test_bytes_of_a_step_are_those_of_the_formula(on_two, name):
    _, batch, more = RUNS[name]
    hold_against_formula(on_two[name], batch, more)


def test_bytes_on_four_ranks_too(graph, tmp_path):
    folder = prepared(graph, tmp_path / "run", **{**SAMPLED, "train.steps": 5})
    hold_against_formula(trained_on(4, [folder])[0], "whole", 1)


def test_tables_and_facts_are_those_of_the_formula(graph, on_two):
    found = on_two["sampled"]
    num_facts = len(graph.split("train"))
    whole = memory_of_rank(ENTITIES, num_facts, 8, 1)
    each = memory_of_rank(ENTITIES, num_facts, 8, 2)
    assert sum(one["tables"] for one in found) == whole.tables == 2 * each.tables
    assert sum(one["facts"] for one in found) == whole.facts == 2 * each.facts


@pytest.mark.parametrize("name", ["rowwise-adagrad", "lazy-adam", "adam", "adagrad"])
def test_the_state_of_an_optimizer_is_that_of_the_formula(graph, name, tmp_path):
    folder = prepared(graph, tmp_path / "run", **{**SAMPLED, "train.optimizer": name, "train.steps": 8})
    with Interruptions() as interruptions:
        loop = RankLoop(folder, settings_of_run(folder), NullCallback(), interruptions, Group())
        loop.run()
    state = loop.optimizer.tensors()
    rows = sum(t.numel() * t.element_size() for key, t in state.items() if key.startswith("entities") and t.ndim)
    assert rows == memory_of_rank(ENTITIES, 1, 8, 1, optimizer=name).optimizer


def test_counts_are_near_those_expected_of_equal_shares(larger, on_two):
    counts = StepCounts.most([StepCounts(**one["counts"][2]) for one in on_two["larger"]])
    answers = 2 * len(larger.split("train")) / sum(side.num_queries for side in sides_of(larger))
    expected = StepCounts.expected(300, answers, 1000, 2)
    shape = {"ranks": 2, "shards": SHARDS, "dim": 8, "query_dim": 9}
    found, by_formula = (sum(bytes_of_step(one, **shape).values()) for one in (counts, expected))
    assert found == pytest.approx(by_formula, rel=0.2)


def sides_of(graph: ShardedGraph) -> list:
    shards = shards_of_graph(graph, Partition.of(graph.offsets.tolist(), Group()))
    return [side for shard in shards for side in shard.sides]


def test_the_table_of_the_page_is_that_of_the_formula():
    page = (ROOT / "docs" / "ranks.md").read_text(encoding="utf-8")
    for row in table_rows():
        assert row in page, f"docs/ranks.md should have the row {row}"


def table_rows() -> list[str]:
    """GB of a rank, at 100 dimensions with row-wise Adagrad and sampled candidates."""
    rows = []
    for entities, facts in SIZES:
        cells = [f"{memory_of_rank(entities, facts, 100, ranks).total / 1e9:.2f}" for ranks in RANKS]
        power = [len(str(number)) - 1 for number in (entities, facts)]
        rows.append(f"| 10^{power[0]} | 10^{power[1]} | {' | '.join(cells)} |")
    return rows


if __name__ == "__main__":
    print("\n".join(table_rows()))

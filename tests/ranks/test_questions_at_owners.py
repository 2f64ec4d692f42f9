"""Questions about facts that lie with their owners: the graph around them, and training on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from rank_programs import on_ranks
from shard_folders import ENTITIES, RELATIONS, SHARDS, shard_folder
from test_questions_on_ranks import train_here

import tuckerkg
from tuckerkg import api
from tuckerkg.batches.questions import QuestionBatch
from tuckerkg.config.settings import Settings
from tuckerkg.config.toml import load_settings
from tuckerkg.data.ingest.hashing import key_of
from tuckerkg.data.shards import ShardedGraph
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.errors import SettingsError
from tuckerkg.evaluation.ranking import rank
from tuckerkg.graph.in_edges import in_edges
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.kernels.questions.graph import QuestionGraph
from tuckerkg.losses.objective import QuestionObjective
from tuckerkg.nn.paths import PathModel
from tuckerkg.ranks.facts.batches import OwnFacts, shards_of_graph
from tuckerkg.ranks.facts.neighbours import Neighbourhoods
from tuckerkg.ranks.facts.questions import QuestionsAround, ValidationAround, surroundings_of
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.partition import Partition
from tuckerkg.storage.run_folder import RunFolder

ALL = 10**6
QUESTIONS = 24
CHOSEN = {
    "kind": "paths", "paths.width": 8, "paths.layers": 2, "paths.questions": QUESTIONS, "ranks.shards": SHARDS,
    "train.threads": 1, "train.steps": 10, "train.evaluate_every": 0.1, "train.lr": 0.01,
}  # fmt: skip


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return shard_folder(tmp_path_factory.mktemp("shards") / "graph")


def settings_of(*fanout: int, **changes: Any) -> Settings:
    return load_settings(None, {**CHOSEN, "ranks.fanout": list(fanout), **changes})


def prepared(graph: ShardedGraph, place: Path, *fanout: int, **changes: Any) -> RunFolder:
    return api.prepare_in_shards(graph, settings_of(*fanout, **changes), place)


def near(graph: ShardedGraph, *fanout: int, group: Group | None = None) -> Neighbourhoods:
    partition = Partition.of(graph.offsets.tolist(), group or Group())
    facts = OwnFacts.of(shards_of_graph(graph, partition), partition, RELATIONS)
    return Neighbourhoods(facts, list(fanout), 0, "degree")


def batches_of(group: Group, path: Path, *fanout: int, steps: int) -> list[dict[str, np.ndarray]]:
    around = QuestionsAround(near(ShardedGraph(path), *fanout, group=group), 0, questions=QUESTIONS, answers=0.3)
    return [numbers_of(around.join(around.batch(step))) for step in range(steps)]


def numbers_of(batch: QuestionBatch) -> dict[str, np.ndarray]:
    edges = {f"edges {name}": np.asarray(getattr(batch.graph.edges, name)) for name in batch.graph.edges._fields}
    return {**{name: np.asarray(value) for name, value in vars(batch.questions).items()}, **edges}


def test_all_facts_around_all_entities_are_the_graph(graph):
    around = surroundings_of(near(graph, ALL), torch.arange(ENTITIES), key_of(1))
    assert around.ids.tolist() == list(range(ENTITIES))
    expected = np.unique(graph.split("train"), axis=0)
    np.testing.assert_array_equal(np.unique(around.facts, axis=0), expected)
    assert len(around.facts) == len(expected)


def test_drawn_facts_are_facts_and_as_many_as_asked(graph):
    train = {tuple(fact) for fact in graph.split("train").tolist()}
    asked = torch.tensor([3, 17, 40])
    around = surroundings_of(near(graph, 4), asked, key_of(2))
    ids = around.ids.numpy()
    found = [(int(ids[h]), int(r), int(ids[t])) for h, r, t in around.facts]
    assert len(set(found)) == len(found) <= 4 * len(asked)
    assert set(found) <= train
    for entity in asked.tolist():
        degree = sum((h == entity) + (t == entity) for h, _, t in train)
        touching = sum((h == entity) + (t == entity) for h, _, t in found)
        assert touching >= min(4, degree)
    farther = surroundings_of(near(graph, 4, 2), asked, key_of(2))
    assert set(ids) < set(farther.ids.numpy())


def test_an_epoch_asks_every_fact_both_ways_and_nobody_s_answers_are_lost(graph):
    """With all facts within reach, a step's answers are all known ones, asked for or not."""
    train = graph.split("train")
    known: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in add_inverses(train, RELATIONS).tolist():
        known.setdefault((head, relation), set()).add(tail)
    around = QuestionsAround(near(graph, ALL, ALL, ALL, ALL), 0, questions=QUESTIONS, answers=0.3)
    asked: list[tuple[int, int]] = []
    for step in range(around.steps_per_epoch):
        batch = around.join(around.batch(step))
        assert batch.graph.edges.num_entities == ENTITIES + 1  # all of them are reached, and one that nothing reaches
        for row, (head, relation) in enumerate(zip(batch.questions.heads, batch.questions.relations, strict=True)):
            answers, others = batch.questions.answers(row).tolist(), batch.questions.other_answers(row).tolist()
            assert len(answers) >= 1
            assert sorted(answers + others) == sorted(known[int(head), int(relation)])
            asked.append((int(head), int(relation)))
    assert sorted(asked) == sorted((h, r) for h, r, _ in add_inverses(train, RELATIONS).tolist())


@pytest.mark.parametrize("size", [4])
def test_batches_are_the_same_on_any_number_of_ranks(graph, size):
    expected = batches_of(Group(), graph.path, 5, 3, steps=3)
    for found in on_ranks(size, batches_on_ranks, graph.path):
        np.testing.assert_equal(found, expected)


def batches_on_ranks(group: Group, path: Path) -> list[dict[str, np.ndarray]]:
    return batches_of(group, path, 5, 3, steps=3)


def test_with_all_facts_a_loss_is_that_of_the_whole_graph(graph):
    """The graph of a step has one entity more than the whole one; where every fact is drawn, the rest is equal."""
    torch.manual_seed(0)
    model = PathModel(ENTITIES, RELATIONS, width=8, layers=2, core="question").double()
    around = QuestionsAround(near(graph, ALL, ALL, ALL, ALL), 0, questions=QUESTIONS, answers=0.3)
    batch = around.join(around.batch(1))
    whole = QuestionGraph(in_edges(np.unique(graph.split("train"), axis=0), ENTITIES + 1, RELATIONS))
    objective = QuestionObjective("own", 0.0)
    value, expected = objective(model, batch), objective(model, QuestionBatch(whole, batch.questions))
    assert value.item() == pytest.approx(expected.item(), rel=1e-10)


def test_with_all_facts_validation_ranks_as_the_whole_graph_does(graph):
    settings = settings_of(ALL, ALL, ALL, ALL)
    torch.manual_seed(0)
    model = PathModel(ENTITIES, RELATIONS, width=8, layers=2, core="question")
    train, valid = graph.split("train"), graph.split("valid")
    found = ValidationAround(valid, graph.relations, settings, model, near(graph, ALL, ALL, ALL, ALL), "x").ranks(None)
    edges = QuestionGraph(in_edges(np.unique(train, axis=0), ENTITIES, RELATIONS))

    class Whole:
        num_entities, num_relations = ENTITIES, RELATIONS

        def scores(self, heads, relation_ids):
            return model.scores(edges, heads, relation_ids)

    expected = rank(Whole(), valid, KnownTails.from_splits([train, valid], RELATIONS))
    np.testing.assert_array_equal(found.best, expected.best)
    np.testing.assert_array_equal(found.worst, expected.worst)
    np.testing.assert_array_equal(found.candidates, expected.candidates)


@pytest.mark.parametrize("size", [4])
def test_losses_and_validation_are_those_of_one_process(graph, size, tmp_path):
    expected = train_here(Group(), [prepared(graph, tmp_path / "alone", 5, 3).path])
    found = on_ranks(size, train_here, [prepared(graph, tmp_path / "ranks", 5, 3).path])
    assert found[0][0] == expected[0]
    run, alone = (tuckerkg.load(tmp_path / name) for name in ("ranks", "alone"))
    assert all(tensor.equal(alone.model.state_dict()[name]) for name, tensor in run.model.state_dict().items())
    assert run.evaluate("valid").mrr > 0


def test_facts_in_memory_are_sampled_too_and_rules_are_learnt(tmp_path):
    changes = {"train.steps": 80, "train.evaluate_every": 100.0, "paths.questions": 16}
    folder = api.prepare(toy_dataset(), settings_of(6, 6, **changes), tmp_path / "run")
    losses = list(train_here(Group(), [folder.path])[0][0].values())
    assert np.mean(losses[-16:]) < np.mean(losses[:16]) - 0.5


def test_without_a_fanout_it_is_refused_in_words(graph, tmp_path):
    with pytest.raises(SettingsError, match=r"give ranks\.fanout"):
        prepared(graph, tmp_path / "run")

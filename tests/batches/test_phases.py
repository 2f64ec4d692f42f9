"""Phases of training: where each begins and ends, and what batches and the loop make of it."""

from __future__ import annotations

import pytest
from graphs import random_triples, toy_dataset

from tuckerkg import api
from tuckerkg.batches.batch import TrainingGraph
from tuckerkg.batches.phases import Phase, Schedule
from tuckerkg.batches.subgraph import RandomSubgraphs
from tuckerkg.batches.whole_graph import WholeGraph
from tuckerkg.errors import SettingsError
from tuckerkg.training.callbacks import NullCallback

N, R = 30, 4
TRIPLES = random_triples(0, N, R, 200)


def graph(*phases: Phase) -> TrainingGraph:
    return TrainingGraph(TRIPLES, N, R, seed=5, phases=phases)


def test_a_phase_ends_where_the_next_begins():
    first, second, third = (Phase(epochs=length, candidates=place) for place, length in enumerate((2.0, 0.5, 9.0), 1))
    schedule = Schedule([first, second, third], steps_per_epoch=10)
    found = {step: schedule.at(step) for step in (0, 19, 20, 24, 25, 26)}
    assert found == {0: first, 19: first, 20: second, 24: second, 25: third, 26: third}


def test_the_last_phase_lasts_to_the_end_whatever_its_length():
    short = Phase(epochs=1.0, messages=0.0)
    last = Phase(epochs=1.0, messages=0.5)
    schedule = Schedule([short, last], steps_per_epoch=10)
    assert schedule.at(19) == schedule.at(10**9) == last
    assert Schedule([short], steps_per_epoch=10).at(10**9) == short


def test_lengths_are_added_before_they_are_rounded():
    schedule = Schedule([Phase(epochs=0.25), Phase(epochs=0.25), Phase(candidates=1)], steps_per_epoch=7)
    assert schedule.ends == [2, 4]  # 1.75 and 3.5 steps


@pytest.mark.parametrize("phases", [(), [], (Phase(),)])
def test_an_empty_list_is_one_phase_of_defaults(phases):
    schedule = Schedule(phases, steps_per_epoch=3)
    assert schedule.phases == (Phase(),)
    for step in (0, 3, 1000):
        assert schedule.at(step) == Phase(epochs=None, messages=None, candidates=0, evaluate=True)


def test_messages_left_out_are_all_of_the_graph_or_half_of_a_subgraph():
    assert WholeGraph(graph(), queries=16).batch(0).graph.num_edges == 2 * len(TRIPLES)
    assert RandomSubgraphs(graph(), triples=60, positives=20).batch(0).graph.num_edges == 2 * 30


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_messages_are_the_share_that_the_phase_says(share):
    assert WholeGraph(graph(Phase(messages=share)), queries=16).batch(0).graph.num_edges == 2 * round(
        len(TRIPLES) * share
    )
    batch = RandomSubgraphs(graph(Phase(messages=share)), triples=60, positives=20).batch(0)
    assert batch.graph.num_edges == 2 * round(60 * share)


@pytest.mark.parametrize(
    ("build", "options"), [(WholeGraph, {"queries": 16}), (RandomSubgraphs, {"triples": 60, "positives": 20})]
)
def test_a_phase_without_messages_has_no_graph(build, options):
    batches = build(graph(Phase(epochs=1.0, messages=0.0), Phase()), **options)
    assert batches.batch(batches.steps_per_epoch - 1).graph is None
    assert batches.batch(batches.steps_per_epoch).graph is not None


def test_candidates_make_a_sample_and_its_probabilities():
    batches = WholeGraph(
        graph(Phase(epochs=1.0, candidates=5), Phase(epochs=1.0, messages=0.0, candidates=7)), queries=4
    )
    with_messages, without = batches.batch(0), batches.batch(batches.steps_per_epoch)
    assert WholeGraph(graph(), queries=4).batch(0).sample is None
    assert with_messages.entity_ids is None
    assert len(with_messages.sample.rows) == len(with_messages.sample.log_inclusion) < N
    assert without.sample.rows is None
    assert len(without.entity_ids) == len(without.sample.log_inclusion) < N
    for batch in (with_messages, without):
        assert len(batch.candidate_ids) == len(batch.sample.log_inclusion)
        assert (batch.sample.log_inclusion <= 0.0).all()


def test_more_candidates_than_entities_are_all_of_them():
    batch = WholeGraph(graph(Phase(candidates=10**6)), queries=4).batch(0)
    assert batch.candidate_ids.tolist() == list(range(N))
    assert batch.sample.log_inclusion.abs().max() < 1e-6


def test_a_subgraph_brings_its_own_candidates():
    with pytest.raises(SettingsError, match=r"phase\.candidates.*leave it out"):
        RandomSubgraphs(graph(Phase(epochs=1.0), Phase(candidates=5)))


SMALL = {
    "model.dim": 8, "model.relation_dim": 8, "train.epochs": 6.0, "train.evaluate_every": 1.0, "train.threads": 1,
    "batch.queries": 16,
}  # fmt: skip


class Watches(NullCallback):
    def __init__(self):
        self.epochs = []

    def validated(self, epoch, evaluation, is_best):
        self.epochs.append(epoch)


@pytest.mark.parametrize(
    ("phases", "epochs"),
    [
        ([], [1, 2, 3, 4, 5, 6]),
        ([{"epochs": 3.0, "evaluate": False}, {}], [3, 4, 5, 6]),
        ([{"epochs": 2.0}, {"epochs": 2.0, "evaluate": False}, {}], [1, 4, 5, 6]),
        ([{"evaluate": False}], [6]),  # the end is always evaluated: some weights must be the best
    ],
)
def test_a_phase_that_is_not_evaluated_is_not_validated(tmp_path, phases, epochs):
    watching = Watches()
    overrides = {**SMALL, "phase": phases}
    run = api.train(toy_dataset(), out=tmp_path / "run", overrides=overrides, callback=watching)
    assert watching.epochs == epochs
    assert [row["epoch"] for row in run.metrics] == epochs
    assert run.state["best_step"] in {row["step"] for row in run.metrics}


def test_phases_in_settings_reach_the_batches(tmp_path):
    changes = {**SMALL, "phase": [{"epochs": 2.0, "messages": 0.0, "candidates": 4}, {"messages": 0.5}]}
    run = api.train(toy_dataset(), out=tmp_path / "run", overrides=changes, callback=NullCallback())
    assert run.settings.phase == (Phase(epochs=2.0, messages=0.0, candidates=4), Phase(messages=0.5))
    assert run.folder.settings["phase"][1] == {"epochs": None, "messages": 0.5, "candidates": 0, "evaluate": True}
    from tuckerkg.config.build import build_batches, build_loss

    batches = build_batches(run.settings, run.model, build_loss(run.settings), run.split("train"))
    before, after = batches.batch(0), batches.batch(2 * batches.steps_per_epoch)
    assert before.graph is None
    assert before.sample is not None
    assert after.graph.num_edges == 2 * round(len(run.split("train")) * 0.5)
    assert after.sample is None

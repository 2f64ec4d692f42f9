"""The model that starts from the question on ranks: bits of one process, on any number of ranks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from rank_programs import on_ranks
from test_runs_on_ranks import Heard, finished, losses_of, start

import tuckerkg
from tuckerkg import api
from tuckerkg.batches.questions import QuestionBatch, QuestionBatches
from tuckerkg.config.toml import load_settings
from tuckerkg.losses.objective import QuestionObjective
from tuckerkg.nn.paths import PathModel
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.loop import fit_on_ranks
from tuckerkg.ranks.partition import Partition
from tuckerkg.ranks.questions import SharedQuestions, part_of
from tuckerkg.storage.run_folder import RunFolder

CHOSEN = {
    "kind": "paths", "paths.width": 8, "paths.layers": 2, "paths.questions": 10, "ranks.shards": 4, "train.steps": 8,
    "train.threads": 1, "train.evaluate_every": 0.4,
}  # fmt: skip


def prepared(place: Path, **changes: object) -> RunFolder:
    return api.prepare(toy_dataset(), load_settings(None, {**CHOSEN, **changes}), place)


def step_of(group: Group, core: str, least: float = 0.0, dtype: str = "float64") -> tuple[float, list[np.ndarray]]:
    """Loss and gradients of one step."""
    torch.manual_seed(0)
    model = PathModel(20, 3, width=8, layers=2, core=core).to(getattr(torch, dtype))
    batch = batch_of()
    value = SharedQuestions(QuestionObjective("own", least), Partition.even(0, 4, group))(model, batch)
    value.backward()
    return value.item(), [parameter.grad.numpy() for parameter in model.parameters()]


def batch_of() -> QuestionBatch:
    return QuestionBatches(toy_dataset().train, 20, 3, 0, questions=10, answers=0.1).batch(1)


@pytest.mark.parametrize("core", ["question", "cp", "tucker"])
def test_a_step_is_that_of_one_process(core):
    value, gradients = step_of(Group(), core)
    torch.manual_seed(0)
    model = PathModel(20, 3, width=8, layers=2, core=core).double()
    expected = QuestionObjective("own", 0.0)(model, batch_of())
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-12)
    for found, parameter in zip(gradients, model.parameters(), strict=True):
        np.testing.assert_allclose(found, parameter.grad, rtol=1e-9, atol=1e-12)


def test_parts_are_all_questions_with_roundings_of_their_own():
    questions = batch_of().questions
    parts = [part_of(questions, part, 4) for part in range(4)]
    assert len({part.seed for part in parts}) == 4
    for number in range(len(questions.heads)):
        part, row = parts[number % 4], number // 4
        assert part.heads[row] == questions.heads[number]
        assert part.relations[row] == questions.relations[number]
        np.testing.assert_array_equal(part.answers(row), questions.answers(number))
        np.testing.assert_array_equal(part.other_answers(row), questions.other_answers(number))
    few = replace(questions, heads=questions.heads[:2], relations=questions.relations[:2])
    assert len(part_of(few, 3, 4).heads) == 0


def train_here(group: Group, paths: list[Path]) -> list[tuple[dict[int, float], float]]:
    found = []
    for path in paths:
        state = fit_on_ranks(RunFolder.open(path) if group.is_first else None, heard := Heard())
        found.append((heard.losses, state.best_mrr))
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    place = tmp_path_factory.mktemp("alone") / "run"
    return train_here(Group(), [prepared(place).path])[0], place


@pytest.mark.parametrize("size", [4])
def test_losses_weights_and_validation_are_those_of_one_process(alone, size, tmp_path):
    run = prepared(tmp_path / "run")
    found = on_ranks(size, train_here, [run.path])
    assert found[0][0] == alone[0]
    assert [best for [(_, best)] in found] == [alone[0][1]] * size
    rows, expected = (
        [json.loads(line)["valid"] for line in (path / "metrics.jsonl").read_text().splitlines()]
        for path in (run.path, alone[1])
    )
    assert rows == expected
    ours, theirs = (tuckerkg.load(path).model.state_dict() for path in (run.path, alone[1]))
    assert all(tensor.equal(theirs[name]) for name, tensor in ours.items())
    assert tuckerkg.load(run.path).evaluate("valid").mrr == pytest.approx(alone[0][1], abs=1e-9)


def test_it_resumes_on_another_number_of_ranks(alone, tmp_path):
    run = prepared(tmp_path / "run")
    process = start(2, run.path, tmp_path / "losses", "--interrupt", "1", "--at", "5")
    output = finished(process)
    assert "the state is saved" in output, output
    rest, _ = train_here(Group(), [run.path])[0]
    assert min(rest) == 6
    assert {**losses_of(tmp_path / "losses"), **rest} == alone[0][0]
    ours, theirs = (tuckerkg.load(path).model.state_dict() for path in (run.path, alone[1]))
    assert all(tensor.equal(theirs[name]) for name, tensor in ours.items())


@pytest.mark.faults
def test_a_first_rank_that_cannot_write_stops_all(tmp_path):
    run = prepared(tmp_path / "run")
    process = start(2, run.path, tmp_path / "losses", "--refuse", "0")
    output = finished(process)
    assert process.returncode != 0
    assert "rank 0: Cannot write" in output
    assert not run.checkpoints.steps()

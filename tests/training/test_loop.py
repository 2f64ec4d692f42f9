"""The loop: resuming bit for bit, signals, bad numbers, early stopping, schedules, and the test split left closed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from small_runs import OVERRIDES, PATHS, TOTAL, At, Crash, crash, digest, prepare

from tuckerkg import api
from tuckerkg.config.settings import LAZY, TrainSettings
from tuckerkg.config.toml import load_settings
from tuckerkg.errors import NonFiniteError, RunFolderError
from tuckerkg.evaluation.ranking import Ranks
from tuckerkg.inference.run import load
from tuckerkg.losses.objective import Objective, QuestionObjective
from tuckerkg.storage.checkpoints import Checkpoints
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import NullCallback
from tuckerkg.training.loop import fit
from tuckerkg.training.optim import learning_rate
from tuckerkg.training.signals import TrainingInterrupted


@pytest.fixture(scope="module", params=[{}, PATHS], ids=["embeddings", "paths"])
def changes(request):
    """Overrides of the settings, for either kind of model."""
    return request.param


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, changes):
    folder = prepare(tmp_path_factory.mktemp("whole") / "run", **changes)
    state = fit(folder)
    assert state.step == TOTAL
    return digest(folder)


LAZILY = [{"batch": "subgraph", "batch.triples": 30, "train.optimizer": name} for name in LAZY]


@pytest.mark.parametrize(
    "changes", [{}, {"train.optimizer": "adagrad"}, {"batch": "subgraph", "batch.triples": 30}, *LAZILY, PATHS]
)
def test_f02_crashes_at_20_random_steps_leave_the_final_weights_bit_equal(tmp_path, changes):
    whole = prepare(tmp_path / "whole", **changes)
    total = fit(whole).step
    folder = prepare(tmp_path / "run", **changes)
    steps = sorted(random.Random(1).sample(range(1, total), k=min(20, total - 1)))
    crashes = 0
    for step in steps:  # ascending: a resumed run is never past a later step
        try:
            fit(folder, At(step, crash))
        except Crash:
            crashes += 1
    assert crashes == len(steps)
    assert fit(folder).step == total
    assert digest(folder) == digest(whole)


TESTS = Path(__file__).parents[1]
DRIVER = """
    import os, signal, sys
    sys.path.insert(0, {tests!r})
    from pathlib import Path
    from tuckerkg.storage.run_folder import RunFolder
    from tuckerkg.training.loop import fit
    from small_runs import At
    fit(RunFolder.open(Path({run!r})), At(int(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGKILL)))
"""


def killed_at(folder: RunFolder, step: int) -> int:
    """Runs training in a process of its own that is killed with SIGKILL after ``step``; its exit code."""
    script = textwrap.dedent(DRIVER).format(tests=str(TESTS), run=str(folder.path))
    return subprocess.run([sys.executable, "-c", script, str(step)], check=False, timeout=120).returncode


@pytest.mark.parametrize("step", [1, 10, 11])
def test_f02_kill_9_and_resume_ends_bit_equal(tmp_path, changes, uninterrupted, step):
    folder = prepare(tmp_path / "run", **changes)
    assert killed_at(folder, step) == -signal.SIGKILL
    assert fit(folder).step == TOTAL
    assert digest(folder) == uninterrupted


@pytest.mark.faults
def test_f02_kill_9_at_20_random_steps_in_one_run(tmp_path, changes, uninterrupted):
    folder = prepare(tmp_path / "run", **changes)
    for step in sorted(random.Random(2).choices(range(1, TOTAL + 1), k=20)):
        assert killed_at(folder, step) == -signal.SIGKILL
    fit(folder)
    assert digest(folder) == uninterrupted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("step", [1, 5, 10, 11, 20, 33, 42])
def test_f03_a_signal_in_a_step_saves_and_resumes_exactly(tmp_path, changes, uninterrupted, number, step):
    folder = prepare(tmp_path / "run", **changes)
    with pytest.raises(TrainingInterrupted) as caught:
        fit(folder, At(step, lambda: os.kill(os.getpid(), number)))
    assert caught.value.exit_code == 128 + number
    assert folder.checkpoints.newest().step == step
    fit(folder)
    assert digest(folder) == uninterrupted


def test_f03_a_signal_while_looking_at_validation_looks_again_after_resuming(
    tmp_path, changes, uninterrupted, monkeypatch
):
    folder = prepare(tmp_path / "run", **changes)
    from tuckerkg.training import validation

    plain = validation.rank

    def interrupted(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGTERM)
        return plain(*args, **kwargs)

    monkeypatch.setattr(validation, "rank", interrupted)
    with pytest.raises(TrainingInterrupted):
        fit(folder)
    monkeypatch.undo()
    assert folder.metrics.rows() == []
    fit(folder)
    assert digest(folder) == uninterrupted


@pytest.mark.parametrize(("rows", "stopped"), [(0, 10), (1, 11)], ids=["before the look", "after the look"])
def test_f03_a_signal_while_saving_lets_the_save_finish(tmp_path, changes, uninterrupted, monkeypatch, rows, stopped):
    folder = prepare(tmp_path / "run", **changes)
    save = Checkpoints.save

    def interrupted(self, step, *args, **kwargs):
        if step == 10 and len(folder.metrics.rows()) == rows:
            monkeypatch.undo()  # once: a second signal would end the process
            os.kill(os.getpid(), signal.SIGINT)
        return save(self, step, *args, **kwargs)

    monkeypatch.setattr(Checkpoints, "save", interrupted)
    with pytest.raises(TrainingInterrupted):
        fit(folder)
    assert folder.checkpoints.newest().step == stopped  # where the signal was acted on
    fit(folder)
    assert digest(folder) == uninterrupted


def test_a_path_run_with_the_cp_core_is_bit_equal_with_any_threads(tmp_path):
    """Other models promise this for equal numbers of threads only: they have products that PyTorch divides."""
    found = []
    for threads in (1, 2, 3):
        folder = prepare(tmp_path / str(threads), **PATHS, **{"paths.core": "cp", "train.threads": threads})
        fit(folder)
        found.append(folder.checkpoints.newest().weights)
    for others in found[1:]:
        assert all(torch.equal(found[0][name], tensor) for name, tensor in others.items())


def test_handlers_of_the_caller_are_put_back(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    fit(prepare(tmp_path / "run"))
    assert signal.getsignal(signal.SIGINT) is before


def test_training_passes_with_the_test_split_unreadable(tmp_path):
    folder = prepare(tmp_path / "run")
    file = folder.path / "data" / "test.safetensors"
    file.unlink()
    file.mkdir()
    assert fit(RunFolder.open(folder.path)).step == TOTAL
    with pytest.raises(RunFolderError):
        load(folder.path).evaluate("test")


def test_f18_a_loss_that_is_not_finite_stops_and_is_never_saved(tmp_path, changes, monkeypatch):
    folder = prepare(tmp_path / "run", **changes)
    minimized = QuestionObjective if changes == PATHS else Objective
    plain = minimized.__call__
    calls = []

    def poisoned(self, *args, **kwargs):
        calls.append(1)
        value = plain(self, *args, **kwargs)
        return value * float("nan") if len(calls) == 15 else value

    monkeypatch.setattr(minimized, "__call__", poisoned)
    with pytest.raises(NonFiniteError, match=r"step 14: loss nan.*newest checkpoint is step 10"):
        fit(folder)
    assert folder.checkpoints.steps()[-1] == 10
    assert all(torch.isfinite(tensor).all() for tensor in folder.checkpoints.newest().weights.values())


def test_f18_a_gradient_that_is_not_finite_stops_too(tmp_path, monkeypatch):
    folder = prepare(tmp_path / "run")
    monkeypatch.setattr(torch.nn.utils, "get_total_norm", lambda *_: torch.tensor(float("inf")))
    with pytest.raises(NonFiniteError, match="gradient norm inf"):
        fit(folder)


def test_early_stopping_counts_looks_without_gain(tmp_path, monkeypatch):
    from tuckerkg.training import validation

    folder = prepare(tmp_path / "run", **{"train.patience": 2, "train.epochs": 50.0})
    ranks = iter([3, 2, 2, 5, 1])
    plain = validation.rank

    def planned(*args, **kwargs):
        found = plain(*args, **kwargs)
        place = np.full_like(found.best, next(ranks))
        return Ranks(found.triples, place, place, found.candidates)

    monkeypatch.setattr(validation, "rank", planned)
    state = fit(folder)
    assert [row["valid"]["mr"] for row in folder.metrics.rows()] == [3, 2, 2, 5]
    assert (state.best_mrr, state.validations_without_improvement) == (0.5, 2)
    assert folder.checkpoints.weights().step == state.best_step == folder.metrics.rows()[1]["step"]


def test_the_best_checkpoint_on_validation_is_what_load_opens(tmp_path):
    run = api.train(toy_dataset(), out=tmp_path / "run", overrides=OVERRIDES, callback=NullCallback())
    best = max(run.metrics, key=lambda row: row["valid"]["mrr"])
    assert run.step == best["step"]
    assert run.evaluate("valid").mrr == pytest.approx(best["valid"]["mrr"], abs=1e-12)


def test_a_note_of_the_best_step_that_a_crash_left_behind_is_mended_by_resuming(tmp_path):
    folder = prepare(tmp_path / "run")
    state = fit(folder)
    older = next(step for step in folder.checkpoints.steps() if step != state.best_step)
    for note in (json.dumps({"step": older}), None, "{"):  # the last save came no further
        (folder.path / "best.json").unlink()
        if note is not None:
            (folder.path / "best.json").write_text(note)
        assert fit(folder).step == TOTAL
        assert folder.checkpoints.best_step() == state.best_step


def test_schedules():
    constant = TrainSettings(schedule="constant", lr=0.1)
    assert learning_rate(constant, 999, 1000) == 0.1
    step = TrainSettings(schedule="step", lr=1.0, decay=0.5, decay_every=10)
    assert [learning_rate(step, i, 100) for i in (0, 9, 10, 25)] == [1.0, 1.0, 0.5, 0.25]
    cycle = TrainSettings(schedule="one-cycle", lr=1.0, warmup=0.25)
    rates = [learning_rate(cycle, i, 100) for i in range(101)]
    assert max(rates) == rates[25] == 1.0
    assert rates[0] == pytest.approx(0.04)
    assert rates[100] == pytest.approx(0.001)
    assert rates[:26] == sorted(rates[:26])
    assert rates[25:] == sorted(rates[25:], reverse=True)


def test_the_callers_random_state_and_threads_are_left_alone(tmp_path):
    torch.manual_seed(123)
    expected = torch.rand(3)
    torch.manual_seed(123)
    threads = torch.get_num_threads()
    fit(prepare(tmp_path / "run"))
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_l2_pulls_the_embeddings_towards_zero(tmp_path):
    plain = api.train(toy_dataset(), out=tmp_path / "a", overrides=OVERRIDES, callback=NullCallback())
    pulled = api.train(
        toy_dataset(), out=tmp_path / "b", overrides=OVERRIDES | {"regularizer.l2": 100.0}, callback=NullCallback()
    )
    assert pulled.model.entities.square().mean() < 0.5 * plain.model.entities.square().mean()


def test_l2_on_the_encoders_output_pulls_that_towards_zero(tmp_path):
    overrides = OVERRIDES | {"encoder.output_norm": False}
    plain = api.train(toy_dataset(), out=tmp_path / "a", overrides=overrides, callback=NullCallback())
    overrides |= {"regularizer.l2_encoded": 100.0}
    pulled = api.train(toy_dataset(), out=tmp_path / "b", overrides=overrides, callback=NullCallback())
    assert pulled.scorer.entities.square().mean() < 0.5 * plain.scorer.entities.square().mean()


def unvalidated(path):
    from dataclasses import replace

    empty = np.empty((0, 3), dtype=np.int64)
    return api.prepare(replace(toy_dataset(), valid=empty), load_settings(None, OVERRIDES), path)


class Passed(NullCallback):
    """Notes where validation would have been, and what was said."""

    def __init__(self):
        self.epochs, self.said = [], []

    def passed(self, epoch):
        self.epochs.append(epoch)

    def log(self, text):
        self.said.append(text)

    def validated(self, epoch, evaluation, is_best):
        raise AssertionError("nothing is there to rank")


def test_without_validation_triples_the_last_weights_are_taken(tmp_path, caplog):
    watch = Passed()
    run = api.resume(unvalidated(tmp_path / "run"), watch)
    assert (run.step, run.state["best_step"], run.state["best_mrr"]) == (TOTAL, TOTAL, None)
    assert watch.epochs == pytest.approx([10 / 7, 20 / 7, 30 / 7, 40 / 7, 6.0])
    assert len([said for said in watch.said if "no validation triples: the last weights are taken" in said]) == 1
    assert all(row["valid"] is None and row["loss"] > 0 for row in run.metrics)
    assert (len(run.metrics), run.curve) == (5, [])
    assert not (run.path / "calibration").exists()
    assert run.evaluate("test").mrr > 0
    assert not caplog.records
    (found,) = run.predict("e000", "plus1", k=1)
    assert found.probability == pytest.approx(1 / (1 + np.exp(-found.score)), abs=1e-6)
    assert "plain sigmoid" in caplog.text


def test_a_run_without_validation_resumes_bit_for_bit(tmp_path):
    whole = unvalidated(tmp_path / "whole")
    fit(whole)
    cut = unvalidated(tmp_path / "cut")
    with pytest.raises(Crash):
        fit(cut, At(25, crash))
    assert cut.checkpoints.best_step() == 20
    fit(cut)
    assert digest(cut) == digest(whole)


def test_progress_of_a_run_without_validation_shows_the_loss(tmp_path):
    from io import StringIO

    from rich.console import Console

    from tuckerkg.training.progress import Progress

    lines = Console(file=StringIO(), width=200)
    api.resume(unvalidated(tmp_path / "a"), Progress(lines))
    said = lines.file.getvalue()
    assert said.count("loss") == 5
    assert "MRR" not in said
    terminal = Console(file=StringIO(), width=200, force_terminal=True)
    api.resume(unvalidated(tmp_path / "b"), Progress(terminal))
    assert "MRR" not in terminal.file.getvalue()

"""The loop: resuming bit for bit, signals, bad numbers, early stopping, schedules, and the test split left closed."""

from __future__ import annotations

import hashlib
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

from tuckerkg import api
from tuckerkg.checkpoint import RunFolder
from tuckerkg.config import TrainSettings, load_settings
from tuckerkg.errors import NonFiniteError, RunFolderError
from tuckerkg.evaluate import Ranks
from tuckerkg.interrupt import TrainingInterrupted
from tuckerkg.optimisers import LAZY
from tuckerkg.run import load
from tuckerkg.training import Silent, fit, learning_rate

OVERRIDES = {
    "model.dim": 8, "model.relation_dim": 6, "encoder.output_dropout": 0.2, "decoder.dropout": 0.1,
    "batch.queries": 16, "train.epochs": 6.0, "train.evaluate_every": 1.5, "train.threads": 1, "train.lr": 0.02,
}  # fmt: skip
TOTAL = 42  # steps: 6 epochs of 7


def prepare(path: Path, **changes) -> RunFolder:
    return api.prepare(toy_dataset(), load_settings(None, OVERRIDES | changes), path)


def digest(folder: RunFolder) -> dict[str, str]:
    """SHA-256 of every tensor of weights and optimiser, and of the history, in the newest checkpoint."""
    checkpoint = folder.load()
    tensors = {**checkpoint.weights, **{f"optimiser {k}": v for k, v in checkpoint.optimiser.items()}}
    hashes = {name: hashlib.sha256(tensor.numpy().tobytes()).hexdigest() for name, tensor in tensors.items()}
    state = {k: v for k, v in checkpoint.state.items() if "minutes" not in k}
    rows = [{k: v for k, v in row.items() if k != "minutes"} for row in folder.metrics()]
    return {**hashes, "state": repr(state), "rows": repr(rows)}


class Crash(BaseException):
    """Ends the loop as abruptly as a kill does: nothing of the loop handles it."""


class At(Silent):
    """Acts after a given step."""

    def __init__(self, step, action):
        self.step, self.action = step, action

    def stepped(self, step, loss, lr):
        if step == self.step:
            self.action()


def crash():
    raise Crash


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = prepare(tmp_path_factory.mktemp("whole") / "run")
    state = fit(folder)
    assert state.step == TOTAL
    return digest(folder)


LAZILY = [{"batch": "subgraph", "batch.triples": 30, "train.optimiser": name} for name in LAZY]


@pytest.mark.parametrize(
    "changes", [{}, {"train.optimiser": "adagrad"}, {"batch": "subgraph", "batch.triples": 30}, *LAZILY]
)
def test_f02_crashes_at_20_random_steps_leave_the_final_weights_bit_equal(tmp_path, changes):
    whole = prepare(tmp_path / "whole", **changes)
    total = fit(whole).step
    folder = prepare(tmp_path / "run", **changes)
    for step in random.Random(1).choices(range(1, total), k=20):
        with pytest.raises((Crash, AssertionError)):
            fit(folder, At(step, crash))
            raise AssertionError("already past this step")
    fit(folder)
    assert digest(folder) == digest(whole)


DRIVER = """
    import os, signal, sys
    sys.path.insert(0, {tests!r})
    from pathlib import Path
    from tuckerkg.checkpoint import RunFolder
    from tuckerkg.training import fit
    from test_training import At
    fit(RunFolder.open(Path({run!r})), At(int(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGKILL)))
"""


def killed_at(folder: RunFolder, step: int) -> int:
    """Runs training in a process of its own that is killed with SIGKILL after ``step``; its exit code."""
    script = textwrap.dedent(DRIVER).format(tests=str(Path(__file__).parent), run=str(folder.path))
    return subprocess.run([sys.executable, "-c", script, str(step)], check=False, timeout=120).returncode


@pytest.mark.parametrize("step", [1, 10, 11])
def test_f02_kill_9_and_resume_ends_bit_equal(tmp_path, uninterrupted, step):
    folder = prepare(tmp_path / "run")
    assert killed_at(folder, step) == -signal.SIGKILL
    assert fit(folder).step == TOTAL
    assert digest(folder) == uninterrupted


@pytest.mark.faults
def test_f02_kill_9_at_20_random_steps_in_one_run(tmp_path, uninterrupted):
    folder = prepare(tmp_path / "run")
    for step in sorted(random.Random(2).choices(range(1, TOTAL + 1), k=20)):
        assert killed_at(folder, step) in (-signal.SIGKILL, 0)
    fit(folder)
    assert digest(folder) == uninterrupted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("step", [1, 5, 10, 11, 20, 33, 42])
def test_f03_a_signal_in_a_step_saves_and_resumes_exactly(tmp_path, uninterrupted, number, step):
    folder = prepare(tmp_path / "run")
    with pytest.raises(TrainingInterrupted) as caught:
        fit(folder, At(step, lambda: os.kill(os.getpid(), number)))
    assert caught.value.exit_code == 128 + number
    assert folder.load().step == step
    fit(folder)
    assert digest(folder) == uninterrupted


def test_f03_a_signal_while_looking_at_validation_looks_again_after_resuming(tmp_path, uninterrupted, monkeypatch):
    folder = prepare(tmp_path / "run")
    from tuckerkg import validation

    plain = validation.rank

    def interrupted(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGTERM)
        return plain(*args, **kwargs)

    monkeypatch.setattr(validation, "rank", interrupted)
    with pytest.raises(TrainingInterrupted):
        fit(folder)
    monkeypatch.undo()
    assert folder.metrics() == []
    fit(folder)
    assert digest(folder) == uninterrupted


@pytest.mark.parametrize(("rows", "stopped"), [(0, 10), (1, 11)], ids=["before the look", "after the look"])
def test_f03_a_signal_while_saving_lets_the_save_finish(tmp_path, uninterrupted, monkeypatch, rows, stopped):
    folder = prepare(tmp_path / "run")
    save = RunFolder.save

    def interrupted(self, step, *args, **kwargs):
        if step == 10 and len(folder.metrics()) == rows:
            monkeypatch.undo()  # once: a second signal would end the process
            os.kill(os.getpid(), signal.SIGINT)
        return save(self, step, *args, **kwargs)

    monkeypatch.setattr(RunFolder, "save", interrupted)
    with pytest.raises(TrainingInterrupted):
        fit(folder)
    assert folder.load().step == stopped  # where the signal was acted on
    fit(folder)
    assert digest(folder) == uninterrupted


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


def test_f18_a_loss_that_is_not_finite_stops_and_is_never_saved(tmp_path, monkeypatch):
    folder = prepare(tmp_path / "run")
    from tuckerkg.model import Model

    plain = Model.loss
    calls = []

    def poisoned(self, *args, **kwargs):
        calls.append(1)
        value = plain(self, *args, **kwargs)
        return value * float("nan") if len(calls) == 15 else value

    monkeypatch.setattr(Model, "loss", poisoned)
    with pytest.raises(NonFiniteError, match=r"step 14: loss nan.*newest checkpoint is step 10"):
        fit(folder)
    assert folder.steps()[-1] == 10
    assert all(torch.isfinite(tensor).all() for tensor in folder.load().weights.values())


def test_f18_a_gradient_that_is_not_finite_stops_too(tmp_path, monkeypatch):
    folder = prepare(tmp_path / "run")
    monkeypatch.setattr(torch.nn.utils, "get_total_norm", lambda *_: torch.tensor(float("inf")))
    with pytest.raises(NonFiniteError, match="gradient norm inf"):
        fit(folder)


def test_early_stopping_counts_looks_without_gain(tmp_path, monkeypatch):
    from tuckerkg import validation

    folder = prepare(tmp_path / "run", **{"train.patience": 2, "train.epochs": 50.0})
    ranks = iter([3, 2, 2, 5, 1])
    plain = validation.rank

    def planned(*args, **kwargs):
        found = plain(*args, **kwargs)
        place = np.full_like(found.best, next(ranks))
        return Ranks(found.triples, place, place, found.candidates)

    monkeypatch.setattr(validation, "rank", planned)
    state = fit(folder)
    assert [row["valid"]["mr"] for row in folder.metrics()] == [3, 2, 2, 5]
    assert (state.best_mrr, state.looks_without_gain) == (0.5, 2)
    assert folder.best().step == state.best_step == folder.metrics()[1]["step"]


def test_the_best_checkpoint_on_validation_is_what_load_opens(tmp_path):
    run = api.train(toy_dataset(), out=tmp_path / "run", overrides=OVERRIDES, observer=Silent())
    best = max(run.metrics, key=lambda row: row["valid"]["mrr"])
    assert run.step == best["step"]
    assert run.evaluate("valid").mrr == pytest.approx(best["valid"]["mrr"], abs=1e-12)


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
    plain = api.train(toy_dataset(), out=tmp_path / "a", overrides=OVERRIDES, observer=Silent())
    pulled = api.train(toy_dataset(), out=tmp_path / "b", overrides=OVERRIDES | {"train.l2": 100.0}, observer=Silent())
    assert pulled.model.entities.square().mean() < 0.5 * plain.model.entities.square().mean()


def test_l2_on_the_encoders_output_pulls_that_towards_zero(tmp_path):
    overrides = OVERRIDES | {"encoder.output_norm": False}
    plain = api.train(toy_dataset(), out=tmp_path / "a", overrides=overrides, observer=Silent())
    overrides |= {"train.l2_encoded": 100.0}
    pulled = api.train(toy_dataset(), out=tmp_path / "b", overrides=overrides, observer=Silent())
    assert pulled.encoded.entities.square().mean() < 0.5 * plain.encoded.entities.square().mean()


def test_a_dataset_without_validation_is_refused(tmp_path):
    from dataclasses import replace

    from tuckerkg.errors import TuckerkgError

    empty = np.empty((0, 3), dtype=np.int64)
    with pytest.raises(TuckerkgError, match="no validation triples"):
        api.prepare(replace(toy_dataset(), valid=empty), load_settings(), tmp_path / "run")
    assert not (tmp_path / "run").exists()

"""Faults around the loop: a slow disk, want of memory, a kill in a look, a clock that jumps, another place to go on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from small_runs import TOTAL, At, Crash, crash, digest, prepare

from tuckerkg import __main__
from tuckerkg import out_of_memory as shortage
from tuckerkg.cli import app as cli
from tuckerkg.errors import RunFolderError
from tuckerkg.losses.objective import Objective
from tuckerkg.out_of_memory import OutOfMemory, explain_out_of_memory
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training import loop as training
from tuckerkg.training.callbacks import NullCallback
from tuckerkg.training.loop import differences, fit

TESTS = Path(__file__).parents[1]
MORE_THAN_ANY_MACHINE = 10**14  # floats: more than the addresses of a process


class Notes(NullCallback):
    """Remembers what it is told."""

    def __init__(self):
        self.notes = []

    def log(self, text):
        self.notes.append(text)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = prepare(tmp_path_factory.mktemp("whole") / "run")
    fit(folder)
    return digest(folder)


@pytest.fixture
def halfway(tmp_path):
    """A run that ended abruptly after its second look."""
    folder = prepare(tmp_path / "run")
    with pytest.raises(Crash):
        fit(folder, At(25, crash))
    return folder


def test_f06_a_slow_disk_is_told_and_harms_nothing(tmp_path, uninterrupted, monkeypatch):
    plain = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (time.sleep(0.01), plain(descriptor)))
    monkeypatch.setattr(training, "SLOW_SAVE", 0.01)
    folder, watching = prepare(tmp_path / "run"), Notes()
    fit(folder, watching)
    assert any(note.startswith("saving step 0 took 0.") and "evaluate_every" in note for note in watching.notes)
    assert digest(folder) == uninterrupted


def test_f06_a_disk_that_is_quick_is_not_told(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "SLOW_SAVE", 600.0)
    watching = Notes()
    fit(prepare(tmp_path / "run"), watching)
    assert watching.notes == []


def test_f15_another_number_of_threads_is_told(halfway):
    newest = halfway.checkpoints.newest()
    halfway.checkpoints.save(20, newest.weights, newest.optimizer, {**newest.state, "threads": 64}, best=20)
    watching = Notes()
    assert fit(halfway, watching).step == TOTAL
    assert len(watching.notes) == 1
    assert "torch has 1 threads, at step 20 it had 64" in watching.notes[0]


def test_f15_settings_that_were_edited_are_told(halfway):
    file = halfway.path / "settings.json"
    settings = json.loads(file.read_text())
    settings["train"]["lr"] = 0.005
    file.write_text(json.dumps(settings))
    watching = Notes()
    assert fit(RunFolder.open(halfway.path), watching).step == TOTAL
    assert len(watching.notes) == 1
    assert watching.notes[0].endswith("continuing with what it says now: train.lr 0.02 -> 0.005")


def test_f15_other_data_are_refused(halfway):
    file = halfway.path / "data" / "train.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunFolderError, match=r"train\.safetensors"):
        fit(RunFolder.open(halfway.path))


def test_f15_a_run_that_goes_on_unchanged_has_nothing_to_tell(halfway, uninterrupted):
    watching = Notes()
    fit(halfway, watching)
    assert watching.notes == []
    assert digest(halfway) == uninterrupted


def test_differences_between_settings():
    former = {"a": 1, "b": {"c": [1, 2], "d": 3}, "gone": True}
    assert differences(former, former) == []
    now = {"a": 2, "b": {"c": [1, 2], "new": "x"}, "gone": True}
    assert differences(former, now) == ["a 1 -> 2", "b.d 3 -> not set", "b.new not set -> x"]


def test_f16_want_of_memory_in_a_step_keeps_the_checkpoint_and_names_what_to_change(
    tmp_path, uninterrupted, monkeypatch
):
    folder, plain, calls = prepare(tmp_path / "run"), Objective.__call__, []

    def greedy(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 15:
            torch.empty(MORE_THAN_ANY_MACHINE)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Objective, "__call__", greedy)
    with pytest.raises(OutOfMemory) as caught:
        fit(folder)
    assert "372529.0 GiB more were asked for" in str(caught.value)
    assert "smaller batch.queries (now 16) or model.dim (now 8)" in str(caught.value)
    assert f"The checkpoint of step 10 is kept in {folder.path}" in str(caught.value)
    monkeypatch.undo()
    fit(folder)
    assert digest(folder) == uninterrupted


def test_f16_other_errors_pass_through():
    with pytest.raises(RuntimeError, match="shapes"), explain_out_of_memory(str):
        raise RuntimeError("shapes do not fit")


def test_f16_a_limit_of_the_process_is_named(monkeypatch):
    monkeypatch.setattr(shortage, "_limit", lambda: 3.0 * 2**30)
    monkeypatch.setattr(shortage, "_free", lambda: 2.0**20)
    expected = r"20\.0 MiB more .*, 1\.0 MiB are free .*, a limit of 3\.0 GiB .*\. Go\."
    with pytest.raises(OutOfMemory, match=expected), explain_out_of_memory(lambda: "Go."):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has ...")


def test_f16_every_verb_ends_in_a_message(monkeypatch, capsys):
    def greedy():
        torch.empty(MORE_THAN_ANY_MACHINE)

    monkeypatch.setattr(cli, "app", greedy)
    with pytest.raises(SystemExit) as left:
        __main__.main()
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("tuckerkg: out of memory: 372529.0 GiB more were asked for")


KILLED_IN_A_LOOK = """
    import os, signal, sys
    sys.path.insert(0, {tests!r})
    from pathlib import Path
    from tuckerkg.storage.run_folder import RunFolder
    from tuckerkg.training import validation
    from tuckerkg.training.loop import fit
    validation.rank = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL)
    fit(RunFolder.open(Path({run!r})))
"""


def test_f17_a_kill_in_a_look_keeps_what_was_learnt_until_then(tmp_path, uninterrupted):
    folder = prepare(tmp_path / "run")
    script = textwrap.dedent(KILLED_IN_A_LOOK).format(tests=str(TESTS), run=str(folder.path))
    found = subprocess.run([sys.executable, "-c", script], check=False, timeout=120)
    assert found.returncode == -signal.SIGKILL
    assert folder.checkpoints.newest().step == 10  # where the look began
    fit(folder)
    assert digest(folder) == uninterrupted


def test_f19_a_clock_that_jumps_changes_nothing(tmp_path, uninterrupted, monkeypatch):
    numbers, plain, day = random.Random(3), time.time, 86_400.0
    monkeypatch.setattr(time, "time", lambda: plain() + numbers.choice([-day, 0.0, day]))
    folder = prepare(tmp_path / "run")
    with pytest.raises(Crash):
        fit(folder, At(25, crash))
    for place, step in enumerate(folder.checkpoints.steps()):  # the newest has the oldest date
        os.utime(folder.path / "checkpoints" / f"step-{step:08d}", (plain() - day * place,) * 2)
    assert folder.checkpoints.newest().step == max(folder.checkpoints.steps())
    state = fit(folder)
    assert 0.0 < state.minutes < 10.0
    assert digest(folder) == uninterrupted


def test_f19_spans_are_measured_by_clocks_that_only_go_forward():
    package = Path(training.__file__).parents[1]
    assert [str(file) for file in package.rglob("*.py") if "time.time(" in file.read_text(encoding="utf-8")] == []

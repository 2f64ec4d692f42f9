"""A run on ranks: the losses of one process, resumed on any number of ranks, and what happens when one is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from graphs import toy_dataset

import tuckerkg
from tuckerkg import api
from tuckerkg.config.toml import load_settings
from tuckerkg.errors import TuckerkgError
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.loop import fit_on_ranks
from tuckerkg.ranks.saving import Saved, save_in_shards
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import Callback
from tuckerkg.training.signals import TrainingInterrupted

PROGRAM = Path(__file__).parent.parent / "rank_training.py"
CHOSEN = {
    "encoder": "none", "decoder": "tucker", "decoder.dropout": 0.2, "model.dim": 8, "model.relation_dim": 6,
    "model.bias": "free", "batch": "subgraph", "batch.triples": 30, "batch.positives": 20, "train.steps": 24,
    "train.evaluate_every": 2.0, "train.threads": 1, "ranks.shards": 8,
}  # fmt: skip


def prepared(place: Path, **changes: object) -> RunFolder:
    return api.prepare(toy_dataset(), load_settings(None, {**CHOSEN, **changes}), place)


def start(
    size: int, folder: Path, losses: Path, *words: str, restarts: int = 0, **environment: str
) -> subprocess.Popen:
    """``torchrun`` with a program that trains ``folder`` and writes every step's loss."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    command += [f"--max-restarts={restarts}", str(PROGRAM), str(folder), str(losses), *words]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables)


def finished(process: subprocess.Popen, seconds: float = 120.0) -> str:
    output, _ = process.communicate(timeout=seconds)
    return output


def losses_of(file: Path) -> dict[int, float]:
    """The last loss that was written for each step."""
    return {int(step): float(loss) for step, loss in (line.split() for line in file.read_text().splitlines())}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Losses of one process, and its run."""
    place = tmp_path_factory.mktemp("alone")
    heard = Heard()
    fit_on_ranks(prepared(place / "run"), heard)
    return heard.losses, place / "run"


class Heard(Callback):
    def __init__(self) -> None:
        self.losses: dict[int, float] = {}

    def stepped(self, step: int, loss: float, lr: float) -> None:
        self.losses[step] = loss


@pytest.mark.parametrize("size", [2, 4])
def test_a_run_has_the_losses_ranks_and_weights_of_one_process(alone, size, tmp_path):
    folder = prepared(tmp_path / "run")
    process = start(size, folder.path, tmp_path / "losses")
    output = finished(process)
    assert process.returncode == 0, output
    assert losses_of(tmp_path / "losses") == alone[0]
    rows, expected = (
        [json.loads(line)["valid"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (folder.path, alone[1])
    )
    assert rows == expected
    ours, theirs = tuckerkg.load(folder.path), tuckerkg.load(alone[1])
    assert ours.model.state_dict().keys() == theirs.model.state_dict().keys()
    for name, tensor in ours.model.state_dict().items():
        assert tensor.equal(theirs.model.state_dict()[name]), name
    assert ours.evaluate("test").mrr == theirs.evaluate("test").mrr


@pytest.mark.faults
@pytest.mark.parametrize("size", [1, 3])
def test_f12_a_killed_rank_ends_all_and_any_number_of_ranks_resumes(alone, size, tmp_path):
    folder = prepared(tmp_path / "run")
    process = start(2, folder.path, tmp_path / "losses", "--kill", "1", "--at", "17")
    clock = time.monotonic()
    output = finished(process, 60.0)
    assert process.returncode != 0
    assert time.monotonic() - clock < 60.0
    assert no_process_holds(folder.path), output
    assert folder.checkpoints.steps()
    process = start(size, folder.path, tmp_path / "losses")
    output = finished(process)
    assert process.returncode == 0, output
    found = losses_of(tmp_path / "losses")
    assert found.keys() == alone[0].keys()
    if size == 3:  # sums go in another order
        assert list(found.values()) == pytest.approx(list(alone[0].values()), abs=1e-6)
    else:
        assert found == alone[0]


@pytest.mark.faults
def test_torchrun_starts_again_what_was_killed(alone, tmp_path):
    folder = prepared(tmp_path / "run")
    once = tmp_path / "killed"
    process = start(2, folder.path, tmp_path / "losses", "--kill", "1", "--at", "17", "--once", str(once), restarts=2)
    output = finished(process)
    assert process.returncode == 0, output
    assert once.exists()
    assert losses_of(tmp_path / "losses") == alone[0]


@pytest.mark.faults
def test_f13_workers_end_with_their_launcher(tmp_path):
    folder = prepared(tmp_path / "run", **{"train.steps": 10**6, "train.evaluate_every": 10.0**6})
    process = start(2, folder.path, tmp_path / "losses")
    wait_for((tmp_path / "losses").exists)
    process.kill()
    process.wait(30.0)
    wait_for(lambda: no_process_holds(folder.path), 30.0)


@pytest.mark.faults
def test_f14_a_stopped_rank_is_named_within_the_timeout(tmp_path):
    folder = prepared(tmp_path / "run")
    process = start(2, folder.path, tmp_path / "losses", "--stop", "1", "--at", "17", "--timeout", "5")
    output = finished(process)
    assert process.returncode != 0
    assert "rank 0 of 2: rank 1 does not answer" in output
    assert folder.checkpoints.steps()
    wait_for(lambda: no_process_holds(folder.path), 30.0)


@pytest.mark.faults
def test_a_signal_to_one_rank_stops_and_saves_all(alone, tmp_path):
    folder = prepared(tmp_path / "run")
    process = start(2, folder.path, tmp_path / "losses", "--interrupt", "1", "--at", "17")
    output = finished(process)
    assert process.returncode != 0
    assert "stopped by SIGTERM; the state is saved" in output
    assert folder.checkpoints.steps()[-1] == 17
    fit_on_ranks(folder, heard := Heard())
    assert {**losses_of(tmp_path / "losses"), **heard.losses} == alone[0]


@pytest.mark.faults
def test_a_rank_that_cannot_write_stops_all_and_is_named(tmp_path):
    folder = prepared(tmp_path / "run")
    process = start(2, folder.path, tmp_path / "losses", "--refuse", "1", "--at", "12")
    output = finished(process)
    assert process.returncode != 0
    assert "rank 1: Cannot write" in output
    assert "No space left on device" in output
    newest = folder.checkpoints.newest()
    assert newest is None or newest.step < 24


@pytest.mark.faults
@pytest.mark.parametrize("what", ["version of tuckerkg", "settings file", "training data"])
def test_ranks_that_differ_are_refused_at_the_start(what, tmp_path):
    folder = prepared(tmp_path / "run")
    process = start(2, folder.path, tmp_path / "losses", "--other", what)
    output = finished(process)
    assert process.returncode != 0
    assert f"has another {what} than rank 0" in output
    assert "rank 1 on" in output
    assert not folder.checkpoints.steps()


def test_the_command_line_trains_on_ranks(tmp_path):
    dataset = toy_dataset()
    rows = [
        (dataset.entities[head], dataset.relations[relation], dataset.entities[tail])
        for head, relation, tail in dataset.train.tolist()
    ]
    (tmp_path / "graph.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    words = ["--encoder", "none", "--set", "train.steps=4", "--set", "model.dim=8", "--set", "model.relation_dim=8"]
    command = [sys.executable, "-m", "tuckerkg", "train", str(tmp_path / "graph.tsv"), *words, "--ranks", "2"]
    done = subprocess.run([*command, "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "best validation MRR" in done.stdout
    assert tuckerkg.load(tmp_path / "run").settings.ranks.shards == 16
    refused = subprocess.run(
        [*command[:5], "--ranks", "2", "--out", str(tmp_path / "other")], capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert "--ranks trains one run of a model that you choose" in refused.stderr


def test_a_half_written_checkpoint_is_not_there(tmp_path):
    folder = prepared(tmp_path / "run")
    before = folder.checkpoints.steps()
    saved = Saved(5, {"losses": [float("nan")]}, {}, {}, {})
    with pytest.raises((ValueError, TuckerkgError)):
        save_in_shards(Group(), folder.checkpoints, saved, 5)
    assert folder.checkpoints.steps() == before


def test_a_signal_has_the_exit_code_of_shells():
    assert TrainingInterrupted(signal.SIGTERM).exit_code == 143


def no_process_holds(folder: Path) -> bool:
    """Whether no process was started with ``folder`` among its arguments."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in words and b"rank_training" in words:
                return False
    return True


def wait_for(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)

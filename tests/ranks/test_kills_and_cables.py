"""Ranks that are killed at random steps, and ranks on two machines whose cable is cut: nothing is lost but time."""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from graphs import toy_dataset

from tuckerkg import api
from tuckerkg.config.toml import load_settings
from tuckerkg.ranks.loop import fit_on_ranks
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import Callback

pytestmark = pytest.mark.faults

PROGRAM = Path(__file__).parent.parent / "rank_training.py"
STEPS = 60
CHOSEN = {
    "encoder": "none", "decoder": "tucker", "decoder.dropout": 0.2, "model.dim": 8, "model.relation_dim": 6,
    "model.bias": "free", "batch": "subgraph", "batch.triples": 30, "batch.positives": 20, "train.steps": STEPS,
    "train.evaluate_every": 3.0, "train.threads": 1, "ranks.shards": 4,
}  # fmt: skip
SIZES = (2, 1, 2, 2, 1, 2, 2, 3, 2, 3, 2)  # of the first start, and after each of ten kills; with 3, sums change order


class Heard(Callback):
    def __init__(self) -> None:
        self.losses: dict[int, float] = {}

    def stepped(self, step: int, loss: float, lr: float) -> None:
        self.losses[step] = loss


def prepared(place: Path) -> RunFolder:
    return api.prepare(toy_dataset(), load_settings(None, CHOSEN), place)


def losses_of(file: Path) -> dict[int, float]:
    """The last loss that was written for each step."""
    return {int(step): float(loss) for step, loss in (line.split() for line in file.read_text().splitlines())}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory where there is one: what is tested is not the disk, and every save waits for that."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def alone(place):
    """Losses of one process that nothing happens to."""
    heard = Heard()
    fit_on_ranks(prepared(place / "alone"), heard)
    return heard.losses


def train(words: list[str], environment: dict[str, str]) -> None:
    import rank_training

    from tuckerkg.ranks import group

    group.LAST_WORDS = 0.5  # who is lost is not asked here
    os.environ.update(environment)
    sys.argv[1:] = words
    rank_training.main()


def started(size: int, words: list[str]) -> list[int | None]:
    """Exit codes of ``size`` ranks; forked from a process that has imported everything."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rank_training"])
    common = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        context.Process(target=train, args=(words, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
        for rank in range(size)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(300.0)
        assert rank.exitcode is not None
    return [rank.exitcode for rank in ranks]


def test_f02_f12_killed_at_ten_random_steps_and_resumed_on_1_2_and_3_ranks(alone, place, monkeypatch):
    # What ranks are forked from knows no other path.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PROGRAM.parent), str(PROGRAM.parents[1])]))
    folder, losses, draw = prepared(place / "run"), place / "losses", random.Random(7)
    words = [str(folder.path), str(losses), "--timeout", "120"]
    first_on_three = STEPS
    for size in SIZES[:-1]:
        newest = (folder.checkpoints.steps() or [0])[-1]
        first_on_three = newest if size == 3 and first_on_three == STEPS else first_on_three
        step, lost = min(newest + draw.randint(3, 11), STEPS - 1), draw.randrange(size)
        codes = started(size, [*words, "--kill", str(lost), "--at", str(step)])
        assert codes[lost] == -9, (size, step, codes)
        assert all(code != 0 for code in codes)
        assert (folder.checkpoints.steps() or [0])[-1] < STEPS
    assert started(SIZES[-1], words) == [0] * SIZES[-1]
    found = losses_of(losses)
    assert found.keys() == alone.keys()
    assert 0 < first_on_three < STEPS
    for step, loss in alone.items():
        if step <= first_on_three:
            assert found[step] == loss, step
        else:
            assert found[step] == pytest.approx(loss, abs=1e-6), step


# --------------------------------------------------------------------------------------- two machines


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def two_machines() -> Iterator[list[str]]:
    """Two network namespaces of our own, joined by a cable; 10.213.0.1 and 10.213.0.2 are in them alone."""
    names = [f"tuckerkg-{os.getpid()}-{side}" for side in "ab"]
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
            for number, name in enumerate(names, 1):
                ip("-n", name, "address", "add", f"10.213.0.{number}/24", "dev", "cable")
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "link", "set", "cable", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"needs network namespaces: ip netns cannot be used here ({error})")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def on_both(machines: list[str], folder: Path, losses: Path, *words: str) -> list[subprocess.Popen[str]]:
    """``torchrun`` on each machine with one rank."""
    processes = []
    for number, name in enumerate(machines):
        command = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run", "--nnodes=2"]
        command += ["--nproc-per-node=1", f"--node-rank={number}", "--master-addr=10.213.0.1", "--master-port=29500"]
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "cable"}
        processes.append(
            subprocess.Popen(
                [*command, str(PROGRAM), str(folder), str(losses), *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=variables,
            )
        )
    return processes


def test_f14_a_cable_that_is_cut_ends_both_sides_and_a_resume_goes_on(alone, place):
    folder, losses = prepared(place / "run"), place / "losses"
    with two_machines() as machines:
        processes = on_both(machines, folder.path, losses, "--timeout", "20", "--slow", "0.1")
        try:
            end = time.monotonic() + 300.0
            while not losses.exists() or len(losses.read_text().splitlines()) < 20:
                assert time.monotonic() < end
                assert all(process.poll() is None for process in processes), processes[0].communicate()[0]
                time.sleep(0.05)
            ip("-n", machines[1], "link", "set", "cable", "down")
            said = [process.communicate(timeout=300.0)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        assert all(process.returncode != 0 for process in processes)
        messages = [[line for line in text.splitlines() if line.startswith("tuckerkg: ")] for text in said]
        assert [len(lines) for lines in messages] == [1, 1], said
        assert "rank 0 of 2: rank 1 does not answer" in messages[0][0]
        assert "rank 1 of 2: the machine of rank 0, which keeps the store of all, does not answer" in messages[1][0]
        newest = folder.checkpoints.newest()
        assert newest is not None
        assert 0 < newest.step < STEPS
        assert {losses_of(losses)[step] == alone[step] for step in losses_of(losses)} == {True}
        ip("-n", machines[1], "link", "set", "cable", "up")
        processes = on_both(machines, folder.path, losses, "--timeout", "200")
        said = [process.communicate(timeout=300.0)[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], said
    assert losses_of(losses) == alone

"""Faults in the middle of a save: killed, disk full, disk failing, at every file operation in turn.

A server process imports the package once and forks a child for each fault. The child waits until strace is
attached, so strace counts the operations of the save and nothing else.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tuckerkg.storage.checkpoints import Checkpoint
from tuckerkg.storage.run_folder import RunFolder

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
OPERATIONS = {"openat", "write", "fsync", "close", "rename", "renameat", "renameat2"}
OPERATIONS |= {"unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"}
SAVED, REFUSED, KILLED = 0, 3, -9

SERVER = """
import ctypes, json, os, sys, tempfile
from pathlib import Path
import torch
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.errors import RunFolderError

def save(run, step):
    tensor = torch.full((20, 5), float(step))
    run.checkpoints.save(step, {"table": tensor}, {"m": tensor}, {"content": step}, best=step)

def child(request):
    os.read(0, 1)  # until the tracer is attached
    try:
        run = RunFolder.open(Path(request["run"]))
        for step in request["steps"]:
            save(run, step)
    except RunFolderError as error:
        return 3 if all(part in str(error) for part in request["parts"]) else 4
    return 0

with tempfile.TemporaryDirectory() as folder:  # whatever is imported late is imported now
    warm = RunFolder.create(Path(folder) / "run", {}, entities=[], relations=[], splits={})
    for step in range(4):
        save(warm, step)
print("ready", flush=True)
while line := os.read(0, 10_000):
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)  # any process may trace this one
        code = 5
        try:
            code = child(json.loads(line))
        finally:
            os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Server:
    """Saves in child processes, each under its own strace."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment
        )
        assert self._line() == b"ready"

    def save(self, run: Path, steps: list[int], strace: list[str], parts: list[str] | None = None) -> int:
        """Exit code of a child that saves these steps; ``parts`` must be in its message when it is refused."""
        request = {"run": str(run), "steps": steps, "parts": parts or []}
        self._send(json.dumps(request).encode())
        child = self._line().decode()
        with subprocess.Popen(["strace", "-p", child, *strace], stderr=subprocess.PIPE) as tracer:
            assert tracer.stderr is not None
            attached = tracer.stderr.readline()
            self._send(b".")
            code = int(self._line())
            assert b"attached" in attached, attached
        return code

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def _line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def save(run: RunFolder, step: int) -> None:
    tensor = torch.full((20, 5), float(step))
    run.checkpoints.save(step, {"table": tensor}, {"m": tensor}, {"content": step}, best=step)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A run with the checkpoints 1 and 2, to be copied for each fault."""
    splits = {"train": np.zeros((1, 3), dtype=np.int64)}
    run = RunFolder.create(tmp_path / "base", {}, entities=["a"], relations=["r"], splits=splits)
    run.metrics.append({"step": 1})
    save(run, 1)
    save(run, 2)
    return run.path


def copy_of(base: Path) -> Path:
    copy = base.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(base, copy)
    return copy


def count_operations(server: Server, base: Path, steps: list[int]) -> Counter[str]:
    log = base.with_name("strace.log")
    assert server.save(copy_of(base), steps, ["-o", str(log)]) == SAVED
    found = Counter(re.findall(r"^(\w+)\(", log.read_text(), flags=re.MULTILINE))
    return Counter({name: count for name, count in found.items() if name in OPERATIONS})


def turns(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    for name, count in counts.items():
        yield from ((name, turn) for turn in range(1, count + 1))


def injected(server: Server, run: Path, steps: list[int], name: str, fault: str, parts: list[str] | None = None) -> int:
    return server.save(run, steps, ["-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:{fault}"], parts)


def loaded(path: Path) -> Checkpoint:
    """The newest checkpoint, every other of them complete as well, and the best one told."""
    run = RunFolder.open(path)
    notices: list[str] = []
    found = run.checkpoints.newest(on_fallback=notices.append)
    assert found is not None
    assert notices == []
    for step in run.checkpoints.steps():
        other = run.checkpoints.at(step)
        assert torch.equal(other.weights["table"], torch.full((20, 5), float(step)))
    assert found.state["content"] == found.step
    assert run.checkpoints.weights("best").step in run.checkpoints.steps()
    return found


def temporaries(path: Path) -> list[str]:
    """What is half-written in a run folder, and what does not belong to its checkpoints."""
    left = [entry.name for entry in (path / "checkpoints").iterdir() if not re.fullmatch(r"step-\d{8}", entry.name)]
    return left + [entry.name for entry in path.iterdir() if ".tmp-" in entry.name]


def test_f01_killed_at_any_operation_of_two_saves(server: Server, base: Path) -> None:
    counts = count_operations(server, base, [3, 4])
    assert counts["fsync"] >= 12
    assert counts["rename"] >= 4
    reached: Counter[int] = Counter()
    for name, turn in turns(counts):
        run = copy_of(base)
        assert injected(server, run, [3, 4], name, f"signal=KILL:when={turn}") == KILLED, (name, turn)
        reached[loaded(run).step] += 1
        save(RunFolder.open(run), 5)  # the next run goes on, and cleans up
        assert loaded(run).step == RunFolder.open(run).checkpoints.best_step() == 5
        assert temporaries(run) == [], (name, turn)
    print(f"killed at {reached.total()} operations {dict(counts)}, newest {dict(reached)}")
    assert set(reached) == {2, 3, 4}
    assert reached[2] < reached[3] + reached[4]


def test_f01_killed_while_the_only_checkpoint_is_replaced(server: Server, base: Path) -> None:
    shutil.rmtree(base / "checkpoints" / "step-00000001")
    for name, turn in turns(count_operations(server, base, [2])):
        run = copy_of(base)
        assert injected(server, run, [2], name, f"signal=KILL:when={turn}") == KILLED, (name, turn)
        assert loaded(run).step == 2
        save(RunFolder.open(run), 3)
        assert loaded(run).step == 3


@pytest.mark.parametrize(("error", "text"), [("ENOSPC", "No space left"), ("EIO", "Input/output error")])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_f04_f05_a_failing_disk_leaves_the_old_checkpoints(
    server: Server, base: Path, error: str, text: str, lasting: bool
) -> None:
    counts = count_operations(server, base, [3])
    # Lasting faults of the calls that a removal needs as well would be a disk on which nothing can be removed.
    names = ("write", "fsync") if lasting else ("openat", "write", "fsync", "rename", "close", "mkdir")
    codes: Counter[int] = Counter()
    noted = 0
    for name, turn in turns(Counter({name: counts[name] for name in names})):
        run = copy_of(base)
        fault = f"error={error}:when={turn}{'+' if lasting else ''}"
        code = injected(server, run, [3], name, fault, ["Cannot", text, "--out"])
        codes[code] += 1
        if code == SAVED:  # a fault of the tidying up, or of a call whose failure does no harm
            assert loaded(run).step == 3, (name, turn)
        else:
            assert code == REFUSED, (name, turn)
            written = loaded(run).step == 3  # refused by the note of the best step, which comes last
            noted += written
            assert RunFolder.open(run).checkpoints.steps() == ([1, 2, 3] if written else [1, 2]), (name, turn)
            assert RunFolder.open(run).checkpoints.best_step() == 2 or written, (name, turn)
            assert temporaries(run) == [], (name, turn)
        save(RunFolder.open(run), 4)  # once the disk is well, training goes on
        assert loaded(run).step == RunFolder.open(run).checkpoints.best_step() == 4
        assert temporaries(run) == []
    print(f"{error}: {codes[REFUSED]} refused, {codes[SAVED]} harmless")
    assert codes[REFUSED] >= (counts["write"] if lasting else 15)
    assert noted < codes[REFUSED] / 2
    if lasting:
        assert codes[SAVED] == 0


# ------------------------------------------------------------------------------------------ real mounts

MOUNTED = """
import sys
from pathlib import Path
import torch
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.errors import RunFolderError
place = Path(sys.argv[1]) / "run"
try:
    run = RunFolder.create(place, {}, entities=["a"], relations=["r"], splits={})
    for step in range(1, 9):
        run.checkpoints.save(step, {"table": torch.zeros(40_000 * step)}, {}, {}, best=step)
except RunFolderError as error:
    names = sorted(entry.name for entry in place.glob("checkpoints/*"))
    newest = run.checkpoints.newest().step if names else None
    print(error, names, newest, sep="|")
"""


def in_own_mounts(mount: str, place: Path) -> str:
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount")
    script = f'{mount} && exec "$1" -c "$2" "$0"'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    arguments = ["unshare", "-m", "sh", "-c", script, str(place), sys.executable, MOUNTED]
    return subprocess.run(arguments, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def test_f07_a_read_only_place_is_refused(tmp_path: Path) -> None:
    said = in_own_mounts('mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"', tmp_path)
    assert said.startswith(f"Cannot use {tmp_path / 'run'}: Read-only file system")
    assert "choose another --out" in said


def test_f04_a_full_disk_leaves_the_old_checkpoints(tmp_path: Path) -> None:
    said = in_own_mounts('mount -t tmpfs -o size=1m none "$0"', tmp_path)
    message, names, newest = said.split("|")
    assert "No space left on device" in message
    assert "Free some disk space" in message
    assert "step-00000004" in message  # 160 kB for each step: 2, 3 and 4 together are more than 1 MB
    assert names == "['step-00000002', 'step-00000003']"
    assert newest == "3"

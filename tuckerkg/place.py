"""Where a run folder may be, whether a folder is one, and who holds it. Importing this does not import torch."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from tuckerkg.errors import did_you_mean
from tuckerkg.manifest import explained, is_temporary, json_bytes, refusal, write_synced

SETTINGS, DATA, CHECKPOINTS, METRICS = "settings.json", "data", "checkpoints", "metrics.jsonl"
_LOCK, _HOLDER = ".lock", ".lock.pid"


def check_place(path: Path) -> None:
    """Refuse, before any work is done, a place where a new run folder could not be made.

    Raises:
        RunFolderError: it is not empty, is a file, is read-only or may not be written by this user.
    """
    path = Path(path)
    with explained(f"Cannot use {path}"):
        check_unused(path)
        place = path
        while not place.exists():
            place = place.parent
        if not place.is_dir():
            raise refusal(f"{place}: is a file, so no run folder can be made at {path}. Choose another --out.")
        _probe(place)


def check_unused(path: Path) -> None:
    """Refuse a folder that holds a run, or anything else but what a creation left that was killed half-way."""
    if not path.is_dir():
        return
    if is_run(path):
        raise refusal(f"{path}: already holds a run. Go on with it by --resume, or choose another --out.")
    ours = {DATA, CHECKPOINTS, _LOCK, _HOLDER}
    foreign = [entry.name for entry in path.iterdir() if entry.name not in ours and not is_temporary(entry.name)]
    foreign += [f"{CHECKPOINTS}/{entry.name}" for entry in path.glob(f"{CHECKPOINTS}/*")]
    if foreign:
        raise refusal(f"{path}: is not empty (it holds {min(foreign)}) and is not a run. Choose another --out.")


def is_run(path: Path) -> bool:
    """Whether ``path`` is a run folder: settings are what its creation writes last."""
    return (path / SETTINGS).is_file()


def why_not_a_run(path: Path) -> str:
    """What is wrong with a path that is not a run folder, and which one was perhaps meant."""
    if not path.exists():
        siblings = path.absolute().parent
        runs = [entry.name for entry in siblings.iterdir() if is_run(entry)] if siblings.is_dir() else []
        return f"{path}: there is no such folder.{did_you_mean(path.name, runs)}"
    if not path.is_dir():
        return f"{path}: is a file; a run folder was expected, as train --out makes it."
    for ancestor in path.absolute().parents[:2]:
        if is_run(ancestor):
            return f"{path}: is a part of the run folder {ancestor}; give that."
    inside = sorted(entry.name for entry in path.iterdir() if is_run(entry))
    if inside:
        return f"{path}: is not a run folder but holds some; give one of them: {', '.join(inside[:5])}."
    return f"{path}: is not a run folder, it has no {SETTINGS}. train --out makes one."


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the run folder ``path`` for this process; the system frees it when the process dies.

    Raises:
        RunFolderError: at once, when another process holds it; the message names that process.
    """
    lock = filelock.FileLock(path / _LOCK)
    with explained(f"Cannot lock {path}"):
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise refusal(
                f"{path}: is in use by {_holder(path)}. Wait for it or stop it, or choose another --out."
            ) from None
    try:
        with explained(f"Cannot lock {path}"):
            (path / _HOLDER).write_bytes(json_bytes({"pid": os.getpid(), "host": socket.gethostname()}))
        yield
    finally:
        with suppress(OSError):
            (path / _HOLDER).unlink(missing_ok=True)
        lock.release()


def _holder(path: Path) -> str:
    # The lock itself is the system's; this file only tells whom to look for, so it may be absent or stale.
    try:
        holder = json.loads((path / _HOLDER).read_bytes())
        return f"process {int(holder['pid'])} on {holder['host']}"
    except (OSError, ValueError, TypeError, KeyError):
        return "another process"


def _probe(folder: Path) -> None:
    # Trying is the only sure way: permissions, mounts, quotas and limits all have a say.
    probe = folder / f".probe.tmp-{os.getpid()}"
    try:
        probe.unlink(missing_ok=True)
        write_synced(probe, b"\n")
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)

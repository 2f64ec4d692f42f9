"""One process at a time per run folder."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from tuckerkg.storage.sealed_folder import explained, json_bytes, refusal

LOCK, HOLDER = ".lock", ".lock.pid"


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the run folder ``path`` for this process; the system frees it when the process dies.

    Raises:
        RunFolderError: at once, when another process holds it; the message names that process.
    """
    lock = filelock.FileLock(path / LOCK)
    with explained(f"Cannot lock {path}"):
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise refusal(
                f"{path}: is in use by {_holder(path)}. Wait for it or stop it, or choose another --out."
            ) from None
    try:
        with explained(f"Cannot lock {path}"):
            (path / HOLDER).write_bytes(json_bytes({"pid": os.getpid(), "host": socket.gethostname()}))
        yield
    finally:
        with suppress(OSError):
            (path / HOLDER).unlink(missing_ok=True)
        lock.release()


def _holder(path: Path) -> str:
    # The lock itself is the system's; this file only tells whom to look for, so it may be absent or stale.
    try:
        holder = json.loads((path / HOLDER).read_bytes())
        return f"process {int(holder['pid'])} on {holder['host']}"
    except (OSError, ValueError, TypeError, KeyError):
        return "another process"

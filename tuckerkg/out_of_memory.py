"""Out of memory, in words: how much was asked for, how much there is, and what to make smaller."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tuckerkg.errors import TuckerkgError

_SAID = re.compile(r"can't allocate memory|unable to allocate|out of memory|not enough memory", re.IGNORECASE)
_ASKED = re.compile(r"(?:tried|unable) to allocate ([\d.]+) ?(bytes|KiB|MiB|GiB|TiB)", re.IGNORECASE)
_UNITS = {"bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


class OutOfMemory(TuckerkgError):
    """There is not enough memory."""


@contextmanager
def explain_out_of_memory(remedy: Callable[[], str]) -> Iterator[None]:
    """Re-raise out-of-memory errors of torch and numpy as OutOfMemory, with ``remedy`` at the end of the message."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not _SAID.search(str(error)):
            raise
        raise OutOfMemory(f"out of memory: {_amounts(str(error))}. {remedy()}") from error


def _amounts(message: str) -> str:
    """What was requested and what is available, where known."""
    match = _ASKED.search(message)
    parts = [f"{_readable(float(match[1]) * _UNITS[match[2].lower()])} more were asked for"] if match else []
    if (free := _free()) is not None:
        parts.append(f"{_readable(free)} are free on this machine")
    if (limit := _limit()) is not None:
        parts.append(f"a limit of {_readable(limit)} is set (ulimit -v)")
    return ", ".join(parts) or "no more is available"


def _free() -> float | None:
    """Bytes that the system would give, where it tells."""
    with suppress(OSError):
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
        return float(found[1]) * 2**10 if found else None
    return None


def _limit() -> float | None:
    """Bytes of address space that this process may use, where that is limited."""
    with suppress(ImportError):
        import resource  # noqa: PLC0415 - not on Windows

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        return None if soft == resource.RLIM_INFINITY else float(soft)
    return None


def _readable(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**29 else f"{count / 2**20:.1f} MiB"

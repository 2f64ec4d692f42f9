"""Times and memory of contenders in one run: alternating, the median of several, beside the machine's name."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tuckerkg.paper.result_file import processor

Work = Callable[[], object]
REPEATS = 5


@dataclass
class Measured:
    """Median seconds, all of them, and the peak of memory above what was held before, in MB."""

    seconds: float
    all_seconds: list[float]
    peak_memory_mb: float


@dataclass
class Line:
    """One line of the output: our work, and what it is held against. ``ratio`` is the other's seconds over ours."""

    stage: str
    work: str
    seconds: float
    peak_memory_mb: float
    rate: str
    against: list[dict[str, Any]] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)  # seconds, adding up
    notes: str = ""
    ranks: dict[str, Any] = field(default_factory=dict)  # what each rank held and sent, beside the formula

    def hold(self, name: str, other: Measured, **more: Any) -> None:
        self.against.append(
            {
                "name": name,
                "seconds": round(other.seconds, 6),
                "ratio": round(other.seconds / self.seconds, 3),
                "peak_memory_mb": round(other.peak_memory_mb, 1),
                **more,
            }
        )

    def as_dict(self) -> dict[str, Any]:
        given = {
            "stage": self.stage,
            "work": self.work,
            "seconds": round(self.seconds, 6),
            "peak_memory_mb": round(self.peak_memory_mb, 1),
            "rate": self.rate,
            "against": self.against,
        }
        if self.parts:
            given["parts"] = {name: round(seconds, 6) for name, seconds in self.parts.items()}
        if self.ranks:
            given["ranks"] = self.ranks
        if self.notes:
            given["notes"] = self.notes
        return {**given, **machine()}


def alternate(works: Mapping[str, Work], repeats: int = REPEATS, warm: int = 1) -> dict[str, Measured]:
    """Runs each of ``works`` in turn, ``repeats`` times after ``warm`` rounds that do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    peaks: dict[str, float] = {}
    for turn in range(warm + repeats):
        for name, work in works.items():
            gc.collect()
            before = reset_peak()
            start = time.perf_counter()
            work()
            took = time.perf_counter() - start
            peaks[name] = max(peaks.get(name, 0.0), peak_mb() - before)
            if turn >= warm:
                seconds[name].append(took)
    return {name: Measured(statistics.median(found), found, peaks[name]) for name, found in seconds.items()}


def once(work: Work) -> Measured:
    """A single run, for what is too slow to repeat."""
    return alternate({"once": work}, repeats=1, warm=0)["once"]


def reset_peak() -> float:
    """Starts a new peak; gives the resident memory now, in MB, freed memory that is still held not counted."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):  # the peak is then that of the whole process: too high rather than too low
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def peak_mb(process: int | str = "self") -> float:
    """The highest resident memory since ``reset_peak``, or of another process since it began, in MB."""
    return _status("VmHWM", process)


def _status(key: str, process: int | str = "self") -> float:
    for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def machine() -> dict[str, Any]:
    return {"threads": torch.get_num_threads(), "processor": _processor(), "torch": torch.__version__}


def _processor() -> str:
    """Its name, and which of the instructions that decide here it has."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        flags = next(line for line in lines if line.startswith("flags")).split()
        found = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in flags]
        return f"{processor()} ({', '.join(found)})"
    return processor()

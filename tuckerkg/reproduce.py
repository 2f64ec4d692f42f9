"""Runs the rows of the paper's tables, each seed once: what is finished is kept, what was begun goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from tuckerkg.api import prepare, resume
from tuckerkg.checkpoint import RunFolder
from tuckerkg.config import Settings, parse_settings
from tuckerkg.datasets import load
from tuckerkg.errors import SettingsError, TuckerkgError
from tuckerkg.paper import Row, row_named
from tuckerkg.results import result_of, write_result
from tuckerkg.run import Run
from tuckerkg.training import Observer
from tuckerkg.warm import start_from

CLOSE = 0.003  # below the paper's MRR by no more than this counts as reached
NOTHING = 0.002  # a change of MRR by less than this is none


def budget(result: Mapping[str, Any]) -> str:
    """How long a run was trained, in words: ``300 steps`` or ``16 epochs``."""
    train = result["options"]["train"]
    return f"{train['steps']:,} steps" if train["steps"] else f"{train['epochs']:g} epochs"


@dataclass(frozen=True)
class Outcome:
    """A row and what its runs gave, one result per seed that is done."""

    row: Row
    results: tuple[dict[str, Any], ...]

    def mean(self, metric: str = "mrr") -> float | None:
        """Over seeds, on test."""
        return mean(result["test"][metric] for result in self.results) if self.results else None

    def beside(self, other: Outcome) -> Outcome:
        """Only the seeds that ``other`` has too, for a fair comparison; all where they share none."""
        theirs = {result["seed"] for result in other.results}
        shared = tuple(result for result in self.results if result["seed"] in theirs)
        return Outcome(self.row, shared or self.results)

    @property
    def deviation(self) -> float | None:
        """Of test MRR between seeds; None for a single one."""
        found = [result["test"]["mrr"] for result in self.results]
        return stdev(found) if len(found) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's MRR."""
        ours, printed = self.mean(), self.row.printed("mrr")
        return None if ours is None or printed is None else ours - printed

    @property
    def minutes(self) -> float | None:
        """The longest run's, as measured."""
        return max(result["minutes"] for result in self.results) if self.results else None

    @property
    def counted_minutes(self) -> float | None:
        """The same as it counts against a limit; see ``counted_minutes``."""
        return max(counted_minutes(result) for result in self.results) if self.results else None

    @property
    def peak_memory_mb(self) -> int | None:
        """The largest run's."""
        return max(result["peak_memory_mb"] for result in self.results) if self.results else None

    @property
    def by_messages(self) -> float | None:
        """How much of test MRR the messages bring: with them minus without."""
        found = [
            result["test"]["mrr"] - result["test_without_messages"]["mrr"]
            for result in self.results
            if "test_without_messages" in result
        ]
        return mean(found) if found else None

    @property
    def verdict(self) -> str:
        """Beside the paper's MRR, rounded as it prints it."""
        if not self.results:
            return "not run"
        seeds = f", {len(self.results)} of {len(self.row.seeds)} seeds" if self.is_partial else ""
        if self.difference is None:
            return "no figure in the paper" + seeds
        difference = round(self.difference, 3)
        words = "above" if difference > 0 else "reached" if difference >= -CLOSE else "below"
        return words + seeds

    @property
    def is_partial(self) -> bool:
        """Whether seeds are missing."""
        return len(self.results) < len(self.row.seeds)


def counted_minutes(result: dict[str, Any]) -> float:
    """A run's minutes on two cores: half of its CPU time where that is less than was measured beside other work."""
    return float(min(result["minutes"], result["cpu_minutes"] / 2.0))


def outcome(row: Row, results: Path) -> Outcome:
    """What is there of a row."""
    found = [read_result(results / f"{row.run_as.name}-seed{seed}.json") for seed in row.seeds]
    return Outcome(row, tuple(result for result in found if result is not None))


def read_result(path: Path) -> dict[str, Any] | None:
    """A result file, or None if it is not there."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TuckerkgError(f"{path}: not a result file: {error}; remove it to run its row again") from error
    return found


def reproduce(
    rows: Sequence[Row],
    *,
    results: Path,
    runs: Path,
    observer: Callable[[RunFolder], Observer],
    data: Path | None = None,
    told: Callable[[str], None] = lambda text: None,
    only_seeds: Sequence[int] = (),
) -> list[Outcome]:
    """Every row's missing seeds are trained (going on where a run folder is there), ranked and written.

    ``only_seeds`` leaves the others of a row for another process or day.
    """
    for wanted in rows:
        row = wanted.run_as
        for seed in wanted.seeds:
            if only_seeds and seed not in only_seeds:
                continue
            name = f"{row.name}-seed{seed}"
            settings = row.settings(seed)
            result = read_result(results / f"{name}.json")
            if result is not None:
                if not _same(result["options"], settings):
                    told(f"{name}: its settings have changed since; remove {results / name}.json to run it again")
                continue
            run = _trained(row, seed, runs, data, observer, told)
            write_result(results / f"{name}.json", result_of(run, run.evaluate("valid"), run.evaluate("test")))
    return [outcome(row, results) for row in rows]


def _trained(
    row: Row,
    seed: int,
    runs: Path,
    data: Path | None,
    observer: Callable[[RunFolder], Observer],
    told: Callable[[str], None],
) -> Run:
    """The run of a row, trained to its end; the run that it starts from is trained first where it is not there."""
    place = runs / f"{row.name}-seed{seed}"
    folder = _folder(row, seed, place, data)
    if row.start and not folder.steps():
        start_from(folder, _trained(row_named(row.start), seed, runs, data, observer, told).folder)
    told(f"{place.name}: {'goes on' if folder.steps() else 'starts'} in {folder.path}")
    return resume(folder, observer(folder))


def _folder(row: Row, seed: int, place: Path, data: Path | None) -> RunFolder:
    settings = row.settings(seed)
    if not place.exists():
        return prepare(load(settings.dataset, data=data), settings, place)
    folder = RunFolder.open(place)
    if not _same(folder.settings, settings):
        raise TuckerkgError(
            f"{place}: was begun with other settings than {row.name} has now; remove it, or give another --runs"
        )
    return folder


def _same(options: dict[str, Any], settings: Settings) -> bool:
    """Whether ``options`` mean ``settings``; an option that did not exist when they were written has its default."""
    try:
        return parse_settings(options) == settings
    except SettingsError:
        return False

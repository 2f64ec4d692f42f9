"""Run the rows of the paper's tables, each seed once: finished runs are kept, unfinished ones continued."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from tuckerkg.api import train_experiment
from tuckerkg.config.settings import Settings, parse_settings
from tuckerkg.errors import SettingsError, TuckerkgError
from tuckerkg.paper.result_file import result_of, result_path, write_result
from tuckerkg.paper.rows import Row
from tuckerkg.training.callbacks import Callback
from tuckerkg.types import JsonObject, LogFunction, ignore

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
    results: tuple[JsonObject, ...]

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
    def kept_decoder(self) -> int:
        """In how many seeds validation kept weights from before the first message."""
        return sum(map(is_decoders_own, self.results))

    @property
    def verdict(self) -> str:
        """Beside the paper's MRR, rounded as it prints it; none for weights that no message has touched."""
        if not self.results:
            return "not run"
        if self.by_messages is not None and 2 * self.kept_decoder > len(self.results):
            return "decoder alone"
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


def is_decoders_own(result: Mapping[str, Any]) -> bool:
    """Whether the weights that validation kept are a warm start's, or from an epoch before the messages began."""
    begins = 0.0
    for phase in result["options"].get("phase", ()):
        if phase.get("messages") != 0.0:
            break
        begins += phase.get("epochs") or 0.0
    started = bool(result.get("started_from")) or begins > 0.0
    return started and bool(result["best_epoch"] <= begins)


def counted_minutes(result: JsonObject) -> float:
    """A run's minutes on two cores: half of its CPU time where that is less than was measured beside other work."""
    return float(min(result["minutes"], result["cpu_minutes"] / 2.0))


def outcome(row: Row, results: Path) -> Outcome:
    """What is there of a row."""
    found = [read_result(result_path(results, row.run_as.name, seed)) for seed in row.seeds]
    return Outcome(row, tuple(result for result in found if result is not None))


def read_result(path: Path) -> JsonObject | None:
    """A result file, or None if it is not there."""
    try:
        found: JsonObject = json.loads(path.read_text(encoding="utf-8"))
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
    callback: Callable[[], Callback],
    data: Path | None = None,
    log: LogFunction = ignore,
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
            path = result_path(results, row.name, seed)
            result = read_result(path)
            if result is not None:
                if not _same(result["options"], settings):
                    log(f"{name}: its settings have changed since; remove {path} to run it again")
                continue
            run = train_experiment(settings, runs / name, data, callback(), log)
            write_result(path, result_of(run, run.evaluate("valid"), run.evaluate("test")))
    return [outcome(row, results) for row in rows]


def _same(options: JsonObject, settings: Settings) -> bool:
    """Whether ``options`` mean ``settings``; an option that did not exist when they were written has its default."""
    try:
        return parse_settings(options) == settings
    except SettingsError:
        return False

"""Runs of classes side by side on the same held-out labels, and whether a difference may be chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from torch import Tensor

from tuckerkg.errors import TuckerkgError
from tuckerkg.tasks.run import ClassRun
from tuckerkg.tasks.task import TEST


@dataclass(frozen=True)
class ClassGroup:
    """Runs that differ by their seed alone, and how they compare with the first group.

    Attributes:
        deviation: of the accuracy between seeds; None for a single run.
        difference, p: against the first group, and how probable so large a one is by chance (McNemar's exact test on
            the first runs of both); None for the first one.
    """

    name: str
    runs: tuple[str, ...]
    accuracy: float
    deviation: float | None
    macro_f1: float
    likelihood: float
    difference: float = 0.0
    p: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "runs": list(self.runs)}


def compare_class_runs(runs: Sequence[ClassRun]) -> list[ClassGroup]:
    """Group runs by their settings and judge the held-out labels.

    Raises:
        TuckerkgError: they were not held out the same labels.
    """
    first = runs[0]
    for run in runs[1:]:
        if held_out(run) != held_out(first):
            raise TuckerkgError(
                f"{run.path} has other held-out labels than {first.path}: their figures cannot be compared; train both "
                "with the same files of labels"
            )
    groups: dict[str, list[ClassRun]] = {}
    for run in runs:
        values = run.settings.as_dict()
        values["train"] = {**values["train"], "seed": 0}
        groups.setdefault(str(values), []).append(run)
    found: list[ClassGroup] = []
    for members in groups.values():
        judged = [run.evaluate().judgement for run in members]
        accuracies = [each.accuracy for each in judged]
        others = {}
        if found:
            p = mcnemar(_right(first), _right(members[0]))
            others = {"difference": mean(accuracies) - found[0].accuracy, "p": p}
        found.append(
            ClassGroup(
                name=members[0].path.name,
                runs=tuple(str(run.path) for run in members),
                accuracy=mean(accuracies),
                deviation=stdev(accuracies) if len(accuracies) > 1 else None,
                macro_f1=mean(each.macro_f1 for each in judged),
                likelihood=mean(each.likelihood for each in judged),
                **others,
            )
        )
    return found


def held_out(run: ClassRun) -> list[tuple[str, str]]:
    """Names and classes of the labels that are held out."""
    items, label = run.task.of_part(TEST)
    pairs = zip(items.tolist(), label.tolist(), strict=True)
    return sorted((run.items.labels[item], run.task.classes[number]) for item, number in pairs)


def mcnemar(one: Tensor, other: Tensor) -> float:
    """The chance of so uneven a count of items that only one of two classifiers gets right, if both are as good."""
    only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
    count, fewer = only_one + only_other, min(only_one, only_other)
    tail: float = sum(math.comb(count, k) for k in range(fewer + 1)) / 2**count
    return min(1.0, 2.0 * tail)


def _right(run: ClassRun) -> Tensor:
    items, label = run.task.of_part(TEST)
    return run.probabilities_of(items).argmax(1) == label

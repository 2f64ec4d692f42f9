"""Runs side by side on the same questions: metrics, relations, degrees, and how sure the difference is."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from tuckerkg.errors import TuckerkgError
from tuckerkg.evaluation.metrics import Evaluation
from tuckerkg.inference.run import Run, load
from tuckerkg.storage.versions import version_numbers
from tuckerkg.types import JsonObject, LogFunction, ignore

DRAWS = 2_000  # of the bootstrap
DRAWN_AT_ONCE = 1 << 22  # numbers


@dataclass(frozen=True)
class Difference:
    """A group's MRR less the baseline's over the same triples, with a 95 % interval and a two-sided p-value."""

    mrr: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Part:
    """Some of the questions: ``mrr`` of each group there."""

    name: str
    queries: int
    mrr: tuple[float, ...]


@dataclass(frozen=True)
class Group:
    """Runs that differ by their seed alone: one line of a comparison."""

    name: str
    runs: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    parameters: int
    minutes: float  # mean

    def values(self, metric: str) -> list[float]:
        """A metric of every run, such as "mrr" or "hits@10"."""
        return [evaluation.overall.as_dict()[metric] for evaluation in self.evaluations]

    def mean(self, metric: str) -> float:
        """Mean of a metric over seeds."""
        return mean(self.values(metric))

    def deviation(self, metric: str) -> float | None:
        """Standard deviation of a metric between seeds; None for a single run."""
        return stdev(self.values(metric)) if len(self.evaluations) > 1 else None


@dataclass(frozen=True)
class RunComparison:
    """Groups of runs in the order they were named; the first is the baseline."""

    groups: tuple[Group, ...]
    differences: tuple[Difference, ...]  # one per group but the first
    relations: tuple[Part, ...]  # most questions first
    degrees: tuple[Part, ...]  # by the training edges of the answer

    @property
    def names(self) -> tuple[str, ...]:
        """The groups' names."""
        return tuple(group.name for group in self.groups)

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Of all runs, group by group."""
        return tuple(evaluation for group in self.groups for evaluation in group.evaluations)

    @property
    def metrics(self) -> list[str]:
        """The metrics that are compared: mrr, hits@k, mr."""
        return ["mrr", *(f"hits@{k}" for k in self.evaluations[0].hits), "mr"]

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return {
            "protocol": self.evaluations[0].protocol,
            "groups": [
                {
                    "name": group.name,
                    "parameters": group.parameters,
                    "minutes": group.minutes,
                    "mean": {metric: group.mean(metric) for metric in self.metrics},
                    "deviation": {metric: group.deviation(metric) for metric in self.metrics},
                    "runs": [
                        {"name": name, **evaluation.overall.as_dict()}
                        for name, evaluation in zip(group.runs, group.evaluations, strict=True)
                    ],
                }
                for group in self.groups
            ],
            "differences": {
                name: vars(difference) for name, difference in zip(self.names[1:], self.differences, strict=True)
            },
            "relations": [vars(part) for part in self.relations],
            "degrees": [vars(part) for part in self.degrees],
        }

    def to_csv(self) -> str:
        """A line per group: runs, mean and deviation of each metric, parameters, minutes."""
        written = io.StringIO()
        rows = csv.writer(written, lineterminator="\n")
        columns = [column for metric in self.metrics for column in (metric, f"{metric} deviation")]
        rows.writerow(["name", "runs", *columns, "parameters", "minutes"])
        for group in self.groups:
            values = [value for metric in self.metrics for value in (group.mean(metric), group.deviation(metric))]
            cells = ("" if value is None else f"{value:.6g}" for value in values)
            rows.writerow([group.name, len(group.runs), *cells, group.parameters, group.minutes])
        return written.getvalue()

    def to_latex(self) -> str:
        """A booktabs tabular, the best mean of each metric in bold."""
        lines = [
            f"\\begin{{tabular}}{{l{'r' * len(self.metrics)}}}",
            "\\toprule",
            " & ".join(["", *(_latex(metric) for metric in self.metrics)]) + " \\\\",
            "\\midrule",
        ]
        for group in self.groups:
            cells = [_latex(group.name)]
            for metric in self.metrics:
                best = (min if metric == "mr" else max)(each.mean(metric) for each in self.groups)
                cells.append(_latex_cell(group, metric, group.mean(metric) == best))
            lines.append(" & ".join(cells) + " \\\\")
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        header = "".join(f"<th>{escape(name)}</th>" for name in ("", *self.metrics))
        rows = ""
        for group in self.groups:
            cells = "".join(f"<td>{shown(group, metric)}</td>" for metric in self.metrics)
            rows += f"<tr><td>{escape(group.name)}</td>{cells}</tr>"
        return f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"


def shown(group: Group, metric: str) -> str:
    """``0.3592 ± 0.0004``, or the mean alone for a single run."""
    form = ",.1f" if metric == "mr" else ".4f"
    deviation = group.deviation(metric)
    return format(group.mean(metric), form) + ("" if deviation is None else f" ± {format(deviation, form)}")


def compare(runs: Sequence[Run | str | Path], split: str = "test", log: LogFunction = ignore) -> RunComparison:
    """Evaluate ``runs``, or run folders, on ``split`` and compare them; runs that differ by seed alone are grouped.

    Raises:
        TuckerkgError: they were not asked the same questions in the same way, or there are fewer than two.
    """
    opened = [run if isinstance(run, Run) else load(run) for run in runs]
    if len(opened) < 2:
        raise TuckerkgError("a comparison needs two run folders at least")
    evaluations = []
    for run in opened:
        log(f"{run.path}: ranking the {split} split")
        evaluations.append(run.evaluate(split))
        _refuse_other_protocol(opened[0], evaluations[0], run, evaluations[-1])
    reciprocal = np.stack([1.0 / _in_one_order(evaluation) for evaluation in evaluations])  # [runs, 2n]
    triples = evaluations[0].ranks.triples
    triples = triples[_order(triples)]
    members = _by_seed(opened)
    grouped = np.stack([reciprocal[places].mean(0) for places in members])  # [groups, 2n]
    return RunComparison(
        groups=tuple(_groups(opened, evaluations, members)),
        differences=tuple(difference(grouped[0], other) for other in grouped[1:]),
        relations=_by_relation(opened[0], triples, grouped),
        degrees=_by_degree(opened[0], triples, grouped),
    )


def _by_seed(runs: Sequence[Run]) -> list[list[int]]:
    """Places of runs that have the same settings but for seed and name, in the order of the first ones."""
    groups: dict[str, list[int]] = {}
    seeds: dict[str, set[int]] = {}
    for place, run in enumerate(runs):
        settings = run.settings.as_dict()
        seed, _ = settings["train"].pop("seed"), settings.pop("experiment")
        settings["start"]["run"] = re.sub(r"-?seed\d+", "", settings["start"]["run"])
        key = json.dumps(settings, sort_keys=True)
        while seed in seeds.setdefault(key, set()):  # the same run twice is compared with itself
            key += "+"
        seeds[key].add(seed)
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _groups(runs: Sequence[Run], evaluations: Sequence[Evaluation], members: Sequence[list[int]]) -> Iterator[Group]:
    names = _short_names(runs)
    for places in members:
        counts = runs[places[0]].counts()
        yield Group(
            name=names[places[0]] if len(places) == 1 else re.sub(r"[-_/]?seed\d+", "", names[places[0]]) or "runs",
            runs=tuple(names[place] for place in places),
            evaluations=tuple(evaluations[place] for place in places),
            parameters=counts.efp + counts.nfp,
            minutes=round(mean(float(runs[place].state["minutes"]) for place in places), 2),
        )


def _latex(text: str) -> str:
    return re.sub(r"([&%$#_{}])", r"\\\1", text)


def _latex_cell(group: Group, metric: str, best: bool) -> str:
    form, deviation = ".1f" if metric == "mr" else ".3f", group.deviation(metric)
    value = format(group.mean(metric), form)
    value = f"\\textbf{{{value}}}" if best else value
    return value if deviation is None else f"{value} $\\pm$ {format(deviation, form)}"


def difference(first: np.ndarray, other: np.ndarray, draws: int = DRAWS, seed: int = 0) -> Difference:
    """A paired bootstrap over triples: ``first`` and ``other [2n]`` are reciprocal ranks, tail questions, then heads.

    Both questions of a triple are drawn together, and the same triples for both runs.
    """
    gaps = (other - first).reshape(2, -1).mean(0)  # [n]
    random, means = np.random.default_rng(seed), np.empty(draws)
    at_once = max(1, DRAWN_AT_ONCE // max(1, len(gaps)))
    for start in range(0, draws, at_once):
        count = min(at_once, draws - start)
        means[start : start + count] = gaps[random.integers(0, len(gaps), (count, len(gaps)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    beyond = min((means <= 0).sum(), (means >= 0).sum())
    return Difference(float(gaps.mean()), float(low), float(high), min(1.0, 2.0 * (1 + int(beyond)) / (1 + draws)))


def parts_of(run: Run, evaluation: Evaluation) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """MRR of one run by relation, and by the number of training triples of the answer."""
    triples = evaluation.ranks.triples[_order(evaluation.ranks.triples)]
    reciprocal = 1.0 / _in_one_order(evaluation)[None]
    return _by_relation(run, triples, reciprocal), _by_degree(run, triples, reciprocal)


def _refuse_other_protocol(first: Run, one: Evaluation, run: Run, other: Evaluation) -> None:
    same_names = first.entities.labels == run.entities.labels and first.relations.labels == run.relations.labels
    if one.protocol == other.protocol and one.hits.keys() == other.hits.keys() and same_names:
        return
    differ = sorted(
        key for key in one.protocol if one.protocol[key] != other.protocol.get(key) and key != "fingerprint"
    )
    said = "; ".join(f"{key}: {_brief(one.protocol[key])} and {_brief(other.protocol.get(key))}" for key in differ)
    raise TuckerkgError(
        f"{first.path} and {run.path} were not evaluated under one protocol ({said or 'other names or other Hits@k'}), "
        "so their figures cannot be compared. Train both on the same splits, with the same [evaluate] settings"
    )


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {str(inner)[:8]}" for key, inner in value.items())
    return str(value)


def _order(triples: np.ndarray) -> np.ndarray:
    """By ids: runs of one protocol hold the same triples, but a file may list them otherwise."""
    return np.lexsort(triples.T[::-1])


def _in_one_order(evaluation: Evaluation) -> np.ndarray:
    """Random-tie ranks ``[2n]`` of all tail questions, then of all head questions, each in the order of ids."""
    drawn = evaluation.ranks.random(evaluation.protocol["tie_seed"]).reshape(2, -1)
    return np.asarray(drawn[:, _order(evaluation.ranks.triples)].reshape(-1))


def _short_names(runs: Sequence[Run]) -> list[str]:
    """Folder names, or whole paths where these are not enough to tell runs apart; with the version of several."""
    versions = [f"@{run.version}" if len(version_numbers(run.path)) > 1 else "" for run in runs]
    names = [f"{run.path.resolve().name}{version}" for run, version in zip(runs, versions, strict=True)]
    whole = [f"{run.path}{version}" for run, version in zip(runs, versions, strict=True)]
    return names if len(set(names)) == len(names) else whole


def _by_relation(run: Run, triples: np.ndarray, reciprocal: np.ndarray) -> tuple[Part, ...]:
    relation_ids = np.tile(triples[:, 1], 2)
    ids, counts = np.unique(relation_ids, return_counts=True)
    return tuple(
        _part(run.relations.shown(int(ids[place])), reciprocal[:, relation_ids == ids[place]])
        for place in np.argsort(-counts, kind="stable")
    )


def _by_degree(run: Run, triples: np.ndarray, reciprocal: np.ndarray) -> tuple[Part, ...]:
    """Bins of the number of training triples that the answer occurs in: 0, 1, 2-3, 4-7, ..."""
    train = run.split("train")
    degrees = np.bincount(train[:, [0, 2]].reshape(-1), minlength=len(run.entities))
    degree = degrees[np.concatenate([triples[:, 2], triples[:, 0]])]
    bins = np.where(degree > 0, np.floor(np.log2(np.maximum(degree, 1))).astype(int) + 1, 0)
    return tuple(_part(_bin_name(int(found)), reciprocal[:, bins == found]) for found in np.unique(bins))


def _bin_name(number: int) -> str:
    low, high = (0, 0) if number == 0 else (2 ** (number - 1), 2**number - 1)
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _part(name: str, reciprocal: np.ndarray) -> Part:
    return Part(name, reciprocal.shape[1], tuple(float(value) for value in reciprocal.mean(1)))

"""Runs side by side on the same questions: metrics, relations, degrees, and how sure the difference is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuckerkg.errors import TuckerkgError
from tuckerkg.evaluate import Evaluation
from tuckerkg.run import Run

DRAWS = 2_000  # of the bootstrap
DRAWN_AT_ONCE = 1 << 22  # numbers


@dataclass(frozen=True)
class Difference:
    """A run's MRR less the first run's over the same triples, with a 95 % interval and a two-sided p-value."""

    mrr: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Part:
    """Some of the questions: ``mrr`` of each run there."""

    name: str
    queries: int
    mrr: tuple[float, ...]


@dataclass(frozen=True)
class Comparison:
    """Runs in the order they were named; the first is what the others are held against."""

    names: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    parameters: tuple[int, ...]
    minutes: tuple[float, ...]
    differences: tuple[Difference, ...]  # one per run but the first
    relations: tuple[Part, ...]  # most questions first
    degrees: tuple[Part, ...]  # by the training edges of the answer

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        runs = zip(self.names, self.evaluations, self.parameters, self.minutes, strict=True)
        return {
            "protocol": self.evaluations[0].protocol,
            "runs": [
                {"name": name, "parameters": parameters, "minutes": minutes, **evaluation.overall.as_dict()}
                for name, evaluation, parameters, minutes in runs
            ],
            "differences": {
                name: vars(difference) for name, difference in zip(self.names[1:], self.differences, strict=True)
            },
            "relations": [vars(part) for part in self.relations],
            "degrees": [vars(part) for part in self.degrees],
        }


def compare(runs: Sequence[Run], split: str = "test", told: Callable[[str], None] = lambda text: None) -> Comparison:
    """Evaluates ``runs`` on ``split`` and compares them; ``told`` hears which run is at work.

    Raises TuckerkgError where they were not asked the same questions in the same way.
    """
    if len(runs) < 2:
        raise TuckerkgError("a comparison needs two run folders at least")
    evaluations = []
    for run in runs:
        told(f"{run.path}: ranking the {split} split")
        evaluations.append(run.evaluate(split))
        _refuse_other_protocol(runs[0], evaluations[0], run, evaluations[-1])
    reciprocal = np.stack([1.0 / _in_one_order(evaluation) for evaluation in evaluations])  # [runs, 2n]
    triples = evaluations[0].ranks.triples
    triples = triples[_order(triples)]
    counts = [run.model.counts() for run in runs]
    return Comparison(
        names=tuple(_short_names(runs)),
        evaluations=tuple(evaluations),
        parameters=tuple(count.efp + count.nfp for count in counts),
        minutes=tuple(round(float(run.state["minutes"]), 2) for run in runs),
        differences=tuple(difference(reciprocal[0], other) for other in reciprocal[1:]),
        relations=_by_relation(runs[0], triples, reciprocal),
        degrees=_by_degree(runs[0], triples, reciprocal),
    )


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
    """Folder names, or whole paths where these are not enough to tell runs apart."""
    names = [run.path.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]


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

"""A look at a graph before training: its relations, what leaks between splits, and what guessing would score."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from tuckerkg.batches import TrainingGraph
from tuckerkg.config import Settings, build_batches, build_loss, build_model, build_regulariser
from tuckerkg.evaluate import Scorer, known_answers, rank, summarise
from tuckerkg.optimisers import Optimiser
from tuckerkg.read_report import is_among, near_inverses, triple_keys
from tuckerkg.triples import Dataset, add_inverses

TIMED_STEPS = 3
MUCH = 0.8  # share from which on a relation is called symmetric, cartesian, or the same as another


@dataclass(frozen=True)
class RelationFacts:
    """One relation of the training graph."""

    name: str
    triples: int
    heads: int
    tails: int
    symmetric: float  # share of its edges that also run the other way
    cartesian: float  # share of heads x tails that are linked
    kind: str  # 1-1, 1-N, N-1 or N-N: tails per head, heads per tail, more than 1.5 counting as N


@dataclass(frozen=True)
class Pair:
    """Two relations of which the first's edges are mostly those of the second, turned around or as they are."""

    first: str
    second: str
    share: float


@dataclass(frozen=True)
class Examination:
    """What a person should know before training."""

    name: str
    counts: dict[str, int]
    relations: tuple[RelationFacts, ...]  # most triples first
    inverse: tuple[Pair, ...]
    duplicate: tuple[Pair, ...]
    degrees: dict[str, float]  # quantiles over entities of their number of training triples, by share
    leaks: dict[str, float]  # share of test triples that training gives away
    baseline_mrr: float | None  # of the relation's most frequent answers, on test
    seconds_per_epoch: float | None  # of training with the settings that were asked for
    minutes: float | None
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def examine(dataset: Dataset, settings: Settings | None = None) -> Examination:
    """Looks at ``dataset``; with ``settings`` it also times a few steps and says how long training will take here."""
    train, num_entities = dataset.train, len(dataset.entities)
    degree = np.bincount(train[:, [0, 2]].reshape(-1), minlength=num_entities)
    relations = tuple(sorted(_relations(dataset), key=lambda found: -found.triples))
    inverse, duplicate = (tuple(_pair(dataset, *found) for found in pairs) for pairs in same_relations(dataset))
    seconds = None if settings is None else _seconds_per_epoch(dataset, settings)
    return Examination(
        name=dataset.name,
        counts=dict(dataset.report.counts),
        relations=relations,
        inverse=inverse,
        duplicate=duplicate,
        degrees={str(share): float(np.quantile(degree, share)) for share in (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)},
        leaks=_leaks(dataset),
        baseline_mrr=_baseline(dataset),
        seconds_per_epoch=seconds,
        minutes=None if seconds is None or settings is None else seconds * settings.train.epochs / 60.0,
        warnings=(*dataset.report.warnings, *_advice(relations)),
    )


def _relations(dataset: Dataset) -> list[RelationFacts]:
    train, num_entities, num_relations = dataset.train, len(dataset.entities), len(dataset.relations)
    keys = np.sort(triple_keys(train, num_entities, num_relations))
    mirrored = is_among(triple_keys(train[:, ::-1], num_entities, num_relations), keys)
    order = np.argsort(train[:, 1], kind="stable")
    bounds = np.searchsorted(train[order, 1], np.arange(1, num_relations))
    found = []
    for relation, mine in enumerate(np.split(order, bounds)):
        count = len(mine)
        heads, tails = (len(np.unique(train[mine, column])) for column in (0, 2))
        no_loops = mine[train[mine, 0] != train[mine, 2]]
        many_tails, many_heads = (count > 1.5 * max(part, 1) for part in (heads, tails))
        found.append(
            RelationFacts(
                name=dataset.relations[relation],
                triples=count,
                heads=heads,
                tails=tails,
                symmetric=float(mirrored[no_loops].mean()) if len(no_loops) else 0.0,
                cartesian=count / max(heads * tails, 1),
                kind=f"{'N' if many_heads else '1'}-{'N' if many_tails else '1'}",
            )
        )
    return found


def _duplicates(train: np.ndarray, num_entities: int) -> list[tuple[int, int, float]]:
    """Pairs of different relations of which most edges of the first are edges of the second."""
    sizes = np.bincount(train[:, 1])
    pairs = train[:, 0] * num_entities + train[:, 2]
    _, place, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    train = train[counts[place] > 1]  # few, in most graphs
    pairs = train[:, 0] * num_entities + train[:, 2]
    order = np.argsort(pairs, kind="stable")
    shared: dict[tuple[int, int], int] = {}
    bounds = np.flatnonzero(np.diff(pairs[order])) + 1
    for group in np.split(order, bounds):
        if len(group) <= 50:  # more relations between two entities tell nothing about any two of them
            names = train[group, 1].tolist()
            for one in names:
                for other in names:
                    if one != other:
                        shared[one, other] = shared.get((one, other), 0) + 1
    found = [(r, s, both / sizes[r]) for (r, s), both in shared.items() if sizes[r] > 1 and both >= MUCH * sizes[r]]
    return sorted(found, key=lambda row: (-row[2], row[0], row[1]))


def _pair(dataset: Dataset, first: int, second: int, share: float) -> Pair:
    return Pair(dataset.relations[first], dataset.relations[second], share)


def same_relations(dataset: Dataset) -> tuple[list[tuple[int, int, float]], list[tuple[int, int, float]]]:
    """Pairs of relations that are nearly inverse, and nearly the same, with the share of the first's edges.

    Looked for in all splits together: where a split has torn a pair apart, training alone holds too little of it.
    """
    everything = np.concatenate([dataset.train, dataset.valid, dataset.test])
    return near_inverses(everything, len(dataset.entities)), _duplicates(everything, len(dataset.entities))


def given_away(dataset: Dataset, held_out: np.ndarray) -> dict[str, np.ndarray]:
    """Which of ``held_out [n, 3]`` stand in training: as they are, turned around, or under nearly the same relation."""
    train, num_entities, num_relations = dataset.train, len(dataset.entities), len(dataset.relations)
    keys = np.sort(triple_keys(train, num_entities, num_relations))
    found = {
        "the same triple": is_among(triple_keys(held_out, num_entities, num_relations), keys),
        "mirrored": is_among(triple_keys(held_out[:, ::-1], num_entities, num_relations), keys),
    }
    inverse, duplicate = same_relations(dataset)
    for name, pairs, columns in (
        ("inverse relation", inverse, [2, 1, 0]),
        ("duplicate relation", duplicate, [0, 1, 2]),
    ):
        marked = np.zeros(len(held_out), dtype=np.bool_)
        for first, second, _ in pairs:
            mine = held_out[:, 1] == first
            other = held_out[mine][:, columns].copy()
            other[:, 1] = second
            marked[mine] |= is_among(triple_keys(other, num_entities, num_relations), keys)
        found[name] = marked
    return found


def _leaks(dataset: Dataset) -> dict[str, float]:
    """Shares of test triples that training gives away, and that link a pair which training links in some way."""
    test, train = dataset.test, dataset.train
    if not len(test):
        return {}
    num_entities = len(dataset.entities)
    found = given_away(dataset, test)
    same_pair = np.sort(train[:, 0] * num_entities + train[:, 2])
    found["same pair, any relation"] = is_among(test[:, 0] * num_entities + test[:, 2], same_pair)
    return {name: float(marks.mean()) for name, marks in found.items()}


def frequency_scorer(train: np.ndarray, num_entities: int, num_relations: int) -> Scorer:
    """Scores an entity by how often training has it as the relation's answer."""
    both = add_inverses(train, num_relations)
    keys, counts = np.unique(both[:, 1] * num_entities + both[:, 2], return_counts=True)  # sorted by relation
    offsets = np.searchsorted(keys, np.arange(2 * num_relations + 1) * num_entities)
    answers, often = torch.from_numpy(keys % num_entities), torch.from_numpy(counts).float()

    def scores(heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        found = torch.zeros(len(heads), num_entities)
        for row, relation in enumerate(relation_ids.tolist()):
            part = slice(int(offsets[relation]), int(offsets[relation + 1]))
            found[row, answers[part]] = often[part]
        return found

    return scores


def _baseline(dataset: Dataset) -> float | None:
    """Test MRR of each relation's most frequent answers."""
    if not len(dataset.test):
        return None
    num_entities, num_relations = len(dataset.entities), len(dataset.relations)
    known = known_answers([dataset.train, dataset.valid, dataset.test], num_relations)
    scores = frequency_scorer(dataset.train, num_entities, num_relations)
    ranks = rank(scores, dataset.test, known, num_entities, num_relations)
    return summarise(ranks.random(0), ranks.candidates, (1,)).mrr


def _seconds_per_epoch(dataset: Dataset, settings: Settings) -> float:
    """A few steps, timed; the first one is not counted."""
    num_entities, num_relations = len(dataset.entities), len(dataset.relations)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_model(settings, num_entities, num_relations)
        optimiser, loss = Optimiser(model, settings.train.optimiser, settings.train.lr), build_loss(settings)
        encoder: Any = model.encoder
        graph = TrainingGraph(
            dataset.train,
            num_entities,
            num_relations,
            0,
            normalise=encoder.normalise,
            order=encoder.order,
            uses_graph=encoder.uses_graph,
            marks_known=loss.marks_known,
        )
        batches, regulariser = build_batches(settings, graph), build_regulariser(settings)
        times = []
        last = batches.steps_per_epoch * max(1, int(settings.train.epochs)) - 1  # later steps may cost more
        for step in (0, *np.linspace(0, last, TIMED_STEPS).astype(int).tolist()):
            began = time.perf_counter()
            optimiser.zero_grad()
            model.loss(batches.batch(step), loss, regulariser=regulariser).backward()
            optimiser.step()
            times.append(time.perf_counter() - began)
    return float(np.mean(times[1:])) * batches.steps_per_epoch


def _advice(relations: Sequence[RelationFacts]) -> list[str]:
    said = []
    symmetric = [found.name for found in relations if found.triples > 1 and found.symmetric >= MUCH]
    cartesian = [found.name for found in relations if found.heads > 2 and found.tails > 2 and found.cartesian >= MUCH]
    if symmetric:
        said.append(
            f"{len(symmetric):,} relations are symmetric, e.g. {symmetric[0]}: half of their triples are enough"
        )
    if cartesian:
        said.append(
            f"{len(cartesian):,} relations link nearly every head with every tail, e.g. {cartesian[0]}: "
            "they are easy to predict and say little"
        )
    return said

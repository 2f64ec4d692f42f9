"""Test triples that training gives away, and two remedies; a third is in ``joining.py``."""

from __future__ import annotations

import numpy as np

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.leaks.relations import duplicate_relations
from tuckerkg.data.read_report import near_inverses
from tuckerkg.data.splitting import split_triples
from tuckerkg.data.triple_sets import SPLITS, is_among, triple_keys


def drop_leaks(dataset: Dataset) -> Dataset:
    """Without the validation and test triples that training gives away; see ``given_away``."""
    parts, dropped = {"train": dataset.train}, []
    for name in SPLITS[1:]:
        triples = dataset.split(name)
        leaked = np.zeros(len(triples), dtype=np.bool_)
        for marks in given_away(dataset, triples).values():
            leaked |= marks
        parts[name] = triples[~leaked]
        dropped.append(f"{int(leaked.sum()):,} of {len(triples):,} {name} triples")
    return dataset.with_splits(parts, f"{' and '.join(dropped)} were dropped: training gives them away")


def split_by_pairs(dataset: Dataset, seed: int = 0) -> Dataset:
    """Split again, in the same proportions, with all triples between the same two entities on one side."""
    everything = np.unique(np.concatenate([dataset.split(name) for name in SPLITS]), axis=0)
    sizes = np.array([len(dataset.split(name)) for name in SPLITS], dtype=np.float64)
    shares = (sizes / sizes.sum()).tolist()
    found = split_triples(everything, len(dataset.entities), len(dataset.relations), shares, seed, whole_pairs=True)
    parts = dict(zip(SPLITS, found, strict=True))
    said = " / ".join(f"{len(part):,}" for part in found)
    return dataset.with_splits(parts, f"split again by pairs of entities: {said} triples to train, validate and test")


def same_relations(dataset: Dataset) -> tuple[list[tuple[int, int, float]], list[tuple[int, int, float]]]:
    """Pairs of relations that are nearly inverse, and nearly the same, with the share of the first's edges.

    Looked for in all splits together: where a split has torn a pair apart, training alone holds too little of it.
    """
    everything = np.concatenate([dataset.train, dataset.valid, dataset.test])
    return near_inverses(everything, len(dataset.entities)), duplicate_relations(everything, len(dataset.entities))


def given_away(dataset: Dataset, held_out: np.ndarray) -> dict[str, np.ndarray]:
    """Which of ``held_out [n, 3]`` are in training: as they are, reversed, or under nearly the same relation."""
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


def leaked_shares(dataset: Dataset) -> dict[str, float]:
    """Shares of test triples that training gives away, and that link a pair which training links in some way."""
    test, train = dataset.test, dataset.train
    if not len(test):
        return {}
    num_entities = len(dataset.entities)
    found = given_away(dataset, test)
    same_pair = np.sort(train[:, 0] * num_entities + train[:, 2])
    found["same pair, any relation"] = is_among(test[:, 0] * num_entities + test[:, 2], same_pair)
    return {name: float(marks.mean()) for name, marks in found.items()}

"""What to do about a graph whose test is too easy: drop what training gives away, split pairs whole, join inverses."""

from __future__ import annotations

import numpy as np

from tuckerkg.examine import given_away, same_relations
from tuckerkg.splitting import split_triples
from tuckerkg.triples import Dataset, Vocabulary, recounted

SPLITS = ("train", "valid", "test")


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
    return recounted(dataset, parts, f"{' and '.join(dropped)} were dropped: training gives them away")


def split_by_pairs(dataset: Dataset, seed: int = 0) -> Dataset:
    """Split anew, in the same proportions, with all triples between the same two entities on one side."""
    everything = np.unique(np.concatenate([dataset.split(name) for name in SPLITS]), axis=0)
    sizes = np.array([len(dataset.split(name)) for name in SPLITS], dtype=np.float64)
    shares = (sizes / sizes.sum()).tolist()
    found = split_triples(everything, len(dataset.entities), len(dataset.relations), shares, seed, whole_pairs=True)
    parts = dict(zip(SPLITS, found, strict=True))
    said = " / ".join(f"{len(part):,}" for part in found)
    return recounted(dataset, parts, f"split anew by pairs of entities: {said} triples to train, validate and test")


def join_inverses(dataset: Dataset) -> Dataset:
    """Each relation that is nearly another one turned around becomes that one: (h, s, t) is read as (t, r, h)."""
    size = len(dataset.relations)
    into: dict[int, int] = {}
    for first, second, _ in same_relations(dataset)[0]:
        taken = set(into) | set(into.values())
        if first not in taken and second not in taken:
            into[max(first, second)] = min(first, second)
    kept = [relation for relation in range(size) if relation not in into]
    numbers = np.full(size, -1)
    numbers[kept] = np.arange(len(kept))
    parts, seen = {}, np.empty((0, 3), dtype=np.int64)
    repeated = 0
    for name in SPLITS:
        triples = dataset.split(name).copy()
        turned = np.isin(triples[:, 1], list(into))
        triples[turned] = triples[turned][:, ::-1]
        triples[turned, 1] = [into[relation] for relation in triples[turned, 1].tolist()]
        triples[:, 1] = numbers[triples[:, 1]]
        fresh = _new(triples, seen)
        repeated += len(triples) - len(fresh)
        parts[name], seen = fresh, np.concatenate([seen, fresh])
    relations = Vocabulary(tuple(dataset.relations[relation] for relation in kept))
    names = ", ".join(f"{dataset.relations[s]} into {dataset.relations[r]}" for s, r in into.items())
    what = (
        f"{len(into):,} inverse relations were joined ({names or 'none found'}); {repeated:,} triples were repeats then"
    )
    joined = Dataset(
        name=dataset.name,
        entities=dataset.entities,
        relations=relations,
        train=parts["train"],
        valid=parts["valid"],
        test=parts["test"],
        entity_titles=dataset.entity_titles,
        relation_titles=dataset.relation_titles,
        report=dataset.report,
    )
    return recounted(joined, parts, what)


def _new(triples: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """``triples`` without repeats and without those in ``seen``, in their order."""
    both = np.concatenate([seen, triples])
    _, first = np.unique(both, axis=0, return_index=True)
    return np.asarray(triples[np.sort(first[first >= len(seen)]) - len(seen)])

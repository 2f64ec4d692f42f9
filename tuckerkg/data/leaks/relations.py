"""Statistics of a graph's relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.triple_sets import is_among, triple_keys
from tuckerkg.errors import counted

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


def relation_facts(dataset: Dataset) -> list[RelationFacts]:
    """Statistics of every relation of the training graph."""
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


def duplicate_relations(train: np.ndarray, num_entities: int) -> list[tuple[int, int, float]]:
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


def relation_warnings(relations: Sequence[RelationFacts]) -> list[str]:
    """Warnings about symmetric relations, and about those that link nearly everything."""
    warnings = []
    symmetric = [found.name for found in relations if found.triples > 1 and found.symmetric >= MUCH]
    cartesian = [found.name for found in relations if found.heads > 2 and found.tails > 2 and found.cartesian >= MUCH]
    if symmetric:
        number = counted(len(symmetric), "relation is", "relations are")
        warnings.append(
            f"{number} symmetric, e.g. {symmetric[0]}: (h, r, t) comes with (t, r, h), and one gives the other away"
        )
    if cartesian:
        number = counted(len(cartesian), "relation links", "relations link")
        warnings.append(
            f"{number} nearly every head with every tail, e.g. {cartesian[0]}: easy to predict, and says little"
        )
    return warnings

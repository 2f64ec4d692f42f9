"""Facts that a file says twice, under two relations that are inverse or the same, kept once.

It is done only where it holds in both directions, for nearly all facts of either relation, and each relation has one
partner, the best. A fact that stands under one of the two alone stays as it is, since a relation that nearly always is
the inverse of another one need not be (a publication's author, and its editor). So the graph never holds what the file
did not say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.leaks.held_out import same_relations
from tuckerkg.data.leaks.relations import MUCH
from tuckerkg.data.triple_sets import SPLITS, is_among, new_rows, triple_keys

SHOWN = 5  # pairs in a warning


@dataclass(frozen=True)
class Pair:
    """Two relations that share facts, ``kept`` the one with more of them, and how much of each is shared."""

    kept: int
    joined: int
    share_of_kept: float
    share_of_joined: float

    @property
    def share(self) -> float:
        """Of the facts of either relation at least this share is the other's too."""
        return min(self.share_of_kept, self.share_of_joined)

    def named(self, dataset: Dataset) -> str:
        """For a person."""
        return (
            f"{dataset.relations[self.joined]} with {dataset.relations[self.kept]} ({self.share_of_joined:.0%} and "
            f"{self.share_of_kept:.0%} of their facts)"
        )


def join_inverses(dataset: Dataset) -> Dataset:
    """Keep once what the file says as (h, s, t) and as (t, r, h), where s and r are inverse."""
    return _keep_once(dataset, same_relations(dataset)[0], turned=True)


def join_duplicates(dataset: Dataset) -> Dataset:
    """Keep once what the file says as (h, s, t) and as (h, r, t), where s and r are the same."""
    return _keep_once(dataset, same_relations(dataset)[1], turned=False)


def partners(pairs: list[Pair], least: float) -> list[Pair]:
    """Those that share at least ``least`` in both directions, where each is the other's best partner."""
    found: list[Pair] = []
    taken: set[int] = set()
    for pair in sorted(pairs, key=lambda pair: (-pair.share, pair.kept, pair.joined)):
        if pair.share >= least and not taken & {pair.kept, pair.joined}:
            found.append(pair)
            taken |= {pair.kept, pair.joined}
    return found


def _keep_once(dataset: Dataset, found: list[tuple[int, int, float]], turned: bool) -> Dataset:
    sizes = [len(dataset.entities), len(dataset.relations)]
    everything = np.concatenate([dataset.split(name) for name in SPLITS])
    pairs = _pairs(found, np.bincount(everything[:, 1], minlength=sizes[1]))
    chosen = partners(pairs, MUCH)
    stated = np.sort(triple_keys(everything, *sizes))
    parts, seen = {}, np.empty((0, 3), dtype=np.int64)
    for name in SPLITS:
        triples = dataset.split(name).copy()
        for pair in chosen:
            mine = np.flatnonzero(triples[:, 1] == pair.joined)
            other = triples[mine][:, ::-1] if turned else triples[mine]
            other = np.stack([other[:, 0], np.full(len(other), pair.kept), other[:, 2]], 1)
            twice = is_among(triple_keys(other, *sizes), stated)
            triples[mine[twice]] = other[twice]
        parts[name] = new_rows(triples, seen)
        seen = np.concatenate([seen, parts[name]])
    words = f"{len(everything) - len(seen):,} facts stood twice, under "
    words += f"{'inverse' if turned else 'duplicate'} relations, and are kept once: {_listed(chosen, dataset)}"
    refused = [pair for pair in pairs if pair not in chosen]
    if refused:
        words += "; left apart, since few facts of one of the two are shared, or another relation fits better: "
        words += _listed(refused, dataset)
    return _without_empty(dataset, parts, words)


def _pairs(found: list[tuple[int, int, float]], sizes: np.ndarray) -> list[Pair]:
    """Each pair of relations once; as many facts of the one are shared as of the other."""
    pairs = set()
    for first, second, share in found:
        kept, joined = sorted((first, second), key=lambda relation: (-sizes[relation], relation))
        both = round(share * sizes[first])
        pairs.add(Pair(kept, joined, float(both / sizes[kept]), float(both / sizes[joined])))
    return sorted(pairs, key=lambda pair: (-pair.share, pair.kept, pair.joined))


def _listed(pairs: list[Pair], dataset: Dataset) -> str:
    more = f" and {len(pairs) - SHOWN:,} more" if len(pairs) > SHOWN else ""
    return (", ".join(pair.named(dataset) for pair in pairs[:SHOWN]) or "none found") + more


def _without_empty(dataset: Dataset, parts: dict[str, np.ndarray], words: str) -> Dataset:
    """The dataset with other splits, without the relations that have lost all of their facts."""
    used = np.zeros(len(dataset.relations), dtype=np.bool_)
    before = np.zeros_like(used)
    for name in SPLITS:
        used[parts[name][:, 1]] = True
        before[dataset.split(name)[:, 1]] = True
    kept = np.flatnonzero(used | ~before)
    numbers = np.full(len(used), -1)
    numbers[kept] = np.arange(len(kept))
    for triples in parts.values():
        triples[:, 1] = numbers[triples[:, 1]]
    relations = Vocabulary(tuple(dataset.relations[relation] for relation in kept.tolist()))
    joined = replace(dataset, relations=relations, train=parts["train"], valid=parts["valid"], test=parts["test"])
    return joined.with_splits(parts, words)

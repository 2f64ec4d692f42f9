"""Stage "split": a share of the triples is held out by a hash, as long as training still knows what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tuckerkg.data.ingest.arrays import TripleWriter, id_type
from tuckerkg.data.ingest.hashing import GAMMA, mixed
from tuckerkg.data.ingest.triples import part_name, pieces
from tuckerkg.data.shards import Ids
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.types import ProgressFunction


def draws(triples: Ids, seed: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each triple ``[n, 3]`` that depends on its ids and the seed alone."""
    state = np.full(len(triples), np.uint64(seed))
    for column in range(3):
        state = mixed(state + GAMMA + triples[:, column].astype(np.uint64))
    return (state >> np.uint64(11)) / float(1 << 53)


def hold_out(
    source: Path,
    folder: Path,
    sizes: tuple[int, int, int],
    fractions: Sequence[float],
    seed: int,
    tick: ProgressFunction,
) -> list[int]:
    """Split training by the draw of each triple; returns the number of triples of each split.

    A triple is held out only where its head, its relation and its tail each have a triple whose draw says training.
    So every entity and relation keeps a training triple, and held-out splits come out a little smaller than asked.

    Args:
        sizes: of the graph: shards, entities, relations.
    """
    num_shards, num_entities, num_relations = sizes
    entities, relations = np.zeros(num_entities, dtype=np.bool_), np.zeros(num_relations, dtype=np.bool_)
    for shard in range(num_shards):
        for triples in pieces(source / part_name("train", shard)):
            stay = triples[_drawn(triples, fractions, seed) == 0]
            entities[stay[:, 0]] = entities[stay[:, 2]] = True
            relations[stay[:, 1]] = True
        tick(shard + 1, 2 * num_shards)
    totals = [0] * len(SPLITS)
    for shard in range(num_shards):
        chosen = []
        for triples in pieces(source / part_name("train", shard)):
            drawn = _drawn(triples, fractions, seed)
            known = entities[triples[:, 0]] & relations[triples[:, 1]] & entities[triples[:, 2]]
            chosen.append(np.where(known, drawn, 0))
        for number, split in enumerate(SPLITS):
            count = sum(int((drawn == number).sum()) for drawn in chosen)
            with TripleWriter(folder / part_name(split, shard), count, id_type(num_entities)) as writer:
                for triples, drawn in zip(pieces(source / part_name("train", shard)), chosen, strict=True):
                    writer.write(triples[drawn == number])
            totals[number] += count
        tick(num_shards + shard + 1, 2 * num_shards)
    return totals


def _drawn(triples: Ids, fractions: Sequence[float], seed: int) -> npt.NDArray[np.int8]:
    """The split that each triple's draw says: 0 training, 1 validation, 2 test."""
    found = draws(triples, seed)
    valid, test = fractions[1], fractions[1] + fractions[2]
    return np.where(found < valid, 1, np.where(found < test, 2, 0)).astype(np.int8)

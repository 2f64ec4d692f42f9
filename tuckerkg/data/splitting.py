"""One set of triples into training, validation and test, so that training knows every entity and relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tuckerkg.data.triple_sets import Triples, keyed_triples, triple_keys
from tuckerkg.errors import TuckerkgError


def split_triples(
    triples: Triples,
    num_entities: int,
    num_relations: int,
    fractions: Sequence[float],
    seed: int,
    *,
    whole_pairs: bool = False,
) -> tuple[Triples, Triples, Triples]:
    """Split at random so that every entity and every relation that occurs keeps a training triple.

    The result depends on the set of triples and the seed, not on the order of rows. Where too few triples can
    be moved, valid and test come out smaller than asked, in the same proportion. With ``whole_pairs`` all triples
    between the same two entities, in either direction, stay together.
    """
    if len(fractions) != 3 or min(fractions) < 0 or not np.isclose(sum(fractions), 1.0):
        raise TuckerkgError(f"split {tuple(fractions)} must be three shares of train, valid and test that add up to 1")
    # Keys sort as the triples do, and one integer is far cheaper to sort and to move than three.
    keys = np.sort(triple_keys(triples, num_entities, num_relations))
    shuffled = keyed_triples(keys[np.random.default_rng(seed).permutation(len(keys))], num_entities, num_relations)
    fixed = _cover(shuffled, num_entities, num_relations)
    pairs = np.empty(0, dtype=np.int64)
    if whole_pairs:
        low, high = np.minimum(shuffled[:, 0], shuffled[:, 2]), np.maximum(shuffled[:, 0], shuffled[:, 2])
        _, first, pairs = np.unique(low * num_entities + high, return_index=True, return_inverse=True)
        fixed = np.isin(pairs, pairs[fixed])
        order = np.argsort(first[pairs], kind="stable")  # pair by pair, in the shuffled order
        shuffled, fixed, pairs = shuffled[order], fixed[order], pairs[order]
    movable = np.flatnonzero(~fixed)
    num_valid, num_test = (int(len(triples) * fraction) for fraction in fractions[1:])
    if num_valid + num_test > len(movable):
        num_valid = int(len(movable) * num_valid / (num_valid + num_test))
        num_test = len(movable) - num_valid if num_test else 0
    if whole_pairs:
        num_valid = _whole(pairs[movable], num_valid)
        num_test = _whole(pairs[movable], num_valid + num_test) - num_valid
    valid, test = movable[:num_valid], movable[num_valid : num_valid + num_test]
    stay = np.ones(len(triples), dtype=np.bool_)
    stay[valid] = stay[test] = False
    # Row numbers, because numpy is slow at picking whole rows by a mask.
    return shuffled.take(np.flatnonzero(stay), axis=0), shuffled[valid], shuffled[test]


def _whole(pairs: npt.NDArray[np.int64], count: int) -> int:
    """The last place up to ``count`` at which one pair's triples end and the next one's begin."""
    while 0 < count < len(pairs) and pairs[count - 1] == pairs[count]:
        count -= 1
    return count


def _cover(triples: Triples, num_entities: int, num_relations: int) -> npt.NDArray[np.bool_]:
    """Mark, for each relation and then each entity still missing, the first triple that holds it."""
    marked = np.zeros(len(triples), dtype=np.bool_)
    first = first_rows(triples[:, 1], num_relations)
    marked[first[first < len(triples)]] = True
    for column in (0, 2):
        seen = np.zeros(num_entities, dtype=np.bool_)
        seen[triples[marked][:, [0, 2]]] = True
        first = first_rows(triples[:, column], num_entities)
        marked[first[(first < len(triples)) & ~seen]] = True
    return marked


def first_rows(ids: npt.NDArray[np.integer[Any]], count: int) -> npt.NDArray[np.int64]:
    """For each of ``count`` ids the first row that holds it; ``len(ids)`` for an id that does not occur."""
    first = np.full(count, len(ids), dtype=np.int64)
    np.minimum.at(first, ids, np.arange(len(ids)))
    return first

"""Sets of triples ``[n, 3]``: inverses, integer keys, membership. Inverse relations are added here and nowhere else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Triples = npt.NDArray[np.int64]
# A table of 2 ** this many flags, one byte each, is the largest made to look values up.
SPLITS = ("train", "valid", "test")
MAX_TABLE_BITS = 26


def add_inverses(triples: Triples, num_relations: int) -> Triples:
    """``[(h, r, t)]`` -> ``[(h, r, t); (t, r + num_relations, h)]``, so that heads are tails of inverse relations."""
    inverse = np.stack([triples[:, 2], triples[:, 1] + num_relations, triples[:, 0]], axis=1)
    return np.concatenate([triples, inverse])  # [2n, 3]


def triple_keys(triples: Triples, num_entities: int, num_relations: int) -> Triples:
    """One integer per triple, equal exactly for equal triples."""
    if num_entities**2 * num_relations >= 2**63:
        raise OverflowError(f"{num_entities:,} entities and {num_relations:,} relations exceed 2**63 possible triples")
    return (triples[:, 0] * num_relations + triples[:, 1]) * num_entities + triples[:, 2]


def keyed_triples(keys: npt.NDArray[np.int64], num_entities: int, num_relations: int) -> Triples:
    """The triples that ``triple_keys`` made the keys of."""
    triples = np.empty((len(keys), 3), dtype=np.int64)  # [n, 3]
    # A product and a difference: numpy is ten times slower at remainders than at quotients.
    rest = keys // num_entities
    triples[:, 2] = keys - rest * num_entities
    triples[:, 0] = rest // num_relations
    triples[:, 1] = rest - triples[:, 0] * num_relations
    return triples


def is_among(values: Triples, known: Triples) -> npt.NDArray[np.bool_]:
    """Whether each value occurs in ``known``, which must be sorted; ``np.isin`` hashes, which is far slower here."""
    if not len(known):
        return np.zeros(len(values), dtype=np.bool_)
    # Most values are ruled out by their last bits, which one look into a table tells.
    mask = (1 << min((len(known) * 8).bit_length(), MAX_TABLE_BITS)) - 1
    table = np.zeros(mask + 1, dtype=np.bool_)
    table[known & mask] = True
    found: npt.NDArray[np.bool_] = table[values & mask]
    asked = np.flatnonzero(found)
    positions = np.searchsorted(known, values[asked]).clip(max=len(known) - 1)
    found[asked] = known[positions] == values[asked]
    return found


def rows_among(triples: Triples, others: Triples) -> npt.NDArray[np.bool_]:
    """Which of ``triples [n, 3]`` are among ``others [m, 3]``, ``[n]``; for graphs whose counts are not at hand."""
    both = np.concatenate([triples, others])
    _, places = np.unique(both, axis=0, return_inverse=True)
    return np.isin(places.ravel()[: len(triples)], places.ravel()[len(triples) :])


def new_rows(triples: Triples, seen: Triples) -> Triples:
    """``triples [n, 3]`` without repeats and without those in ``seen``, in their order."""
    both = np.concatenate([seen, triples])
    _, first = np.unique(both, axis=0, return_index=True)
    return np.asarray(triples[np.sort(first[first >= len(seen)]) - len(seen)])

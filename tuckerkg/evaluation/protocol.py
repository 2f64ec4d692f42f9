"""What two results must share to be comparable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from tuckerkg.types import JsonObject


def describe_protocol(
    splits: dict[str, np.ndarray], *, split: str, filtered_by: Sequence[str], tie_seed: int, num_entities: int
) -> JsonObject:
    """What two results must share to be comparable, with a fingerprint over all of it."""
    described: JsonObject = {
        "split": split,
        "filtered_by": list(filtered_by),
        "split_sha256": {name: split_sha256(triples) for name, triples in splits.items()},
        "candidates": num_entities,
        "sides": ["tail", "head"],
        "ties": "random",
        "tie_seed": tie_seed,
        "unseen": "kept",
        "scores": "raw float32",
    }
    described["fingerprint"] = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
    return described


def split_sha256(triples: np.ndarray) -> str:
    """A hash of the set of triples, whatever their order."""
    ordered = triples[np.lexsort(triples.T[::-1])]
    return hashlib.sha256(np.ascontiguousarray(ordered, dtype="<i8").tobytes()).hexdigest()


def seen_entities(train: np.ndarray, num_entities: int) -> np.ndarray:
    """Which entities occur in training, ``[N]``."""
    seen = np.zeros(num_entities, dtype=bool)
    seen[train[:, 0]] = True
    seen[train[:, 2]] = True
    return seen

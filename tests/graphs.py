"""Small graphs and brute force that several tests share."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.read_report import ReadReport

Ids = tuple[int, int, int]
GRAPH = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 3), st.integers(0, 8)), min_size=1, max_size=60, unique=True
)


def data_folder() -> Path:
    """The folder with the benchmark datasets; skips the test where there is none."""
    if "TUCKERKG_DATA" not in os.environ:
        pytest.skip("TUCKERKG_DATA is not set: it names the folder with the benchmark datasets")
    return Path(os.environ["TUCKERKG_DATA"])


def random_triples(seed: int, num_entities: int, num_relations: int, count: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    high = (num_entities, num_relations, num_entities)
    return np.unique(np.stack([random.integers(0, h, count) for h in high], 1), axis=0)


def toy_dataset(num_entities: int = 20, num_relations: int = 3) -> Dataset:
    """A graph with rules that a model can learn: i -> i + r + 1 around a ring."""
    triples = np.array([(i, r, (i + r + 1) % num_entities) for i in range(num_entities) for r in range(num_relations)])
    order = np.random.default_rng(0).permutation(len(triples))
    valid, test, train = np.split(triples[order], [5, 10])
    return Dataset(
        name="ring",
        entities=Vocabulary(tuple(f"e{i:03}" for i in range(num_entities))),
        relations=Vocabulary(tuple(f"plus{r + 1}" for r in range(num_relations))),
        train=train,
        valid=valid,
        test=test,
        entity_titles={},
        relation_titles={},
        report=ReadReport(files=(), counts={}),
    )


def brute_force_ranks(scores, triples, known, num_entities, num_relations):
    """(best, worst, candidates) of tail then head questions, by looking at every entity in turn.

    ``scores(head, relation) -> list`` with relation + num_relations for the head question; ``known`` a set of triples.
    """
    rows = []
    for turned in (False, True):
        for head, relation, tail in triples.tolist():
            asked, target = (tail, head) if turned else (head, tail)
            values = scores(asked, relation + num_relations * turned)
            better = equal = candidates = 0
            for entity in range(num_entities):
                fact = (entity, relation, tail) if turned else (head, relation, entity)
                if entity != target and fact in known:
                    continue
                candidates += 1
                if entity != target:
                    better += values[entity] > values[target]
                    equal += values[entity] == values[target]
            rows.append((1 + better, 1 + better + equal, candidates))
    return np.array(rows)

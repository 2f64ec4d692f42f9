"""Another graph of the same relations, and a scorer that answers for it, for several tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from graphs import toy_dataset
from path_counts import PathCounts

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.labels import Vocabulary

DATA = toy_dataset()
N, R = len(DATA.entities), len(DATA.relations)
SPLITS = ("train", "valid", "test")
M = 27  # entities of the other graph


def other_dataset() -> Dataset:
    """Another ring of the same kind, with other entities and a title."""
    found = toy_dataset(M)
    names = Vocabulary(tuple(f"f{number:03}" for number in range(M)))
    return replace(found, name="larger ring", entities=names, entity_titles={"f005": "Five"})


OTHER = other_dataset()
KNOWN = {tuple(fact) for name in SPLITS for fact in OTHER.split(name).tolist()}


def scorer_of(kind: str):
    """A scorer fitted on the toy graph that answers for others."""
    assert kind == "path counts"
    return PathCounts.fitted(DATA.train, N, R)


def named(dataset: Dataset, triples: np.ndarray) -> list[tuple[str, str, str]]:
    return [
        (dataset.entities[head], dataset.relations[relation], dataset.entities[tail])
        for head, relation, tail in triples.tolist()
    ]


def write(folder: Path, **splits: list[tuple[str, str, str]]) -> Path:
    folder.mkdir()
    for name, facts in splits.items():
        (folder / f"{name}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    return folder

"""Literals of RDF as numbers of the nodes that have them: numbers standardized, categories, texts by hashed words.

A relation whose literals are numbers gives two columns, the value and whether there is one; one with few different
values a column for each; any other text has its words hashed into a fixed number of columns.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import torch
from torch import Tensor

MOST_CATEGORIES = 20  # different values of a relation that has a column for each
BUCKETS = 64  # columns of hashed words
MOST_NUMBERS = 0.95  # share of a relation's literals that must be numbers
LITERAL = re.compile(r'"(.*)"(?:@[A-Za-z0-9-]+|\^\^<([^>]*)>)?', re.DOTALL)
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class LiteralFeatures:
    """Numbers of every node ``[N, f]``, the names of their columns, and the facts that are left."""

    values: Tensor
    names: tuple[str, ...]
    kept: np.ndarray


def literal_features(triples: np.ndarray, entities: Sequence[str], relations: Sequence[str]) -> LiteralFeatures:
    """Take the facts ``[n, 3]`` whose tail is a literal out of the graph, and make numbers of them."""
    is_literal = np.array([label.startswith('"') for label in entities], dtype=bool)
    about = triples[is_literal[triples[:, 2]]]
    columns: list[np.ndarray] = []
    names: list[str] = []
    words = np.zeros((len(entities), BUCKETS), np.float32)
    has_words = False
    for relation in np.unique(about[:, 1]).tolist():
        rows = about[about[:, 1] == relation]
        texts = [_text(entities[tail]) for tail in rows[:, 2].tolist()]
        numbers = [_number(text) for text in texts]
        name = relations[relation]
        if np.mean([number is not None for number in numbers]) >= MOST_NUMBERS:
            columns += _number_columns(rows[:, 0], numbers, len(entities))
            names += [f"{name} (number)", f"{name} (given)"]
        elif len(set(texts)) <= MOST_CATEGORIES:
            for value in sorted(set(texts)):
                column = np.zeros(len(entities), np.float32)
                column[rows[[text == value for text in texts], 0]] = 1.0
                columns.append(column)
                names.append(f"{name} = {value}")
        else:
            has_words = True
            for head, text in zip(rows[:, 0].tolist(), texts, strict=True):
                for word in WORD.findall(text.casefold()):
                    words[head, zlib.crc32(word.encode()) % BUCKETS] += 1.0
    if has_words:
        norms = np.linalg.norm(words, axis=1, keepdims=True)
        columns += list((words / np.maximum(norms, 1.0)).T)
        names += [f"words {number}" for number in range(BUCKETS)]
    values = torch.from_numpy(np.stack(columns, 1)) if columns else torch.zeros(len(entities), 0)
    return LiteralFeatures(values, tuple(names), triples[~is_literal[triples[:, 2]]])


def _number_columns(heads: np.ndarray, numbers: Sequence[float | None], count: int) -> list[np.ndarray]:
    """The standardized mean of each node's numbers, and which nodes have any."""
    known = np.array([number is not None for number in numbers])
    found = np.array([number for number in numbers if number is not None])
    heads = heads[known]
    counts = np.bincount(heads, minlength=count)
    sums = np.bincount(heads, found, minlength=count)
    deviation = found.std() or 1.0
    value = np.where(counts > 0, (sums / np.maximum(counts, 1) - found.mean()) / deviation, 0.0)
    return [value.astype(np.float32), (counts > 0).astype(np.float32)]


def _text(label: str) -> str:
    match = LITERAL.fullmatch(label)
    return match[1] if match else label


def _number(text: str) -> float | None:
    """A number, a truth value or a day as a number; None: it is none."""
    try:
        found = float(text)
    except ValueError:
        try:
            return float(date.fromisoformat(text[:10]).toordinal()) if "-" in text else None
        except ValueError:
            return None
    return found if np.isfinite(found) else None

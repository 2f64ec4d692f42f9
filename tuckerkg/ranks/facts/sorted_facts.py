"""The facts of one shard, as questions with their answers: sorted, so that those of a question stand side by side.

Facts by head ask for tails; the same shard's facts by tail ask for heads, by the inverse relation. Nothing but the
facts is kept: where a question begins and ends is searched for, so that mapped files are read where they are asked.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tuckerkg.data.shards import Ids

PIECE = 1 << 18  # facts at a time, where all are read

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SortedFacts:
    """Facts ``[n, 3]`` sorted by the entity that is asked about, relation, answer.

    Attributes:
        asked, answer: their columns.
        added: what a relation's number grows by, R where the answer is the head.
    """

    triples: Ids
    asked: int
    answer: int
    added: int

    def __len__(self) -> int:
        return len(self.triples)

    def queries(self, rows: Places) -> tuple[Places, Places, Places, Places]:
        """Of ``rows``, those that are the first of their question: entity, relation, end of each, and the row."""
        entities, relations = self._keys(rows)
        before, relations_before = self._keys(np.maximum(rows - 1, 0))
        first = (rows == 0) | (entities != before) | (relations != relations_before)
        rows, entities, relations = rows[first], entities[first], relations[first]
        return entities, relations + self.added, self._ends(rows, entities, relations), rows

    def find(self, entities: Places, relation_ids: Places) -> tuple[Places, Places]:
        """Where the answers of questions begin and end; of one that is not known, both are the same."""
        relations = relation_ids - self.added
        return self._lower_bound(entities, relations), self._lower_bound(entities, relations + 1)

    def spans(self, entities: Places) -> tuple[Places, Places]:
        """Where the facts about entities begin and end."""
        none = np.full(len(entities), -1)
        return self._lower_bound(entities, none), self._lower_bound(entities + 1, none)

    def answers(self, begins: Places, ends: Places) -> Places:
        """The answers from each beginning to each end, behind each other."""
        return np.asarray(self.triples[spread(begins, ends - begins), self.answer], np.int64)

    def neighbours(self, rows: Places) -> tuple[Places, Places]:
        """Answer and relation of facts; the relation is that of the question."""
        found = np.asarray(self.triples[rows], np.int64)
        return found[:, self.answer], found[:, 1] + self.added

    def pieces(self) -> Iterator[tuple[Places, Places, Places]]:
        """All facts, a number at a time: entity that is asked about, relation of the question, answer."""
        for start in range(0, len(self), PIECE):
            part = np.asarray(self.triples[start : start + PIECE], np.int64)
            yield part[:, self.asked], part[:, 1] + self.added, part[:, self.answer]
        self.release()

    def starts(self) -> Iterator[tuple[Places, npt.NDArray[np.bool_]]]:
        """All facts, a number at a time: entity that is asked about, and whether a fact is the first of a question."""
        last = (-1, -1)
        for entities, relations, _ in self.pieces():
            first = np.ones(len(entities), np.bool_)
            first[1:] = (entities[1:] != entities[:-1]) | (relations[1:] != relations[:-1])
            first[0] = (int(entities[0]), int(relations[0])) != last
            last = int(entities[-1]), int(relations[-1])
            yield entities, first

    @cached_property
    def num_queries(self) -> int:
        """How many questions they answer; reads all."""
        return sum(int(first.sum()) for _, first in self.starts())

    def release(self) -> None:
        """Let go of what a mapped file has in memory; it is read again where it is asked."""
        base = getattr(self.triples, "base", None)
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)

    def _keys(self, rows: Places) -> tuple[Places, Places]:
        if not len(self):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        found = np.asarray(self.triples[rows], np.int64)
        return found[:, self.asked], found[:, 1]

    def _ends(self, rows: Places, entities: Places, relations: Places) -> Places:
        """One past the last row of the question that each row belongs to: steps that double, then halve."""
        low, width = rows.copy(), 1
        high = np.full_like(rows, len(self))
        growing = np.arange(len(rows))
        while len(growing):
            place = low[growing] + width
            inside = place < len(self)
            found, related = self._keys(np.where(inside, place, 0))
            same = inside & (found == entities[growing]) & (related == relations[growing])
            high[growing[~same]] = np.minimum(place[~same], len(self))
            growing = growing[same]
            low[growing] = place[same]
            width *= 2
        return self._search(low, high, entities, relations, or_equal=True)

    def _lower_bound(self, entities: Places, relations: Places) -> Places:
        low = np.full(len(entities), -1, np.int64)
        high = np.full(len(entities), len(self), np.int64)
        return self._search(low, high, entities, relations, or_equal=False)

    def _search(self, low: Places, high: Places, entities: Places, relations: Places, *, or_equal: bool) -> Places:
        """The first row between ``low`` (below it) and ``high`` that is not below a key; or equal to it."""
        while True:
            wide = np.flatnonzero(high - low > 1)
            if not len(wide):
                return high
            middle = (low[wide] + high[wide]) // 2
            found, related = self._keys(middle)
            relation = relations[wide]
            before = (found < entities[wide]) | (
                (found == entities[wide]) & ((related <= relation) if or_equal else (related < relation))
            )
            low[wide[before]] = middle[before]
            high[wide[~before]] = middle[~before]


@dataclass(frozen=True)
class FactShard:
    """What the owner of a shard knows: the facts whose head is in it, and those whose tail is."""

    number: int
    by_head: SortedFacts
    by_tail: SortedFacts

    @property
    def sides(self) -> tuple[SortedFacts, SortedFacts]:
        """Questions for tails, and questions for heads."""
        return self.by_head, self.by_tail

    @classmethod
    def of(cls, number: int, by_head: Ids, by_tail: Ids, num_relations: int) -> FactShard:
        """Of sorted triples ``[n, 3]``."""
        return cls(number, SortedFacts(by_head, 0, 2, 0), SortedFacts(by_tail, 2, 0, num_relations))


def spread(begins: npt.NDArray[np.integer[Any]], counts: npt.NDArray[np.integer[Any]]) -> Places:
    """``begin, begin + 1, ...`` of each span, behind each other."""
    total = int(counts.sum())
    firsts = np.cumsum(counts) - counts
    return np.asarray(np.arange(total) + np.repeat(begins - firsts, counts), np.int64)

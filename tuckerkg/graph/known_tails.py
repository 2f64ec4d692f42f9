"""(head, relation) -> known tails as keys, offsets and values: training labels and the evaluation filter alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.triple_sets import add_inverses


@dataclass(frozen=True)
class KnownTails:
    """The distinct tails of every (head, relation) query that a set of triples holds.

    ``keys [Q]`` are sorted ``head * num_relations + relation``; the tails of query q are
    ``tails[offsets[q]:offsets[q + 1]]``, sorted.
    """

    num_relations: int
    keys: Tensor
    offsets: Tensor
    tails: Tensor

    @classmethod
    def of(cls, triples: Tensor, num_relations: int) -> KnownTails:
        """Group ``triples [n, 3]`` by (head, relation); ``num_relations`` counts inverses where they are present."""
        keys, tails = _distinct_pairs(triples[:, 0] * num_relations + triples[:, 1], triples[:, 2])
        distinct, counts = torch.unique_consecutive(keys, return_counts=True)
        offsets = torch.zeros(distinct.numel() + 1, dtype=torch.long, device=triples.device)
        torch.cumsum(counts, 0, out=offsets[1:])
        return cls(num_relations, distinct, offsets, tails)

    @classmethod
    def from_splits(cls, splits: Sequence[np.ndarray], num_relations: int) -> KnownTails:
        """Group the triples of ``splits``, each ``[n, 3]``, and their inverses: the filter of evaluation."""
        triples = add_inverses(np.concatenate(list(splits)), num_relations)
        return cls.of(torch.from_numpy(triples), 2 * num_relations)

    def __len__(self) -> int:
        return self.keys.numel()

    @property
    def heads(self) -> Tensor:
        """Head ids of the queries, ``[Q]``."""
        return self.keys // self.num_relations

    @property
    def relation_ids(self) -> Tensor:
        """Relation ids of the queries, ``[Q]``."""
        return self.keys % self.num_relations

    def select(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Offsets ``[B + 1]`` and tails ``[K]`` of the queries with these indices."""
        starts = self.offsets[queries]
        counts = self.offsets[queries + 1] - starts
        return _spans(self.tails, starts, counts)

    def find(self, heads: Tensor, relation_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Offsets ``[B + 1]`` and known tails ``[K]`` of any queries; one that is not known has no tails."""
        wanted = heads * self.num_relations + relation_ids
        if len(self) == 0:
            return torch.zeros(wanted.numel() + 1, dtype=torch.long, device=wanted.device), self.tails
        queries = torch.searchsorted(self.keys, wanted).clamp(max=len(self) - 1)
        counts = (self.offsets[queries + 1] - self.offsets[queries]) * (self.keys[queries] == wanted)
        return _spans(self.tails, self.offsets[queries], counts)

    def counts(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """How many known tails each of the queries has, ``[B]``."""
        wanted = heads * self.num_relations + relation_ids
        if len(self) == 0:
            return torch.zeros_like(wanted)
        queries = torch.searchsorted(self.keys, wanted).clamp(max=len(self) - 1)
        return (self.offsets[queries + 1] - self.offsets[queries]) * (self.keys[queries] == wanted)

    def hold(self, heads: Tensor, relation_ids: Tensor, tails: Tensor) -> Tensor:
        """Which of the facts (head, relation, tail) are among them, ``[B]``."""
        offsets, known = self.find(heads, relation_ids)
        rows = rows_of(offsets)
        found = torch.zeros(len(heads), dtype=torch.bool, device=heads.device)
        found[rows[known == tails[rows]]] = True
        return found

    def to(self, device: torch.device | str) -> KnownTails:
        """The same answers on ``device``."""
        return KnownTails(self.num_relations, self.keys.to(device), self.offsets.to(device), self.tails.to(device))


def _distinct_pairs(keys: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct pairs, sorted by key, then tail: as one number each where 63 bits hold it, which sorts far faster."""
    if keys.numel() == 0:
        return keys, tails
    width = int(tails.max()) + 1
    if (int(keys.max()) + 1) * width >= 2**63:
        pairs = torch.unique(torch.stack([keys, tails], 1), dim=0)
        return pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    joined = torch.unique(keys * width + tails)
    return joined // width, joined % width


def _spans(values: Tensor, starts: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """``values[start:start + count]`` of all spans behind each other, with their offsets."""
    offsets = torch.zeros(counts.numel() + 1, dtype=torch.long, device=counts.device)
    torch.cumsum(counts, 0, out=offsets[1:])
    places = torch.arange(int(offsets[-1]), device=counts.device) + torch.repeat_interleave(
        starts - offsets[:-1], counts
    )
    return offsets, values[places]


def rows_of(offsets: Tensor) -> Tensor:
    """The row that each value belongs to: ``[0, 0, 1, 3, ...]`` for offsets ``[0, 2, 3, 3, 4, ...]``."""
    counts = offsets[1:] - offsets[:-1]
    return torch.repeat_interleave(torch.arange(counts.numel(), device=offsets.device), counts)

"""Rows grouped by relation into padded buckets, so that one batched product serves many relations.

A relation's rows all meet the same d_in x d_out matrix. Relations with a similar number of rows share a bucket:
``rows [B, L, d_in] @ matrices [B, d_in, d_out]``, each relation padded to the bucket's length L. Lengths grow by
4/3 or 3/2, so padding adds 17 % on average; a loop over relations would do less arithmetic but many small products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Bucket:
    """``relation_ids [B]`` that own ``length`` padded rows each, from padded row ``start`` on."""

    relation_ids: Tensor
    start: int
    length: int

    @property
    def stop(self) -> int:
        """One past the bucket's last padded row."""
        return self.start + self.relation_ids.numel() * self.length


@dataclass(frozen=True)
class RowGroups:
    """How P rows, each with a relation, lie in P' padded rows.

    ``position [P]`` is each row's padded place; ``source [P']`` is the row at each padded place (0 in padding, where
    nothing reads the result); ``relation_ids [P']`` is the relation there.
    """

    buckets: tuple[Bucket, ...]
    position: Tensor
    source: Tensor
    relation_ids: Tensor

    @classmethod
    def of(cls, relation_ids: Tensor) -> RowGroups:
        """Group rows by ``relation_ids [P]``, in any order."""
        device = relation_ids.device
        if relation_ids.numel() == 0:
            empty = torch.empty(0, dtype=torch.long, device=device)
            return cls((), empty, empty, empty)
        ordered, order = torch.sort(relation_ids, stable=True)
        used, counts = torch.unique_consecutive(ordered, return_counts=True)
        lengths = padded_length(counts)
        by_length = torch.argsort(lengths, stable=True)  # relations of one bucket become neighbours
        starts_by_length = torch.cumsum(lengths[by_length], 0) - lengths[by_length]
        starts = torch.empty_like(starts_by_length)
        starts[by_length] = starts_by_length
        first_row = torch.cumsum(counts, 0) - counts
        within = torch.arange(ordered.numel(), device=device) - torch.repeat_interleave(first_row, counts)
        position = torch.empty_like(order)
        position[order] = torch.repeat_interleave(starts, counts) + within
        total = int(lengths.sum())
        source = torch.zeros(total, dtype=torch.long, device=device)
        source[position] = torch.arange(ordered.numel(), device=device)
        padded_relation_ids = torch.repeat_interleave(used[by_length], lengths[by_length])
        return cls(_buckets(used[by_length], lengths[by_length]), position, source, padded_relation_ids)

    @cached_property
    def used(self) -> Tensor:
        """The relations that have rows, bucket by bucket."""
        if not self.buckets:
            return self.relation_ids
        return torch.cat([bucket.relation_ids for bucket in self.buckets])

    def to(self, device: torch.device | str) -> RowGroups:
        """The same groups on ``device``."""
        buckets = tuple(Bucket(b.relation_ids.to(device), b.start, b.length) for b in self.buckets)
        return RowGroups(buckets, self.position.to(device), self.source.to(device), self.relation_ids.to(device))


def padded_length(counts: Tensor) -> Tensor:
    """The smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24, ... that is at least each count."""
    power = torch.pow(2.0, torch.ceil(torch.log2(counts.double()))).long()
    three_quarters = power * 3 // 4
    return torch.where((counts <= three_quarters) & (power >= 4), three_quarters, power)


def _buckets(relation_ids: Tensor, lengths: Tensor) -> tuple[Bucket, ...]:
    distinct, sizes = torch.unique_consecutive(lengths, return_counts=True)
    buckets, relation, row = [], 0, 0
    for length, size in zip(distinct.tolist(), sizes.tolist(), strict=True):
        buckets.append(Bucket(relation_ids[relation : relation + size], row, length))
        relation, row = relation + size, row + size * length
    return tuple(buckets)


def grouped_product(rows: Tensor, matrices: Tensor, groups: RowGroups) -> Tensor:
    """Padded ``rows [P', d_in]`` times their relation's matrix: ``matrices [R', d_in, d_out]`` of ``groups.used``."""
    # split, not slices: its gradient is one concatenation instead of a full-size zero tensor per bucket.
    blocks = rows.split([bucket.stop - bucket.start for bucket in groups.buckets])
    parts = matrices.split([bucket.relation_ids.numel() for bucket in groups.buckets])
    products = [
        torch.bmm(block.view(len(part), -1, rows.shape[1]), part).flatten(0, 1)  # [B L, d_out]
        for block, part in zip(blocks, parts, strict=True)
    ]
    return torch.cat(products)

"""Rows that ranks exchange in the middle of a computation that all of them make, with the gradients that belong to it.

What every rank computes alike from the same numbers has the same gradient on every rank, so that nothing need be
exchanged for it. What a rank computes of its own shards alone is exchanged on the way back instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from tuckerkg.autograd import Context, apply
from tuckerkg.ranks.partition import Partition


def all_rows(rows: Sequence[Tensor], counts: Sequence[int], partition: Partition) -> Tensor:
    """Rows of the own shards ``[counts[s], d]`` to those of all shards ``[n, d]``, on every rank.

    Every rank goes on with all of them in the same way.
    """
    found: Tensor = apply(_AllRows, partition, tuple(counts), *rows)
    return found


def own_rows(rows: Tensor, bounds: Sequence[int], partition: Partition) -> list[Tensor]:
    """Of rows that every rank has, ``[n, d]``, those of the own shards, from ``bounds[s]`` on.

    Every rank goes on with its own ones alone; their gradients are exchanged.
    """
    found: tuple[Tensor, ...] = apply(_OwnRows, partition, tuple(bounds), rows)
    return list(found)


class _AllRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, partition: Partition, counts: tuple[int, ...], *rows: Tensor) -> Tensor:
        ctx.partition, ctx.counts = partition, counts
        return torch.cat(partition.rows_by_shard(rows, counts))

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        parts = gradients[0].split(list(ctx.counts))
        return None, None, *(parts[shard] for shard in ctx.partition.own)


class _OwnRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, partition: Partition, bounds: tuple[int, ...], rows: Tensor) -> tuple[Tensor, ...]:
        ctx.partition, ctx.bounds = partition, bounds
        return tuple(rows[bounds[shard] : bounds[shard + 1]].clone() for shard in partition.own)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        counts = [after - before for before, after in pairwise(ctx.bounds)]
        return None, None, torch.cat(ctx.partition.rows_by_shard(gradients, counts))

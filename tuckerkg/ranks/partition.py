"""Virtual shards: which entities belong together, and which rank holds them.

Shards belong to the data, ranks to a day's machines: rank r of W holds the shards r, r + W, r + 2W, ... Numbers that
are made shard by shard and added up in an order of the shards are the same on any number of ranks. Sums go pairwise,
shard s with shard s + S/2 first: with 1, 2, 4, ... ranks every rank then adds up its own before they are exchanged, in
the same order and with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tuckerkg.errors import SettingsError
from tuckerkg.ranks.group import Group

SHARDS = 16  # of an entity table, where nothing else is said


@dataclass(frozen=True)
class Partition:
    """Entities ``offsets[s]`` to ``offsets[s + 1] - 1`` are those of shard s."""

    offsets: tuple[int, ...]  # [S + 1]
    group: Group

    @classmethod
    def even(cls, num_entities: int, shards: int, group: Group) -> Partition:
        """Shards of about one size.

        Raises:
            SettingsError: there are more ranks than shards, or their number is no power of two.
        """
        return cls.of([num_entities * shard // shards for shard in range(shards + 1)], group)

    @classmethod
    def of(cls, offsets: Sequence[int], group: Group) -> Partition:
        """Shards that are there already; raises as ``even`` does."""
        shards = len(offsets) - 1
        if shards & (shards - 1):
            raise SettingsError(f"ranks.shards is {shards}, expected a power of two, such as 16")
        if group.size > shards:
            raise SettingsError(
                f"ranks.shards is {shards}, and {group.size} ranks are to share them: each needs one at least"
            )
        return cls(tuple(int(offset) for offset in offsets), group)

    @property
    def num_shards(self) -> int:
        """S."""
        return len(self.offsets) - 1

    @cached_property
    def own(self) -> list[int]:
        """The shards of this rank, ascending."""
        return self.of_rank(self.group.rank)

    def of_rank(self, rank: int) -> list[int]:
        """The shards of a rank, ascending."""
        return list(range(rank, self.num_shards, self.group.size))

    def size(self, shard: int) -> int:
        """How many entities a shard has."""
        return self.offsets[shard + 1] - self.offsets[shard]

    def bounds(self, ids: Tensor | None) -> list[int]:
        """Where each shard begins among ascending ``ids`` (None: all entities), ``[S + 1]``."""
        if ids is None:
            return list(self.offsets)
        return torch.searchsorted(ids, torch.tensor(self.offsets, device=ids.device)).tolist()

    def by_shard(self, tensors: Sequence[Tensor]) -> Tensor:
        """One tensor per own shard, all of one shape, to those of all shards, ``[S, ...]``."""
        per_rank = -(-self.num_shards // self.group.size)
        stacked = torch.stack(list(tensors))
        if len(stacked) < per_rank:
            stacked = torch.cat([stacked, stacked.new_zeros(per_rank - len(stacked), *stacked.shape[1:])])
        found = self.group.gather(stacked)  # [W, shards of a rank, ...]
        return found.transpose(0, 1).reshape(-1, *found.shape[2:])[: self.num_shards]

    def rows_by_shard(self, rows: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
        """Rows of the own shards ``[counts[s], ...]`` to those of all, in the order of the shards."""
        if self.group.size == 1:
            return list(rows)
        of_rank = [sum(counts[shard] for shard in self.of_rank(rank)) for rank in range(self.group.size)]
        parts = self.group.gather_rows(torch.cat(list(rows)), of_rank)
        split = [part.split([counts[shard] for shard in self.of_rank(rank)]) for rank, part in enumerate(parts)]
        return [split[shard % self.group.size][shard // self.group.size] for shard in range(self.num_shards)]

    def add_up(self, tensors: Sequence[Tensor]) -> Tensor:
        """The sum over all shards of one tensor per own shard."""
        return pairwise_sum(list(self.group.gather(pairwise_sum(list(tensors)))))


def pairwise_sum(tensors: list[Tensor]) -> Tensor:
    """The sum of some tensors, the first half with the second half, and so on."""
    while len(tensors) > 1:
        half = (len(tensors) + 1) // 2
        tensors = [
            tensors[place] + tensors[place + half] if place + half < len(tensors) else tensors[place]
            for place in range(half)
        ]
    return tensors[0]

"""What each shard gives to a step, and how the ranks make one batch of it.

A part depends on (seed, step, shard) only, and the batch on the parts in the order of the shards: it is the same on any
number of ranks, none of which has all facts. Questions are those of the shard that their entity is in, with all their
answers, which lie side by side there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tuckerkg.ranks.partition import Partition

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Drawn:
    """Numbers that the own shards give to a step: some lists for each, as many for every shard.

    ``heads`` are only counted, in messages about a step.
    """

    step: int
    parts: Sequence[Sequence[Numbers]]  # by own shard, then by list

    @property
    def heads(self) -> Tensor:
        """The first list of the own shards."""
        return torch.from_numpy(np.concatenate([part[0] for part in self.parts]))

    def to(self, device: torch.device | str) -> Drawn:
        """The same: ranks exchange it before it goes anywhere."""
        return self


def exchange(partition: Partition, parts: Sequence[Sequence[Numbers]]) -> list[list[Numbers]]:
    """The lists of all shards, in their order, on every rank: their lengths are gathered, then they are.

    Numbers are sent in 32 bits where that holds every entity.
    """
    kind = id_kind(partition.offsets[-1])
    lengths = partition.by_shard([torch.tensor([len(one) for one in part]) for part in parts])  # [S, lists]
    sent = [torch.from_numpy(np.concatenate(part)).to(kind) for part in parts]
    found = partition.rows_by_shard(sent, lengths.sum(1).tolist())
    return [
        [one.numpy() for one in numbers.long().split(counts)]
        for numbers, counts in zip(found, lengths.tolist(), strict=True)
    ]


def id_kind(num_entities: int) -> torch.dtype:
    """The type in which ids, relations and counts are sent."""
    return torch.int32 if num_entities < 2**31 else torch.int64


def joined(lists: Sequence[Sequence[Numbers]], place: int) -> Tensor:
    """One of the lists of all shards, behind each other."""
    return torch.from_numpy(np.concatenate([part[place] for part in lists]))


def share(total: int, begin: int, end: int, whole: int) -> int:
    """How much of ``total`` falls to the part from ``begin`` to ``end`` of ``whole``; the shares add up."""
    return total * end // whole - total * begin // whole

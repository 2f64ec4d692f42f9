"""Stage "place": rows of positions become triples of ids, sorted by the shard of their head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tuckerkg.data.ingest.arrays import ShardRecords, triple_records
from tuckerkg.data.ingest.numbering import RANK
from tuckerkg.data.ingest.reading import FileRead
from tuckerkg.data.shards import Ids
from tuckerkg.types import ProgressFunction


@dataclass(frozen=True)
class PlacedBlock:
    """The triples ``[n, 3]`` of one block in ids, and the shards ``[n]`` of their heads."""

    file: int
    number: int
    triples: npt.NDArray[np.int64]
    shards: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Placed:
    """The blocks of all files with the ids that the names got."""

    work: Path
    files: Sequence[FileRead]
    offsets: npt.NDArray[np.int64]  # [S + 1]
    relations: Sequence[str]  # in the order of their ids

    def blocks(self) -> Iterator[PlacedBlock]:
        """All blocks, in the order in which they were read."""
        starts = np.zeros(len(self.offsets) - 1, dtype=np.int64)  # [S] ranks that belong to earlier blocks
        relation_ids = {label: number for number, label in enumerate(self.relations)}
        for file, read in enumerate(self.files):
            of_file = np.array([relation_ids[label] for label in read.relations], dtype=np.int64)
            for number in range(len(read.lines)):
                counts = np.load(self._path(file, f"counts-{number:06}.npy"))
                ids = self._ids(starts, counts)
                rows: Ids = np.load(self._path(file, f"rows-{number:06}.npy"))
                triples = np.stack([ids[rows[:, 0]], of_file[rows[:, 1]], ids[rows[:, 2]]], axis=1)  # [n, 3]
                shards = np.repeat(np.arange(len(counts)), counts)[rows[:, 0]]
                yield PlacedBlock(file, number, triples, shards)
                starts += counts

    def line_numbers(self, block: PlacedBlock) -> npt.NDArray[np.int64]:
        """The line of each row of a block."""
        first = self.files[block.file].lines[block.number]
        if first is not None:
            return np.arange(first, first + len(block.triples))
        path = self._path(block.file, f"lines-{block.number:06}.npy")
        return np.asarray(np.load(path)) if len(block.triples) else np.empty(0, dtype=np.int64)

    def _ids(self, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The ids of the labels of a block, shard by shard."""
        parts = [
            np.fromfile(
                self.work / "number" / f"ranks-{shard:04}.bin", RANK, int(count), offset=int(start) * RANK.itemsize
            )
            + self.offsets[shard]
            for shard, (start, count) in enumerate(zip(starts, counts, strict=True))
            if count
        ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def _path(self, file: int, name: str) -> Path:
        return self.work / f"read-{file:04}" / name


def place_rows(placed: Placed, splits: Sequence[int], folder: Path, tick: ProgressFunction) -> None:
    """Write each block's triples with the number of their file and of its split."""
    total = sum(len(file.lines) for file in placed.files)
    kind = triple_records(int(placed.offsets[-1]))
    shards = ShardRecords(folder, kind)
    for done, block in enumerate(placed.blocks(), 1):
        records = np.empty(len(block.triples), dtype=kind)
        for place, name in enumerate(("head", "relation", "tail")):
            records[name] = block.triples[:, place]
        records["file"], records["split"] = block.file, splits[block.file]
        shards.append(block.shards, records)
        tick(done, total)

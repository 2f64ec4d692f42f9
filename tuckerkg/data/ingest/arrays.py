"""Integer arrays and tables on disk: triples in .npy files of any length, and blocks of rows sorted by shard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tuckerkg.data.shards import Ids

if TYPE_CHECKING:
    import polars as pl

LEAST_GROUP = 2048  # rows


def id_type(num_entities: int) -> np.dtype[Any]:
    """32 bits where they are enough."""
    return np.dtype(np.int32 if num_entities < 2**31 else np.int64)


class TripleWriter:
    """Writes ``[count, 3]`` integers into an .npy file, piece by piece."""

    def __init__(self, path: Path, count: int, kind: np.dtype[Any]) -> None:
        self.kind, self.left = kind, count
        self.file = path.open("wb")
        header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (count, 3)}
        np.lib.format.write_array_header_1_0(self.file, header)

    def write(self, triples: Ids) -> None:
        """Append rows."""
        self.left -= len(triples)
        self.file.write(np.ascontiguousarray(triples, dtype=self.kind).tobytes())

    def __enter__(self) -> TripleWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
        if error is None and self.left:
            raise AssertionError(f"{self.file.name}: {self.left} rows are missing")


class ShardRecords:
    """Records of a fixed width, in one file per shard that grows block by block."""

    def __init__(self, folder: Path, kind: np.dtype[Any]) -> None:
        self.folder, self.kind = folder, kind

    def append(self, shards: npt.NDArray[np.integer[Any]], records: npt.NDArray[Any]) -> None:
        """Add each record to the file of its shard."""
        order = np.argsort(shards.astype(np.uint16), kind="stable")  # of 16 bits: a radix sort
        sorted_records, counts = records[order], np.bincount(shards)
        ends = np.cumsum(counts)
        for shard in np.flatnonzero(counts).tolist():
            with self._path(shard).open("ab") as file:
                file.write(sorted_records[ends[shard] - counts[shard] : ends[shard]].tobytes())

    def columns(self, shard: int) -> dict[str, npt.NDArray[Any]]:
        """The records of a shard by field, mapped."""
        path = self._path(shard)
        records = np.memmap(path, self.kind, "r") if path.exists() else np.empty(0, self.kind)
        return {name: records[name] for name in self.kind.names or ()}

    def _path(self, shard: int) -> Path:
        return self.folder / f"{shard:04}.bin"


def triple_records(num_entities: int) -> np.dtype[Any]:
    """Triples in ids, with the number of their file and of its split."""
    ids = id_type(num_entities)
    return np.dtype([("head", ids), ("relation", np.int32), ("tail", ids), ("file", np.uint16), ("split", np.uint8)])


def edge_records(num_entities: int) -> np.dtype[Any]:
    """Triples in ids."""
    return np.dtype(triple_records(num_entities).descr[:3])


def write_by_shard(
    path: Path, shards: npt.NDArray[np.integer[Any]], columns: Mapping[str, Any], num_shards: int
) -> None:
    """Write rows sorted by shard, so that a reader of one shard skips the others' row groups."""
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    order = np.argsort(shards, kind="stable")
    rows = {name: _taken(column, order) for name, column in columns.items()}
    frame = pl.DataFrame({"shard": shards[order].astype(np.uint16), **rows})
    size = max(LEAST_GROUP, len(order) // num_shards)
    frame.write_parquet(path, compression="lz4", row_group_size=size)


def _taken(column: pl.Series | npt.NDArray[Any], order: npt.NDArray[np.int64]) -> pl.Series | npt.NDArray[Any]:
    return column[order] if isinstance(column, np.ndarray) else column.gather(order)

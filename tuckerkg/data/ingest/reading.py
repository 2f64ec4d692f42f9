"""Stage "read": a file becomes blocks of rows that point at the labels of their block, which are sorted by shard."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tuckerkg.data.ingest.arrays import write_by_shard
from tuckerkg.data.ingest.request import Request, Source
from tuckerkg.data.readers.blocks import Blocks, read_blocks
from tuckerkg.data.readers.rdf import WORST_TITLE
from tuckerkg.data.readers.read import Rows
from tuckerkg.data.readers.rejects import Reject, reject_line
from tuckerkg.data.shards import shards_of
from tuckerkg.errors import InputError
from tuckerkg.types import ProgressFunction

# Text, its columns, labels and positions together take about this many times the bytes of a block.
BLOCK_COST = 16
LEAST_BLOCK, MOST_BLOCK = 1 << 20, 1 << 26


@dataclass
class FileRead:
    """What was read of one file."""

    sha256: str = ""
    read: int = 0
    rejected: int = 0
    blank: int = 0
    comments: int = 0
    literals: int = 0
    notes: list[str] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)  # in the order in which the file names them
    lines: list[int | None] = field(default_factory=list)  # of each block: the first, None where some are left out
    first_problems: list[list[Any]] = field(default_factory=list)  # of rejected rows

    @property
    def good(self) -> int:
        """Rows that are triples, repeated ones too."""
        return self.read - self.rejected - self.literals


def block_bytes(memory: int) -> int:
    """How much text to read at a time."""
    return min(max(memory // (2 * BLOCK_COST), LEAST_BLOCK), MOST_BLOCK)


def read_file(
    source: Source, number: int, request: Request, size: int, folder: Path, tick: ProgressFunction
) -> FileRead:
    """Read file ``number`` into ``folder``."""
    blocks = read_blocks(source.file, request.options, size)
    found = FileRead()
    relation_ids: dict[str, int] = {}
    with (folder / "rejects.tsv").open("w", encoding="utf-8") as rejects:
        for block, rows in enumerate(blocks):
            _write_block(folder, block, number, rows, request.shards, relation_ids)
            _count(found, rows)
            rejects.writelines(f"{reject_line(reject)}\n" for reject in rows.rejects)
            tick(blocks.done, source.bytes)
    _close(found, blocks, relation_ids)
    return found


def _count(found: FileRead, rows: Rows) -> None:
    found.read += rows.read
    found.rejected += len(rows.rejects)
    found.blank += rows.blank
    found.comments += rows.comments
    found.literals += rows.literals
    numbers = rows.line_numbers
    whole = len(numbers) > 0 and int(numbers[-1] - numbers[0]) == len(numbers) - 1
    found.lines.append(int(numbers[0]) if whole else None)
    room = InputError.SHOWN - len(found.first_problems)
    found.first_problems += [_problem(reject) for reject in rows.rejects[:room]]


def _problem(reject: Reject) -> list[Any]:
    return list(asdict(reject.problem).values())


def _close(found: FileRead, blocks: Blocks, relation_ids: dict[str, int]) -> None:
    found.sha256, found.notes, found.relations = blocks.sha256, list(blocks.notes), list(relation_ids)


def _write_block(
    folder: Path, block: int, number: int, rows: Rows, num_shards: int, relation_ids: dict[str, int]
) -> None:
    """Labels sorted by shard, how many each shard has, and rows of positions among them."""
    labels = rows.entity_labels
    shards = shards_of(labels, num_shards)
    positions = np.empty(len(labels), dtype=np.uint32)
    positions[np.argsort(shards, kind="stable")] = np.arange(len(labels), dtype=np.uint32)
    relations = np.array(
        [relation_ids.setdefault(label, len(relation_ids)) for label in rows.relation_labels.to_list()], dtype=np.uint32
    )
    triples = np.empty((len(rows.line_numbers), 3), dtype=np.uint32)  # [n, 3]
    triples[:, 0] = positions[rows.head_positions]
    triples[:, 1] = relations[rows.relation_positions]
    triples[:, 2] = positions[rows.tail_positions]
    np.save(folder / f"rows-{block:06}.npy", triples)
    np.save(folder / f"counts-{block:06}.npy", np.bincount(shards, minlength=num_shards))
    if len(rows.line_numbers) and rows.line_numbers[-1] - rows.line_numbers[0] != len(rows.line_numbers) - 1:
        np.save(folder / f"lines-{block:06}.npy", rows.line_numbers)
    at = {"block": np.full(len(labels), (number << 32) + block, dtype=np.int64)}
    write_by_shard(folder / f"labels-{block:06}.parquet", shards, {"label": labels, **at}, num_shards)
    if rows.titles:
        _write_titles(folder / f"titles-{block:06}.parquet", rows, (number << 32) + block, num_shards)


def _write_titles(path: Path, rows: Rows, place: int, num_shards: int) -> None:
    """Readable names with what decides among several: the file, how good they are, and the block."""
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    labels = pl.Series(list(rows.titles), dtype=pl.String)
    ranks = [rows.title_ranks.get(label, WORST_TITLE) for label in rows.titles]
    columns = {
        "label": labels,
        "title": pl.Series(list(rows.titles.values()), dtype=pl.String),
        "file": np.full(len(labels), place >> 32, dtype=np.int64),
        "rank": np.array(ranks, dtype=np.int64),
        "block": np.full(len(labels), place, dtype=np.int64),
    }
    write_by_shard(path, shards_of(labels, num_shards), columns, num_shards)

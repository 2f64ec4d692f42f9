"""Stage "triples": the distinct triples of every shard, split by split; and stage "edges": training by tail."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tuckerkg.data.ingest.arrays import ShardRecords, TripleWriter, edge_records, id_type, triple_records
from tuckerkg.data.ingest.engine import CHUNK, Engine
from tuckerkg.data.shards import Ids, file_names
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.types import ProgressFunction

MOST_LEAKS = 100_000  # that are kept to be listed


@dataclass
class Distinct:
    """What repeats and splits came to: triples kept of each file, and those that are in an earlier split too."""

    kept: list[int]
    splits: list[int] = field(default_factory=lambda: [0] * len(SPLITS))
    leaks: int = 0
    leaked: list[list[int]] = field(default_factory=list)  # head, relation, tail, split; some of them


def distinct_triples(
    engine: Engine, placed: Path, folder: Path, offsets: Sequence[int], splits: Sequence[int], tick: ProgressFunction
) -> Distinct:
    """Write the distinct triples of each shard and split, sorted; of a repeated one the first file counts it.

    ``splits`` are those of the files, as numbers.
    """
    rows = ShardRecords(placed, triple_records(offsets[-1]))
    found = Distinct([0] * len(splits))
    kind = id_type(offsets[-1])
    for shard in range(len(offsets) - 1):
        engine.keep(
            "found",
            "SELECT head, relation, tail, split, min(file) AS file FROM given GROUP BY ALL "
            "ORDER BY head, relation, tail, split",
            rows.columns(shard),
        )
        for name, counts in (("file", found.kept), ("split", found.splits)):
            groups = engine.arrays(f"SELECT {name} AS name, count(*) AS number FROM found GROUP BY ALL")  # noqa: S608
            for place, number in zip(groups["name"], groups["number"], strict=True):
                counts[int(place)] += int(number)
        if len(set(splits)) > 1:
            _find_leaks(engine, found)
        _write(engine, folder, shard, kind)
        engine.drop("found")
        tick(shard + 1, len(offsets) - 1)
    return found


def _find_leaks(engine: Engine, found: Distinct) -> None:
    again = (
        "SELECT head, relation, tail, split FROM found "
        "QUALIFY row_number() OVER (PARTITION BY head, relation, tail ORDER BY split) > 1"
    )
    number = engine.keep("leaks", again)
    found.leaks += number
    if number and len(found.leaked) < MOST_LEAKS:
        some = next(engine.chunks("leaks"))
        rows = np.stack([some[name] for name in ("head", "relation", "tail", "split")], axis=1)
        found.leaked += rows[: MOST_LEAKS - len(found.leaked)].tolist()
    engine.drop("leaks")


def _write(engine: Engine, folder: Path, shard: int, kind: np.dtype[Any]) -> None:
    groups = engine.arrays("SELECT split, count(*) AS number FROM found GROUP BY ALL")
    sizes = dict(zip(groups["split"].tolist(), groups["number"].tolist(), strict=True))
    with ExitStack() as stack:
        writers = [
            stack.enter_context(TripleWriter(folder / part_name(split, shard), sizes.get(number, 0), kind))
            for number, split in enumerate(SPLITS)
        ]
        for chunk in engine.chunks("found"):
            triples = np.stack([chunk["head"], chunk["relation"], chunk["tail"]], axis=1)  # [n, 3]
            for number, writer in enumerate(writers):
                writer.write(triples[chunk["split"] == number])


def part_name(split: str, shard: int) -> str:
    """The file of one split's triples whose head is in a shard; training's is one of the result."""
    return file_names(shard)["train"] if split == "train" else f"{split}-{shard:04}.npy"


def join_parts(folder: Path, split: str, num_shards: int, out: Path, kind: np.dtype[Any]) -> int:
    """One file of a split's parts, shard after shard; returns the number of triples."""
    parts = [folder / part_name(split, shard) for shard in range(num_shards)]
    count = sum(len(np.load(part, mmap_mode="r")) for part in parts)
    with TripleWriter(out, count, kind) as writer:
        for part in parts:
            for piece in pieces(part):
                writer.write(piece)
    return count


def pieces(path: Path) -> list[Ids]:
    """The triples of a file in pieces that are mapped, so that they are read one after the other."""
    mapped: Ids = np.load(path, mmap_mode="r")
    return [mapped[start : start + CHUNK] for start in range(0, len(mapped), CHUNK)]


def write_edges(
    engine: Engine,
    train: Path,
    scratch: Path,
    folder: Path,
    offsets: npt.NDArray[np.int64],
    tick: ProgressFunction,
) -> None:
    """Write training once more, by the shard of the tail."""
    num_shards = len(offsets) - 1
    kind = id_type(int(offsets[-1]))
    records = edge_records(int(offsets[-1]))
    by_tail = ShardRecords(scratch, records)
    for shard in range(num_shards):
        for triples in pieces(train / file_names(shard)["train"]):
            edges = np.empty(len(triples), dtype=records)
            for place, name in enumerate(records.names or ()):
                edges[name] = triples[:, place]
            by_tail.append(np.searchsorted(offsets, triples[:, 2], side="right") - 1, edges)
        tick(shard + 1, 2 * num_shards)
    for shard in range(num_shards):
        count = engine.keep("found", "SELECT * FROM given ORDER BY tail, relation, head", by_tail.columns(shard))
        with TripleWriter(folder / file_names(shard)["edges"], count, kind) as writer:
            for chunk in engine.chunks("found"):
                writer.write(np.stack([chunk["head"], chunk["relation"], chunk["tail"]], axis=1))
        engine.drop("found")
        tick(num_shards + shard + 1, 2 * num_shards)

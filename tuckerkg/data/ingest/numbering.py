"""Stage "number": the distinct names of each shard in order, and the id of every label of every block."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tuckerkg.data.ingest.engine import Engine, parquet
from tuckerkg.data.shards import file_names
from tuckerkg.types import ProgressFunction

RANK = np.dtype(np.uint32)  # of a name among those of its shard


def number_entities(engine: Engine, read: Path, folder: Path, num_shards: int, tick: ProgressFunction) -> list[int]:
    """Write names and ranks, shard by shard; returns the first id of each shard, and the number of entities.

    Within a block labels are sorted by shard and name, so the ranks of one shard, block after block, are all that is
    needed to find the ids of a block again: ``ranks-0000.bin``.
    """
    labels = parquet(read, "read-*/labels-*.parquet")
    titles = parquet(read, "read-*/titles-*.parquet") if any(read.glob("read-*/titles-*.parquet")) else None
    offsets = [0]
    for shard in range(num_shards):
        engine.keep("found", f"SELECT label, block FROM {labels} WHERE shard = {shard}")  # noqa: S608
        count = engine.keep(
            "names",
            "SELECT label, (row_number() OVER (ORDER BY label) - 1)::UINTEGER AS rank "
            "FROM (SELECT DISTINCT label FROM found) ORDER BY label",
        )
        with (folder / f"ranks-{shard:04}.bin").open("wb") as file:
            engine.keep("ranks", "SELECT rank FROM found JOIN names USING (label) ORDER BY block, rank")
            for chunk in engine.chunks("ranks"):
                file.write(chunk["rank"].astype(RANK).tobytes())
        _write_names(engine, folder / file_names(shard)["names"], titles, shard)
        engine.drop("found", "names", "ranks")
        offsets.append(offsets[-1] + count)
        tick(shard + 1, num_shards)
    return offsets


def _write_names(engine: Engine, path: Path, titles: str | None, shard: int) -> None:
    query = "SELECT label AS name, NULL::VARCHAR AS title FROM names ORDER BY rank"
    if titles is not None:
        query = (
            "SELECT names.label AS name, best.title FROM names LEFT JOIN "  # noqa: S608
            f"({best_titles(titles)} WHERE shard = {shard} GROUP BY label) AS best USING (label) ORDER BY rank"
        )
    engine.frame(query).write_parquet(path, compression="zstd", row_group_size=1 << 17)


def best_titles(titles: str) -> str:
    """SQL for each label's readable name: of the first file that has one the best, and of equal ones the first."""
    return f"SELECT label, arg_min(title, (file, rank, block)) AS title FROM {titles}"  # noqa: S608

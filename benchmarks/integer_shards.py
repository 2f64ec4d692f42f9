"""A random graph of any size, written as the folder of shards that ``tuckerkg ingest`` would make, names included.

Integers are drawn shard by shard, so that memory is that of one shard. Some tails are far more frequent than others.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl

from tuckerkg.data.ingest.arrays import ShardRecords, TripleWriter, edge_records, id_type
from tuckerkg.data.shards import FORMAT, GRAPH, RELATIONS, ShardedGraph, file_names
from tuckerkg.storage.sealed_folder import json_bytes, seal_files

Array = np.ndarray


def write_shards(
    out: Path, *, entities: int, relations: int, facts: int, shards: int = 64, valid: int = 0, seed: int = 0
) -> ShardedGraph:
    """Write ``out``: about ``facts`` distinct training triples, and ``valid`` more that are held out."""
    folder, scratch = out.with_name(out.name + ".partial"), out.with_name(out.name + ".by-tail")
    for place in (folder, scratch):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    offsets = [entities * shard // shards for shard in range(shards + 1)]
    kind, records = id_type(entities), edge_records(entities)
    by_tail = ShardRecords(scratch, records)
    held_out, train = [], 0
    for shard in range(shards):
        random = np.random.default_rng([seed, shard])
        begin, end = offsets[shard], offsets[shard + 1]
        sizes = (_share(facts, shard, shards), _share(valid, shard, shards))
        keys = _keys(random, end - begin, relations, entities, sum(sizes))
        apart = random.choice(len(keys), min(sizes[1], len(keys)), replace=False)
        held_out.append(_triples(keys[np.sort(apart)], begin, relations, entities))
        triples = _triples(np.delete(keys, apart), begin, relations, entities)
        train += len(triples)
        _write(folder / file_names(shard)["train"], triples, kind)
        rows = np.empty(len(triples), records)
        for place, name in enumerate(records.names or ()):
            rows[name] = triples[:, place]
        by_tail.append(np.searchsorted(offsets, triples[:, 2], side="right") - 1, rows)
        names = pl.DataFrame({"id": np.arange(begin, end)}).select(pl.format("e{}", "id").alias("name"))
        names.with_columns(title=pl.lit(None, pl.String)).write_parquet(folder / file_names(shard)["names"])
    for shard in range(shards):
        columns = by_tail.columns(shard)
        turned = (columns["tail"].astype(np.int64) - offsets[shard]) * relations + columns["relation"]
        keys = np.sort(turned * entities + columns["head"])
        _write(folder / file_names(shard)["edges"], _triples(keys, offsets[shard], relations, entities)[:, ::-1], kind)
    shutil.rmtree(scratch)
    triples = np.concatenate(held_out)
    _write(folder / "valid.npy", triples, kind)
    _write(folder / "test.npy", triples[:0], kind)
    frame = pl.DataFrame({"name": [f"r{relation:05}" for relation in range(relations)]})
    frame.with_columns(title=pl.lit(None, pl.String)).write_parquet(folder / RELATIONS)
    about = {"format": FORMAT, "entities": entities, "relations": relations, "shards": shards, "offsets": offsets,
             "counts": {"train": train, "valid": len(triples) or None, "test": None}, "leaks": 0, "warnings": [],
             "files": []}  # fmt: skip
    (folder / GRAPH).write_bytes(json_bytes(about))
    seal_files(folder, out)
    return ShardedGraph(out)


def _share(total: int, shard: int, shards: int) -> int:
    return total * (shard + 1) // shards - total * shard // shards


def _keys(random: np.random.Generator, heads: int, relations: int, entities: int, count: int) -> Array:
    """Distinct facts as one number each, ascending: head within its shard, relation, tail."""
    drawn = count + count // 100 + 10 if heads else 0
    head = random.integers(0, max(heads, 1), drawn)
    relation = (relations * random.random(drawn) ** 2).astype(np.int64)
    tail = (entities * random.random(drawn) ** 2).astype(np.int64) * 2_654_435_761 % entities  # in every shard
    keys = np.unique((head * relations + relation) * entities + tail)
    return np.delete(keys, random.choice(len(keys), max(len(keys) - count, 0), replace=False))


def _triples(keys: Array, begin: int, relations: int, entities: int) -> Array:
    rest, last = np.divmod(keys, entities)
    first, relation = np.divmod(rest, relations)
    return np.stack([begin + first, relation, last], 1)


def _write(path: Path, triples: Array, kind: np.dtype) -> None:
    with TripleWriter(path, len(triples), kind) as writer:
        writer.write(triples)

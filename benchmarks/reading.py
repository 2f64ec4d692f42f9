"""Reading triple files into ids, against Polars' own scan and encoding and PyKEEN's TriplesFactory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.measure import Line, alternate, once
from tuckerkg.data.dataset import Dataset

SIZES = (1_000_000, 10_000_000)
PYKEEN_UP_TO = 1_000_000


def run(peers: bool = True) -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        real = Path(os.environ["TUCKERKG_DATA"]) / "fb15k-237" / "train.txt"
        files = [real, *(synthetic(Path(folder), size) for size in SIZES)]
        for file in files:
            yield _one(file, peers)


def synthetic(folder: Path, count: int) -> Path:
    """``count`` triples over a tenth as many entities and 500 relations, frequent ones more often."""
    random = np.random.default_rng(0)
    heads, relation_ids, tails = (
        (size * random.random(count) ** 2).astype(np.int64) for size in (count // 10, 500, count // 10)
    )
    file = folder / f"{count}.tsv"
    pl.DataFrame({"h": heads, "r": relation_ids, "t": tails}).select(
        pl.format("entity_{}", "h"), pl.format("relation_{}", "r"), pl.format("entity_{}", "t").alias("tail")
    ).write_csv(file, separator="\t", include_header=False)
    return file


def polars_alone(file: Path) -> list[np.ndarray]:
    """Scan, sorted vocabulary and ids, without a single check."""
    table = pl.read_csv(
        file, separator="\t", has_header=False, quote_char=None, infer_schema=False, new_columns=["h", "r", "t"]
    )
    ends = pl.concat([table["h"], table["t"].rename("h")]).unique().sort()
    relations = table["r"].unique().sort()
    return [
        table[name].cast(pl.Enum(labels)).to_physical().to_numpy()
        for name, labels in (("h", ends), ("r", relations), ("t", ends))
    ]


def _one(file: Path, peers: bool) -> Line:
    large = file.stat().st_size > 100e6
    works = {"ours": lambda: Dataset.from_files(file, split=None), "Polars": lambda: polars_alone(file)}
    found = alternate(works, repeats=3 if large else 5)
    ours, megabytes = found["ours"], file.stat().st_size / 1e6
    count = len(Dataset.from_files(file, split=None).train)
    name = "fb15k-237 train" if file.name == "train.txt" else "synthetic"
    line = Line("read", f"{name}, {count} distinct triples, {megabytes:.0f} MB", ours.seconds, ours.peak_memory_mb, "")
    line.rate = f"{count / ours.seconds / 1e6:.2f} million triples/s, {megabytes / ours.seconds:.0f} MB/s"
    line.hold("Polars", found["Polars"], what="its scan, sorted labels and ids, no checks")
    if peers and count <= PYKEEN_UP_TO:
        from pykeen.triples import TriplesFactory

        line.hold("PyKEEN", once(lambda: TriplesFactory.from_path(file)), what="TriplesFactory.from_path")
    return line

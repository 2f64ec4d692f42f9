"""Files larger than memory to shards of ids, beside a plain read of the file and Polars' streaming engine.

Each contender is a process of its own, whose peak of memory the system reports; the interpreter and its libraries are
part of it. Names are as long as those of a public graph, heads and relations as frequent as Zipf's law says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.measure import Line, Measured, peak_mb

CHUNK = 1_000_000

READ = """
import sys
with open(sys.argv[1], "rb") as file:
    while file.read(1 << 20):
        pass
"""
SINK = """
import sys
import polars as pl
lazy = pl.scan_csv(sys.argv[1], separator="\\t", has_header=False, quote_char=None, new_columns=["h", "r", "t"])
lazy.sink_parquet(sys.argv[2])
"""
IDS = """
import sys
import polars as pl
lazy = pl.scan_csv(sys.argv[1], separator="\\t", has_header=False, quote_char=None, new_columns=["h", "r", "t"])
out = sys.argv[2]
ends = pl.concat([lazy.select("h"), lazy.select(pl.col("t").alias("h"))]).unique().with_row_index("id")
ends.sink_parquet(out + ".entities")
lazy.select("r").unique().with_row_index("r_id").sink_parquet(out + ".relations")
entities = pl.scan_parquet(out + ".entities")
relations = pl.scan_parquet(out + ".relations")
heads, tails = entities.rename({"id": "h_id"}), entities.rename({"id": "t_id", "h": "t"})
joined = lazy.join(heads, on="h").join(relations, on="r").join(tails, on="t")
joined.select("h_id", "r_id", "t_id").unique().sink_parquet(out)
"""


def run(triples: int, memory: str) -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        yield _one(zipf_file(Path(folder) / "triples.tsv", triples), triples, memory)


def zipf_file(path: Path, count: int) -> Path:
    """``count`` triples with a third as many possible entities and 500 relations, in constant memory."""
    random = np.random.default_rng(0)
    entities = max(count // 3, 1)
    with path.open("wb") as file:
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            heads = random.zipf(1.3, size) * 2_654_435_761 % entities  # frequent ones spread over all numbers
            tails = (entities * random.random(size) ** 2).astype(np.int64)
            pl.DataFrame({"h": heads, "r": random.zipf(1.5, size) % 500, "t": tails}).select(
                pl.format("http://example.org/entity/Q{}", "h"),
                pl.format("http://example.org/property/P{}", "r"),
                pl.format("http://example.org/entity/Q{}", "t").alias("tail"),
            ).write_csv(file, separator="\t", include_header=False)
    return path


def _one(file: Path, triples: int, memory: str) -> Line:
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    megabytes = file.stat().st_size / 1e6
    out = file.parent / "graph"
    words = ["ingest", str(file), "--out", str(out), "--memory", memory, "--threads", threads]
    read = child(["-c", READ, str(file)], threads)
    ours = child(["-m", "tuckerkg", *words], threads)
    disk = sum(path.stat().st_size for path in out.iterdir()) / 1e6
    work = f"{triples} triples with Zipf's frequencies, {megabytes:.0f} MB of text, memory limited to {memory}"
    line = Line("ingest", work, ours.seconds, ours.peak_memory_mb, "")
    line.rate = f"{megabytes / ours.seconds:.0f} MB/s, {triples / ours.seconds / 1e6:.2f} million triples/s"
    line.hold("plain read", read, what="of the file, nothing done with it")
    for name, script, what in (("sink", SINK, "no ids, no checks"), ("ids", IDS, "no checks, no limit")):
        other = child(["-c", script, str(file), str(file.parent / name)], threads)
        line.hold(f"Polars, {name}", other, what=what)
    line.notes = f"{threads} threads; peaks are those of whole processes; the folder takes {disk:.0f} MB"
    return line


def child(arguments: list[str], threads: str) -> Measured:
    """Seconds and peak of a Python process."""
    environment = {**os.environ, "POLARS_MAX_THREADS": threads, "OMP_NUM_THREADS": threads}
    start, peak = time.perf_counter(), 0.0
    # Asked while it runs: what the system reports at its end counts the memory of the process that started it too.
    with subprocess.Popen([sys.executable, *arguments], env=environment) as process:
        while process.poll() is None:
            peak = max(peak, peak_mb(process.pid))
            time.sleep(0.01)
    if process.returncode:
        raise RuntimeError(f"{arguments} ended with {process.returncode}")
    seconds = time.perf_counter() - start
    return Measured(seconds, [seconds], peak)

"""Training on ranks a graph that none of them holds: memory of each rank and bytes of a step, beside the formula.

    python -m benchmarks --stage ranks --entities 500000 --facts 5000000 --ranks 1 2 4

Shards are written directly, then trained for a few steps, with a checkpoint before and after and a few questions of
validation. The whole is tables, optimizer and facts; a rank may need its share of that and 500 MB.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.integer_shards import write_shards
from benchmarks.measure import Line
from tuckerkg import api
from tuckerkg.config.toml import load_settings
from tuckerkg.data.shards import ShardedGraph
from tuckerkg.ranks.formula import StepCounts, bytes_of_step, memory_of_rank

MORE = 500  # MB, for the interpreter, its libraries and a step
RELATIONS, VALID = 100, 20


@dataclass(frozen=True)
class Sizes:
    """What to measure."""

    entities: int = 500_000
    facts: int = 5_000_000
    dim: int = 100
    ranks: tuple[int, ...] = (1, 2, 4)
    shards: int = 64
    queries: int = 1_024
    candidates: int = 10_000
    steps: int = 10


def run(sizes: Sizes, place: Path | None = None) -> Iterator[Line]:
    """A line for each number of ranks."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        graph = write_shards(
            Path(folder) / "graph", entities=sizes.entities, relations=RELATIONS, facts=sizes.facts,
            shards=sizes.shards, valid=VALID,
        )  # fmt: skip
        for count in sizes.ranks:
            yield _line(graph, Path(folder), sizes, count)


def _line(graph: ShardedGraph, folder: Path, sizes: Sizes, ranks: int) -> Line:
    found, seconds = _trained(graph, folder, sizes, ranks)
    steps = range(1, sizes.steps)
    sent = [max(one["sent"][step] - one["sent"][step - 1] for one in found) for step in steps]
    counts = [StepCounts.most([StepCounts(**one["counts"][step]) for one in found]) for step in steps]
    shape: dict[str, Any] = {
        "ranks": ranks, "shards": sizes.shards, "dim": sizes.dim, "query_dim": sizes.dim + 1,
    }  # fmt: skip
    by_formula = [sum(bytes_of_step(one, **shape).values()) for one in counts]
    held = memory_of_rank(sizes.entities, sizes.facts, sizes.dim, ranks)
    whole = memory_of_rank(sizes.entities, sizes.facts, sizes.dim, 1)
    peak = max(one["peak_mb"] for one in found)
    took = statistics.median(b - a for a, b in zip(found[0]["times"], found[0]["times"][1:], strict=False))
    work = (
        f"{sizes.entities} entities, {sizes.facts} facts, d {sizes.dim}, {ranks} ranks: about {sizes.queries} queries "
        f"a step, {sizes.candidates} sampled candidates, DistMult, row-wise Adagrad"
    )
    line = Line("ranks", work, took, peak, f"{statistics.mean(sent) / 1e6:.2f} MB sent a step")
    line.ranks = {
        "ranks": ranks, "entities": sizes.entities, "facts": sizes.facts, "dim": sizes.dim,
        "peak_mb": [round(one["peak_mb"], 1) for one in found],
        "before_mb": [round(one["before_mb"], 1) for one in found],
        "formula_mb": round(held.total / 1e6, 1), "whole_mb": round(whole.total / 1e6, 1),
        "allowed_mb": round(whole.total / 1e6 / ranks + MORE, 1),
        "tables_mb": round(max(one["tables"] for one in found) / 1e6, 1),
        "facts_mb": round(max(one["facts"] for one in found) / 1e6, 1),
        "sent": round(statistics.mean(sent)), "formula_sent": round(statistics.mean(by_formula)),
    }  # fmt: skip
    verdict = "within" if peak <= line.ranks["allowed_mb"] else "ABOVE"
    line.notes = (
        f"peak of a rank's process {peak:.0f} MB, {verdict} its share of the whole and {MORE} MB, "
        f"{line.ranks['allowed_mb']:.0f} MB; before it had anything {max(line.ranks['before_mb']):.0f} MB, by formula "
        f"{held.total / 1e6:.0f} MB more; bytes a step {line.ranks['sent']:,}, by formula "
        f"{line.ranks['formula_sent']:,}; {seconds:.0f} s with two checkpoints and {VALID} validation triples"
    )
    return line


def _trained(graph: ShardedGraph, folder: Path, sizes: Sizes, ranks: int) -> tuple[list[dict[str, Any]], float]:
    """What each rank wrote, and seconds in all."""
    settings = load_settings(
        None,
        {
            "encoder": "none", "decoder": "distmult", "model.dim": sizes.dim, "model.relation_dim": sizes.dim,
            "batch.queries": sizes.queries, "phase": [{"candidates": sizes.candidates}],
            "train.optimizer": "rowwise-adagrad", "train.steps": sizes.steps, "train.evaluate_every": 1e9,
            "train.threads": 1, "ranks.shards": sizes.shards,
        },
    )  # fmt: skip
    out = folder / f"on-{ranks}"
    out.mkdir()
    run = api.prepare_in_shards(graph, settings, out / "run")
    began = time.perf_counter()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += ["-m", "benchmarks.rank_worker", str(run.path), str(out)]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = [json.loads((out / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    for rank in found[1:]:
        if rank["losses"] != found[0]["losses"]:
            raise RuntimeError("ranks have other losses than rank 0")
    shutil.rmtree(run.path)
    return found, time.perf_counter() - began

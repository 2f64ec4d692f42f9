"""One of several ranks that train a run, which writes what it held and sent: started by the stage "ranks"."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import peak_mb, reset_peak
from tuckerkg.batches.batch import StepBatch
from tuckerkg.config.settings import settings_of_run
from tuckerkg.ranks.facts.drawing import Drawn
from tuckerkg.ranks.formula import StepCounts, tables_of
from tuckerkg.ranks.group import Group, end_process, joined
from tuckerkg.ranks.loop import RankLoop
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import Callback
from tuckerkg.training.signals import Interruptions


class Heard(Callback):
    """Bytes that were sent and seconds that passed, at the end of every step."""

    def __init__(self, group: Group) -> None:
        self.group, self.sent, self.times, self.losses = group, [], [], []

    def stepped(self, step: int, loss: float, lr: float) -> None:
        self.sent.append(0 if self.group.sent is None else self.group.sent[0])
        self.times.append(time.perf_counter())
        self.losses.append(loss)


class CountingLoop(RankLoop):
    """Keeps the counts of every step."""

    def complete(self, batch: StepBatch) -> StepBatch:
        found: Any = super().complete(batch)
        numbers = sum(len(one) for part in batch.parts for one in part) if isinstance(batch, Drawn) else 0
        self.counts = [*getattr(self, "counts", []), StepCounts.own(found, numbers, self.model.partition)]
        return found


def train_and_count(group: Group, path: Path) -> dict[str, Any]:
    """Train the run at ``path`` to its end with the ranks of ``group``."""
    torch.set_num_threads(1)
    folder = RunFolder.open(path)
    before = reset_peak()
    with Interruptions() as interruptions:
        heard = Heard(group)
        loop = CountingLoop(folder, settings_of_run(folder), heard, interruptions, group)
        began = peak_mb()
        loop.run()
    facts = [] if folder.graph is None else [
        folder.graph.triples(shard).nbytes + folder.graph.in_edges(shard).nbytes for shard in loop.model.partition.own
    ]  # fmt: skip
    return {
        "rank": group.rank,
        "before_mb": before,
        "began_mb": began,
        "peak_mb": peak_mb(),
        "tables": tables_of(loop.model),
        "facts": sum(facts),
        "sent": heard.sent,
        "times": heard.times,
        "losses": heard.losses,
        "counts": [asdict(one) for one in loop.counts],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    with joined() as group:
        found = train_and_count(group, given.run)
        (given.out / f"{group.rank}.json").write_text(json.dumps(found), encoding="utf-8")
    end_process()


if __name__ == "__main__":
    main()

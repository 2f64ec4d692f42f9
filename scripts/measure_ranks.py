"""Whether training on several ranks is training on one: batches, losses, test ranks and MRR side by side.

Every experiment is trained on each number of ranks with equal settings. Compared with the first number are the numbers
in each step's batch, each step's loss (within 1e-6), the filtered test ranks of the last weights, over all entities and
in both directions (equal, or a target and another candidate have nearly the same score), and MRR (within 1e-5); and,
with the same weights, the ranks that one process finds with the table in one piece.

    python scripts/measure_ranks.py --steps 20 --ranks 1 2 4 --out results/studies/ranks.json

Without --steps experiments have their own length. A warm start is left out: tables in shards start from random weights.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tuckerkg import api
from tuckerkg.batches.batch import Batch, StepBatch
from tuckerkg.config.settings import settings_of_run
from tuckerkg.config.toml import load_settings, parse_override
from tuckerkg.data.load import load
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.inference.run import Run
from tuckerkg.paper.result_file import processor
from tuckerkg.ranks.group import end_process, joined
from tuckerkg.ranks.loop import RankLoop
from tuckerkg.ranks.ranking import ShardedScorer, rank_in_shards
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import Callback
from tuckerkg.training.signals import Interruptions

EXPERIMENTS = ("fb15k-237-none-tucker-100", "fb15k-237-tgcn-tucker-1-b")
SAME_LOSS, SAME_MRR, NEAR = 1e-6, 1e-5, 1e-4
SHOWN = 20  # near-ties that are listed


class Losses(Callback):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def stepped(self, step: int, loss: float, lr: float) -> None:
        self.losses.append(loss)


class RecordingLoop(RankLoop):
    """Keeps a hash of every batch."""

    def complete(self, batch: StepBatch) -> StepBatch:
        found: Any = super().complete(batch)
        self.batches_seen = [*getattr(self, "batches_seen", []), hash_of(found)]
        return found


def hash_of(batch: Batch) -> str:
    sample = None if batch.sample is None else batch.sample.log_inclusion
    edges = None if batch.graph is None else batch.graph.edges
    parts = (batch.entity_ids, batch.heads, batch.relation_ids, batch.offsets, batch.positives, sample, edges)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"none" if part is None else part.numpy().tobytes())
    return digest.hexdigest()


def work(path: Path, out: Path) -> None:
    """One rank: train the run at ``path``; the first one writes what it saw."""
    torch.set_num_threads(1)
    with joined() as group, Interruptions() as interruptions:
        folder, heard = RunFolder.open(path), Losses()
        torch.manual_seed(0)
        loop = RecordingLoop(folder, settings_of_run(folder), heard, interruptions, group)
        loop.run()
        splits = [folder.split(name) for name in ("train", "valid", "test")]
        known = KnownTails.from_splits(splits, loop.model.num_relations)
        scorer = ShardedScorer(loop.model, loop.model.message_graph(splits[0]))
        found = rank_in_shards(scorer, splits[2], known)
        if group.is_first:
            seen = {"losses": heard.losses, "batches": loop.batches_seen, "best": found.best.tolist(),
                    "worst": found.worst.tolist(), "mrr": mrr_of(found.best, found.worst)}  # fmt: skip
            out.write_text(json.dumps(seen), encoding="utf-8")


def mrr_of(best: np.ndarray, worst: np.ndarray) -> float:
    """Of the mean of best and worst ranks."""
    return float(np.mean(2.0 / (best + worst)))


def train_on(ranks: int, path: Path) -> dict[str, Any]:
    out = path.with_name(f"{path.name}.json")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    began = time.perf_counter()
    subprocess.run(
        [*command, __file__, "--worker", str(path), str(out)], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return {**found, "seconds": round(time.perf_counter() - began, 1)}


def compare(found: dict[str, Any], first: dict[str, Any], run: Run) -> dict[str, Any]:
    """What differs, and whether it may."""
    losses = np.abs(np.array(found["losses"]) - np.array(first["losses"])) if "losses" in found else np.zeros(1)
    same_batches = found.get("batches", first["batches"]) == first["batches"]
    ties = differing(found, first, run)
    apart = abs(found["mrr"] - first["mrr"])
    near = all(tie["gap"] <= NEAR for tie in ties)
    return {
        "batches_equal": same_batches,
        "largest_difference_of_losses": float(losses.max()),
        "differing_test_ranks": len(ties),
        "near_ties": ties[:SHOWN],
        "difference_of_mrr": apart,
        "agrees": bool(same_batches and losses.max() <= SAME_LOSS and near and apart <= SAME_MRR),
    }


def differing(found: dict[str, Any], first: dict[str, Any], run: Run) -> list[dict[str, Any]]:
    """Questions whose target has another rank, with the gap to the candidate that is nearest in score."""
    here, there = (np.array([one["best"], one["worst"]]) for one in (found, first))
    test = run.split("test")
    ties = []
    for place in np.flatnonzero((here != there).any(0)).tolist():
        head, relation, tail = test[place % len(test)].tolist()
        if place >= len(test):
            head, relation, tail = tail, relation + len(run.relations), head
        scores = run.scorer.scores(torch.tensor([head]), torch.tensor([relation]))[0]
        gaps = (scores - scores[tail]).abs()
        gaps[tail] = torch.inf
        ties.append({"question": [head, relation], "target": tail, "ranks": here[:, place].tolist(),
                     "expected": there[:, place].tolist(), "gap": float(gaps.min())})  # fmt: skip
    return ties


def measure(name: str, given: argparse.Namespace, place: Path) -> dict[str, Any]:
    changes = {"start.run": "", "ranks.shards": 16, "train.threads": 1, "train.evaluate_every": 1e9}
    changes |= {"train.steps": given.steps} if given.steps else {}
    changes |= {"dataset": given.dataset} if given.dataset else {}
    settings = load_settings(name, {**changes, **dict(map(parse_override, given.changes or ()))})
    data = load(settings.dataset)
    rows: dict[str, Any] = {}
    first: dict[str, Any] = {}
    for ranks in given.ranks:
        path = place / f"{name}-on-{ranks}"
        api.prepare(data, settings, path)
        found = train_on(ranks, path)
        if not first:
            first, run = found, Run(RunFolder.open(path), calibrated=False, checkpoint="newest")
        row = {"steps": len(found["losses"]), "last_loss": found["losses"][-1], "test_mrr": found["mrr"],
               "seconds": found["seconds"], **compare(found, first, run)}  # fmt: skip
        rows[str(ranks)] = row
        print(f"{name} on {ranks} ranks: {'agrees' if row['agrees'] else 'DIFFERS'}, test MRR {row['test_mrr']:.6f}")
    whole = run.evaluate("test").ranks
    in_one_piece = {"best": whole.best.tolist(), "worst": whole.worst.tolist(), "mrr": mrr_of(whole.best, whole.worst)}
    changes = list(given.changes or ())
    return {"changes": changes, "ranks": rows, "ranked_in_one_piece": compare(in_one_piece, first, run)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", nargs="+", default=EXPERIMENTS, help="shipped experiments or TOML files")
    parser.add_argument("--dataset", help="another dataset than the experiments'")
    parser.add_argument("--steps", type=int, default=0, help="steps of each training; 0: the experiment's own")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--set", dest="changes", action="append", metavar="KEY=VALUE", help="another setting")
    parser.add_argument("--out", type=Path, help="the file to write")
    parser.add_argument("--worker", nargs=2, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        work(*given.worker)
        end_process()
    with tempfile.TemporaryDirectory() as place:
        found = {name: measure(name, given, Path(place)) for name in given.experiments}
    result = {"experiments": found, "processor": processor(), "torch": torch.__version__}
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    rows = [row for one in found.values() for row in (*one["ranks"].values(), one["ranked_in_one_piece"])]
    return 0 if all(row["agrees"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

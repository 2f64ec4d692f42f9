"""The paper's own recipe, trained as printed: what validation says along it, with every message and with none.

Stopped by SIGTERM a run saves, and the same command continues it. It ends at `--steps`, or when the learning rate has
fallen below a hundredth of its start. The test split is ranked then, by the weights that validation chose; `--show`
ranks it at the step that has been reached, and trains nothing.

    python scripts/measure_printed.py paper-wn18rr-tgcn-tucker --run printed/wn18rr --out results/studies/printed.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import tuckerkg
from tuckerkg import api
from tuckerkg.config.toml import load_settings, parse_override
from tuckerkg.paper.result_file import commit, processor
from tuckerkg.storage.json_lines import JsonLines
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.loop import Loop, fit
from tuckerkg.training.optim import learning_rate
from tuckerkg.training.signals import TrainingInterrupted

LEAST_RATE = 0.01  # of the first learning rate
CURVE = "without-messages.jsonl"  # in the run folder: a line for each validation


def last_step(train: Any, steps: int) -> int:
    """Where training ends: after ``steps``, or where the rate has fallen below a hundredth of its start."""
    for step in range(0, steps, max(1, train.decay_every)):
        if learning_rate(train, step, train.steps) < LEAST_RATE * train.lr:
            return step
    return steps


def loop_until(steps: int) -> type[Loop]:
    """A loop that ends at ``steps`` and ranks validation twice, the second time without a single message."""

    class LoopWithoutMessages(Loop):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.total_steps = min(self.total_steps, last_step(self.settings.train, steps))

        def _validate(self) -> None:
            super()._validate()
            graph = self.validation.graph
            self.validation.graph = self.model.message_graph(self.splits["train"][:0])
            try:
                without = self.validation(lambda *_: self.check_interruptions())
            finally:
                self.validation.graph = graph
            line = {"step": self.state.step, "valid_without_messages": without.headline}
            JsonLines(self.folder.path / CURVE, "a validation").append_all([line])

    return LoopWithoutMessages


def curve_of(folder: RunFolder) -> list[dict[str, Any]]:
    """What validation said at each step, with messages and without."""
    rows = JsonLines(folder.path / CURVE, "a validation").rows()
    without = {row["step"]: row["valid_without_messages"] for row in rows}
    return [
        {
            "step": row["step"], "epoch": row["epoch"], "minutes": round(row["minutes"], 2), "lr": row["lr"],
            "loss": row["loss"], "valid": row["valid"]["mrr"], "valid_without_messages": without.get(row["step"]),
        }
        for row in folder.metrics.rows()
    ]  # fmt: skip


def shown(path: Path) -> dict[str, Any]:
    """Test figures of the weights that validation chose so far, and the curve."""
    run = tuckerkg.load(path)
    settings = run.settings
    curve = curve_of(run.folder)
    return {
        "experiment": settings.experiment, "run": path.name, "seed": settings.train.seed, "start": settings.start.run,
        "steps": curve[-1]["step"], "best_step": run.step, "lr": curve[-1]["lr"], "first_lr": settings.train.lr,
        "minutes": curve[-1]["minutes"], "threads": torch.get_num_threads(), "processor": processor(),
        "commit": commit(), "test": run.evaluate("test").overall.as_dict(),
        "test_without_messages": run.evaluate("test", messages=False).overall.as_dict(), "curve": curve,
    }  # fmt: skip


def main() -> None:
    """Trains, measures, and writes one entry of the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", help="a file of tuckerkg/experiments/paper")
    parser.add_argument("--run", type=Path, required=True, help="the run folder, continued where it is there")
    parser.add_argument("--steps", type=int, default=25_000)
    parser.add_argument("--set", nargs="*", default=(), help="settings on top, for changes to the recipe")
    parser.add_argument("--show", action="store_true", help="train nothing")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if not given.run.exists():
        settings = load_settings(given.experiment, dict(map(parse_override, given.set)))
        api.begin(api.prepare(tuckerkg.load_dataset(settings.dataset), settings, given.run))
    if not given.show:
        try:
            fit(RunFolder.open(given.run), None, loop_until(given.steps))
        except TrainingInterrupted as interrupted:
            print(interrupted)
            return
    rows = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else []
    rows = [row for row in rows if row["run"] != given.run.name] + [shown(given.run)]
    given.out.write_text(json.dumps(sorted(rows, key=lambda row: row["run"]), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

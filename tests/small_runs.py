"""A small training run that is stopped, resumed and compared bit for bit, for several tests."""

from __future__ import annotations

import hashlib
from pathlib import Path

from graphs import toy_dataset

from tuckerkg import api
from tuckerkg.config.toml import load_settings
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import NullCallback

SHORT = {"train.epochs": 6.0, "train.evaluate_every": 1.5, "train.threads": 1, "train.lr": 0.02}
OVERRIDES = SHORT | {
    "model.dim": 8, "model.relation_dim": 6, "encoder.output_dropout": 0.2, "decoder.dropout": 0.1, "batch.queries": 16,
}  # fmt: skip
PATHS = {"kind": "paths", "paths.width": 8, "paths.layers": 3, "paths.questions": 16}
TOTAL = 42  # steps: 6 epochs of 7, of either kind


def prepare(path: Path, **changes) -> RunFolder:
    kept = SHORT if changes.get("kind") == "paths" else OVERRIDES
    return api.prepare(toy_dataset(), load_settings(None, kept | changes), path)


def digest(folder: RunFolder) -> dict[str, str]:
    """SHA-256 of every tensor of weights and optimizer, and of the history, in the newest checkpoint."""
    checkpoint = folder.checkpoints.newest()
    tensors = {**checkpoint.weights, **{f"optimizer {k}": v for k, v in checkpoint.optimizer.items()}}
    hashes = {name: hashlib.sha256(tensor.numpy().tobytes()).hexdigest() for name, tensor in tensors.items()}
    state = {k: v for k, v in checkpoint.state.items() if "minutes" not in k}
    rows = [{k: v for k, v in row.items() if k != "minutes"} for row in folder.metrics.rows()]
    return {**hashes, "state": repr(state), "rows": repr(rows)}


class Crash(BaseException):
    """Ends the loop as abruptly as a kill does: nothing of the loop handles it."""


class At(NullCallback):
    """Acts after a given step."""

    def __init__(self, step, action):
        self.step, self.action = step, action

    def stepped(self, step, loss, lr):
        if step == self.step:
            self.action()


def crash():
    raise Crash

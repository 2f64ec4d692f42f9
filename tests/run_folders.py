"""A small run folder and its checkpoints, for several tests."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from tuckerkg.storage.checkpoints import Checkpoint, Weights
from tuckerkg.storage.run_folder import RunFolder

ENTITIES = ["a", "b", "ü ", "\u200bd"]
RELATIONS = ["likes", "knows"]
SPLITS = {
    "train": np.array([[0, 0, 1], [1, 1, 2]]),
    "valid": np.array([[2, 0, 3]], dtype=np.int32),
    "test": np.empty((0, 3), dtype=np.int64),
}
SETTINGS = {"encoder": "tgcn", "dimension": 4, "learning_rate": 0.003, "out": None}
FILES = ["manifest.json", "optimizer.safetensors", "state.json", "weights.safetensors"]


def create(path: Path) -> RunFolder:
    return RunFolder.create(
        path,
        SETTINGS,
        entities=ENTITIES,
        relations=RELATIONS,
        splits=SPLITS,
        entity_titles={"a": "Ann"},
        report={"lines": 3},
    )


def tensors(step: int, rows: int = 40) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {
        "table": torch.rand(rows, 20, generator=generator),
        "half": torch.rand(3, 3, generator=generator).to(torch.bfloat16),
    }


def save(run: RunFolder, step: int, best: int | None = None) -> Path:
    """Saves ``step``, which is the best one unless another is."""
    state = {"epoch": step, "best_step": best}
    optimizer = {"m": tensors(step + 500)["table"]}
    return run.checkpoints.save(step, tensors(step), optimizer, state, best=step if best is None else best)


def assert_is(found: Weights | None, step: int) -> None:
    """``found`` is what ``save`` saved as ``step``: of weights to use, no optimizer is read."""
    assert found is not None
    assert found.step == step
    assert found.state["epoch"] == step
    for name, tensor in tensors(step).items():
        assert torch.equal(found.weights[name], tensor)
    if isinstance(found, Checkpoint):
        assert torch.equal(found.optimizer["m"], tensors(step + 500)["table"])


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)

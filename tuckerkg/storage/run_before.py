"""What a refit run keeps of the run before: it was trained on everything, so nothing tells how good it is itself.

RUN/refit_of/    sealed: name, step, epochs, validations and evaluations of the run before, its fitted
                 probabilities, and the weights of a blend
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import safetensors.torch
from torch import Tensor

from tuckerkg.storage.sealed_folder import SealedFolder, json_bytes, refusal, write_sealed
from tuckerkg.types import JsonObject

FOLDER = "refit_of"


@dataclass(frozen=True)
class RunBefore:
    """The run whose settings and number of epochs a refit has.

    Attributes:
        name: of its folder.
        step: of the weights that validation chose.
        epochs: as many as led to them; None where nothing was chosen, as in a blend.
        best_mrr: its validation MRR there; None where nothing was ranked.
        triples: how many each of its splits had.
        metrics: its validations, oldest first.
        evaluations: what was found on a split, by its name, as ``Evaluation.as_dict`` gives it.
        state: what a blend says of its members.
        calibration: its fitted probabilities; none where they are plain sigmoids.
        blend: a blend's weights.
    """

    name: str
    step: int
    epochs: float | None
    best_mrr: float | None
    triples: dict[str, int]
    metrics: list[JsonObject] = field(repr=False)
    evaluations: dict[str, JsonObject] = field(repr=False)
    state: JsonObject = field(default_factory=dict, repr=False)
    calibration: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)
    blend: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def as_dict(self) -> JsonObject:
        """For JSON: all but tensors."""
        return {name: value for name, value in vars(self).items() if name not in ("calibration", "blend")}


def write_run_before(run: Path, before: RunBefore) -> None:
    """Write ``before`` into the run folder ``run``.

    Raises:
        RunFolderError: the disk refused.
    """
    files = {
        "run.json": json_bytes(before.as_dict()),
        "calibration.safetensors": safetensors.torch.save(before.calibration),
        "blend.safetensors": safetensors.torch.save(before.blend),
    }
    write_sealed(run / FOLDER, files)


def read_run_before(run: Path) -> RunBefore | None:
    """The run that ``run`` is a refit of; None where it is none.

    Raises:
        RunFolderError: it is damaged.
    """
    if not (run / FOLDER).exists():
        return None
    folder = SealedFolder(run / FOLDER)
    try:
        return RunBefore(
            **folder.read_json("run.json"),
            calibration=folder.read_tensors("calibration.safetensors"),
            blend=folder.read_tensors("blend.safetensors"),
        )
    except TypeError:
        raise refusal(f"{folder.path / 'run.json'}: does not describe a run. Copy it again from its origin.") from None

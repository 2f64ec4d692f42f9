"""The checkpoints of a run: each a sealed folder of its own, and a note of which one is best.

checkpoints/step-N/    weights, optimizer, state; the entity table of a run in shards, and its optimizer, by shard
best.json              the step with the best validation MRR
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from torch import Tensor

from tuckerkg.errors import RunFolderError
from tuckerkg.storage.mapped_tables import MAPPED_FROM, map_table, map_tensors
from tuckerkg.storage.sealed_folder import (
    ASIDE,
    SealedFolder,
    abandon,
    begin_sealed,
    clean_temporaries,
    discard,
    explained,
    json_bytes,
    refusal,
    seal,
    write_atomic,
    write_part,
)
from tuckerkg.types import JsonObject, LogFunction

FOLDER, BEST = "checkpoints", "best.json"
WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
TABLE = "entities"
Which = int | Literal["best", "newest"]

KINDS = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}  # of what ranks write, in safetensors' words
_KEPT = 2  # the newest, and one to fall back on when it is damaged
_STEP = re.compile(rf"step-([0-9]{{8,18}})({re.escape(ASIDE)})?")
_SHARD = re.compile(r"shard-[0-9]{6}\.safetensors")
_log = logging.getLogger("tuckerkg")


@dataclass(frozen=True)
class Weights:
    """What inference needs of a checkpoint: tensors on the CPU, and ``state``, the JSON that the training loop gave.

    With ``mapped`` the entity table lies in a file and must not be written to.
    """

    step: int
    weights: dict[str, Tensor]
    state: JsonObject
    mapped: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Checkpoint(Weights):
    """One verified save, with everything that resuming needs."""

    optimizer: dict[str, Tensor]
    path: Path


class Checkpoints:
    """The checkpoints of the run folder ``run``."""

    def __init__(self, run: Path) -> None:
        self.run, self.path = run, run / FOLDER

    def steps(self) -> list[int]:
        """The steps that have a checkpoint folder, ascending; none of them verified."""
        return sorted(self._paths())

    def save(
        self,
        step: int,
        weights: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        state: Mapping[str, Any],
        best: int,
    ) -> Path:
        """Write the checkpoint of ``step``, note which step is ``best``, then remove others but that and the last two.

        Checkpoints of later steps are removed as well: they are left over from before the run was resumed at an
        earlier one. On any failure the checkpoints that were there stay as they were, and nothing half-written remains.

        Raises:
            RunFolderError: the disk refused.
            ValueError: ``state`` holds NaN or an infinity (store None instead), or ``step`` is negative.
        """
        files = checkpoint_files(step, weights, optimizer, state)
        temporary = self.begin(step)
        try:
            self.seal(step, temporary, {name: write_part(temporary, name, data) for name, data in files.items()}, best)
        except BaseException:
            abandon(temporary)
            raise
        return self._path(step)

    def begin(self, step: int) -> Path:
        """A folder for the files of ``step``, which several processes may write; then ``seal`` it."""
        with explained(f"Cannot write {self.path}"):
            self.path.mkdir(exist_ok=True)
        for folder in (self.path, self.run):
            clean_temporaries(folder)  # before writing, because it may free the space that is needed
        return begin_sealed(self._path(step))

    def seal(self, step: int, temporary: Path, entries: Mapping[str, JsonObject], best: int) -> None:
        """Put the checkpoint of ``step`` in place, note which step is ``best``, remove what is no longer kept."""
        seal(temporary, self._path(step), entries)
        self.note_best(best)
        # The new checkpoint is safe by now; what cannot be removed is tried again at the next save.
        with suppress(OSError, RunFolderError):
            self._prune(step, best)

    def _path(self, step: int) -> Path:
        return self.path / f"step-{step:08d}"

    def note_best(self, step: int) -> None:
        """Note which step has the best validation MRR."""
        write_atomic(self.run / BEST, json_bytes({"step": step}))

    def newest(self, on_fallback: LogFunction = _log.warning) -> Checkpoint | None:
        """The newest checkpoint that is whole, for resuming; None when there is none.

        ``on_fallback`` is called where a damaged one is passed over.

        Raises:
            RunFolderError: all are damaged.
        """
        paths = self._paths()
        damages: list[str] = []
        for step in sorted(paths, reverse=True):
            try:
                found = self.at(step)
            except RunFolderError as error:
                damages.append(str(error))
                continue
            for damage in damages:
                on_fallback(f"{damage}\nUsing the checkpoint of step {step} instead.")
            return found
        if damages:
            raise refusal(
                "\n".join([f"{self.run}: every checkpoint is damaged.", *damages])
                + "\nCopy the run folder again from its origin, or train again with another --out."
            )
        return None

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of ``step``, every file verified.

        Raises:
            RunFolderError: it is damaged or absent.
        """
        folder = self._open(step)
        folder.check_listing()
        read = _weights(step, folder)
        optimizer = folder.read_tensors(OPTIMIZER)
        return Checkpoint(read.step, read.weights, read.state, optimizer, folder.path)

    def weights(self, which: Which = "best", *, mapped: bool | None = False) -> Weights:
        """Weights and state to use a run with; the optimizer's file is not read.

        Args:
            mapped: map the entity table instead of reading it; None: where it lies in shards and is large.

        Raises:
            RunFolderError: they are absent or damaged; no other checkpoint is taken instead.
        """
        step = self.step_of(which)
        try:
            folder = self._open(step)
            found = self._mapped(step, folder) if _is_to_map(folder, mapped) else None
            return found or _weights(step, folder)
        except RunFolderError as error:
            others = [str(other) for other in self.steps() if other != step]
            hint = f"\nIt also has step {' and '.join(others)}: --checkpoint STEP takes one of them." if others else ""
            raise refusal(f"{error}{hint}") from None

    def _mapped(self, step: int, folder: SealedFolder) -> Weights | None:
        """With the entity table mapped; None where it cannot be, or there is none."""
        shards = shards_of(folder)
        weights = map_tensors(folder, WEIGHTS)
        files = shards or [WEIGHTS] * (TABLE in weights)
        table = map_table(self.run, step, folder, TABLE, files) if files else None
        if table is None:
            return None
        weights = {name: tensor.clone() for name, tensor in weights.items() if name != TABLE}
        parts = [map_tensors(folder, name) for name in shards]
        for name in {name for part in parts for name in part} - {TABLE}:
            weights[name] = torch.cat([part[name] for part in parts])
        weights[TABLE] = table
        return Weights(step, weights, read_state(step, folder), mapped=True)

    def sealed(self, step: int) -> SealedFolder:
        """The files of ``step``, each verified when it is read."""
        return self._open(step)

    def folder(self, step: int) -> Path:
        """Where the checkpoint of ``step`` lies.

        Raises:
            RunFolderError: there is none.
        """
        return self._open(step).path

    def step_of(self, which: Which) -> int:
        """The step that is meant."""
        return which if isinstance(which, int) else self.best_step() if which == "best" else self._newest_step()

    def best_step(self) -> int:
        """The step with the best validation MRR.

        Raises:
            RunFolderError: nothing was saved yet, or the note is damaged.
        """
        self._newest_step()
        path = self.run / BEST
        with explained(f"Cannot read {path}"):
            try:
                step = json.loads(path.read_bytes())["step"]
            except (ValueError, KeyError, TypeError, RecursionError):
                step = None
            except FileNotFoundError:
                raise refusal(f"{path}: is missing. Copy the run folder again from its origin.") from None
        if type(step) is not int:
            raise refusal(f"{path}: does not name a step. Copy it again from its origin.")
        return step

    def _newest_step(self) -> int:
        steps = self.steps()
        if not steps:
            raise refusal(f"{self.run}: has no checkpoint yet. Train it first: train --resume {self.run}")
        return steps[-1]

    def _open(self, step: int) -> SealedFolder:
        paths = self._paths()
        if step not in paths:
            known = ", ".join(map(str, sorted(paths))) or "none yet"
            raise refusal(f"{self.run}: has no checkpoint of step {step}; it has {known}.")
        return SealedFolder(paths[step])

    def _paths(self) -> dict[int, Path]:
        paths: dict[int, Path] = {}
        with explained(f"Cannot read {self.path}"), suppress(FileNotFoundError):
            # Sorted, so that "step-N" comes before "step-N.old", which counts only when a crash left it alone.
            for entry in sorted(self.path.iterdir()):
                if match := _STEP.fullmatch(entry.name):
                    paths.setdefault(int(match[1]), entry)
        return paths

    def _prune(self, saved: int, best: int) -> None:
        paths = self._paths()
        recent = sorted(step for step in paths if step <= saved)[-_KEPT:]
        for step in paths.keys() - {*recent, best}:
            discard(paths[step])
        for leftover in self.path.glob(f"step-*{ASIDE}"):
            if leftover.with_name(leftover.name.removesuffix(ASIDE)).exists():
                discard(leftover)


def checkpoint_files(
    step: int, weights: Mapping[str, Tensor], optimizer: Mapping[str, Tensor], state: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files of a checkpoint, but for shards."""
    if not 0 <= step < 10**18:
        raise ValueError(f"step is {step}; it must be 0 or more")
    return {
        WEIGHTS: tensor_bytes(weights),
        OPTIMIZER: tensor_bytes(optimizer),
        STATE: json_bytes({"step": step, "state": dict(state)}),
    }


def shard_files(shard: int) -> tuple[str, str]:
    """The files of a shard's tables and of their optimizer, in a checkpoint whose entity table lies in shards."""
    return f"shard-{shard:06d}.safetensors", f"shard-{shard:06d}-optimizer.safetensors"


def read_state(step: int, folder: SealedFolder) -> JsonObject:
    """The state that was saved with ``step``."""
    stored = folder.read_json(STATE)
    if not isinstance(stored, dict) or stored.get("step") != step or not isinstance(stored.get("state"), dict):
        raise refusal(f"{folder.path / STATE}: is not the state of step {step}. Was the folder renamed?")
    return dict(stored["state"])


def _weights(step: int, folder: SealedFolder) -> Weights:
    state, weights = read_state(step, folder), folder.read_tensors(WEIGHTS)
    shards = [folder.read_tensors(name) for name in shards_of(folder)]
    for name in {name for shard in shards for name in shard}:
        weights[name] = torch.cat([shard[name] for shard in shards])
    return Weights(step, weights, state)


def tensor_pieces(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """A safetensors file in pieces that share the tensors' memory: its header, and each tensor's numbers."""
    plain = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    header: JsonObject = {}
    end = 0
    for name, tensor in plain.items():
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": KINDS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json_bytes(header)
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for tensor in plain.values():
        if tensor.numel():
            yield tensor.reshape(-1).view(torch.uint8).numpy().data


def shards_of(folder: SealedFolder) -> list[str]:
    """The files of the entity table's shards, in their order."""
    return [name for name in folder.names if _SHARD.fullmatch(name)]


def _is_to_map(folder: SealedFolder, mapped: bool | None) -> bool:
    return sum(map(folder.size_of, shards_of(folder))) >= MAPPED_FROM if mapped is None else mapped


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file."""
    plain: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, given in tensors.items():
        tensor = given.detach().cpu().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        # safetensors refuses two tensors in one storage: each is stored on its own.
        plain[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    return safetensors.torch.save(plain)

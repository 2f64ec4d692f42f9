"""The run folder: settings, data, checkpoints and metrics of one training run, all that the other verbs need.

    RUN/settings.json          the whole settings of the run
    RUN/data/                  sealed: vocabulary, titles, read report, one safetensors file per split
    RUN/checkpoints/step-N/    sealed, one per save: weights, optimiser, state
    RUN/metrics.jsonl          one JSON object per line
    RUN/.lock                  held while training

Tensors are safetensors, the rest is JSON: nothing is pickled and nothing is executed on load.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy
import safetensors.torch
from torch import Tensor

from tuckerkg.errors import RunFolderError
from tuckerkg.manifest import (
    ASIDE,
    SealedFolder,
    clean_temporaries,
    discard,
    explained,
    json_bytes,
    refusal,
    write_atomic,
    write_sealed,
)
from tuckerkg.metrics_log import MetricsLog
from tuckerkg.place import CHECKPOINTS, DATA, METRICS, SETTINGS, check_place, check_unused, held, is_run, why_not_a_run

Ids = npt.NDArray[np.int64]

_KEPT = 2  # the newest, and one to fall back on when it is damaged
_STEP = re.compile(rf"step-([0-9]{{8,18}})({re.escape(ASIDE)})?")

_log = logging.getLogger("tuckerkg")


@dataclass(frozen=True)
class Checkpoint:
    """One verified save: tensors on the CPU, and ``state``, the JSON that the training loop gave."""

    step: int
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    state: dict[str, Any]
    path: Path


class RunFolder:
    """One run on disk. Make it with ``create`` (a new run) or ``open`` (one that is there)."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings = settings
        self._data = SealedFolder(path / DATA)
        self._metrics = MetricsLog(path / METRICS)

    @classmethod
    def create(
        cls,
        path: Path,
        settings: dict[str, Any],
        *,
        entities: Sequence[str],
        relations: Sequence[str],
        splits: Mapping[str, npt.NDArray[np.integer[Any]]],
        entity_titles: Mapping[str, str] | None = None,
        relation_titles: Mapping[str, str] | None = None,
        report: Mapping[str, Any] | None = None,
    ) -> RunFolder:
        """Write a new run folder; ``splits`` maps a name to triples [n, 3] of ids.

        Raises:
            RunFolderError: the place is taken, in use or cannot be written (see ``check_place``).
        """
        path = Path(path)
        check_place(path)
        titles = {"entity_titles": dict(entity_titles or {}), "relation_titles": dict(relation_titles or {})}
        files = {
            "entities.json": json_bytes(list(entities)),
            "relations.json": json_bytes(list(relations)),
            "titles.json": json_bytes(titles),
            "report.json": json_bytes(dict(report or {})),
            **{f"{name}.safetensors": _split_bytes(name, triples) for name, triples in splits.items()},
        }
        text = json.dumps(settings, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        with explained(f"Cannot make {path}"):
            path.mkdir(parents=True, exist_ok=True)
        with held(path):
            check_unused(path)  # again: another process may have been quicker
            clean_temporaries(path)
            write_sealed(path / DATA, files)
            with explained(f"Cannot make {path / CHECKPOINTS}"):
                (path / CHECKPOINTS).mkdir(exist_ok=True)
            # Last, because its presence makes this a run folder.
            write_atomic(path / SETTINGS, text.encode("utf-8", "surrogatepass"))
        return cls(path, json.loads(text))

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run folder that is there; only settings and the list of the data files are read.

        Raises:
            RunFolderError: it is not a run folder, is damaged or comes from a newer version.
        """
        path = Path(path)
        with explained(f"Cannot read {path}"):
            if not is_run(path):
                raise refusal(why_not_a_run(path))
            raw = (path / SETTINGS).read_bytes()
        try:
            settings = json.loads(raw.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise refusal(f"{path / SETTINGS}: is not JSON: {error}. Copy it again from its origin.") from None
        if not isinstance(settings, dict):
            raise refusal(f"{path / SETTINGS}: holds no settings, an object of names and values was expected.")
        return cls(path, settings)

    # ------------------------------------------------------------------------------------------ data

    def entities(self) -> list[str]:
        """The entity labels; the position is the id."""
        return self._labels("entities.json")

    def relations(self) -> list[str]:
        """The relation labels, without inverses; the position is the id."""
        return self._labels("relations.json")

    def entity_titles(self) -> dict[str, str]:
        """Readable titles of entities by label; not every label has one."""
        return self._object("titles.json", "entity_titles")

    def relation_titles(self) -> dict[str, str]:
        """Readable titles of relations by label; not every label has one."""
        return self._object("titles.json", "relation_titles")

    def report(self) -> dict[str, Any]:
        """What the reader counted when the data were read."""
        return self._object("report.json")

    def split(self, name: str) -> Ids:
        """The triples [n, 3] of one split; the files of the others are not touched."""
        file = f"{name}.safetensors"
        splits = [known.removesuffix(".safetensors") for known in self._data.names if known.endswith(".safetensors")]
        if name not in splits:
            raise refusal(f"{self.path}: has no split {name!r}; it has {', '.join(splits)}.")
        data = self._data.read_bytes(file)
        try:
            triples = safetensors.numpy.load(data)["triples"]
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
            raise refusal(f"{self._data.path / file}: is not a safetensors file with triples ({error}).") from None
        if triples.dtype != np.int64 or triples.ndim != 2 or triples.shape[1] != 3:
            found = f"{triples.dtype} {list(triples.shape)}"
            raise refusal(f"{self._data.path / file}: triples are {found}, not int64 [n, 3].")
        return triples

    def _labels(self, file: str) -> list[str]:
        labels = self._data.read_json(file)
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise refusal(f"{self._data.path / file}: is not a list of labels.")
        return labels

    def _object(self, file: str, key: str | None = None) -> dict[str, Any]:
        found = self._data.read_json(file)
        if key is not None and isinstance(found, dict):
            found = found.get(key)
        if not isinstance(found, dict):
            raise refusal(f"{self._data.path / file}: is not an object{f' with {key}' if key else ''}.")
        return found

    # ------------------------------------------------------------------------------------------ checkpoints

    def steps(self) -> list[int]:
        """The steps that have a checkpoint folder, ascending; none of them verified."""
        return sorted(self._step_paths())

    def save(
        self,
        step: int,
        weights: Mapping[str, Tensor],
        optimiser: Mapping[str, Tensor],
        state: Mapping[str, Any],
        keep: Collection[int] = (),
    ) -> Path:
        """Write the checkpoint of ``step``, then remove older ones but the one before it and those in ``keep``.

        Checkpoints of later steps are removed as well: they are what a run left that was since resumed from before
        them. On any failure the checkpoints that were there stay as they were, and nothing half-written remains.

        Raises:
            RunFolderError: the disk refused.
            ValueError: ``state`` holds NaN or an infinity (store None instead), or ``step`` is negative.
        """
        if not 0 <= step < 10**18:
            raise ValueError(f"step is {step}; it must be 0 or more")
        files = {
            "weights.safetensors": _tensor_bytes(weights),
            "optimiser.safetensors": _tensor_bytes(optimiser),
            "state.json": json_bytes({"step": step, "state": dict(state)}),
        }
        folder = self.path / CHECKPOINTS
        with explained(f"Cannot write {folder}"):
            folder.mkdir(exist_ok=True)
            self._metrics.sync()  # a checkpoint that survives a power cut must not be ahead of its metrics
        clean_temporaries(folder)  # before writing, because it may free the space that is needed
        path = folder / f"step-{step:08d}"
        write_sealed(path, files)
        # The new checkpoint is safe by now; what cannot be removed is tried again at the next save.
        with suppress(OSError, RunFolderError):
            self._prune(step, keep)
        return path

    def load(self, step: int | None = None, on_fallback: Callable[[str], None] = _log.warning) -> Checkpoint | None:
        """The newest checkpoint that is whole, or None when there is none; or exactly that of ``step``.

        A damaged one is told to ``on_fallback`` and the one before it is tried, unless ``step`` was asked for.

        Raises:
            RunFolderError: that ``step`` is damaged or absent, or all are damaged.
        """
        paths = self._step_paths()
        if step is not None:
            if step not in paths:
                raise refusal(f"{self.path}: has no checkpoint of step {step}; {self._known_steps()}.")
            return _read_checkpoint(step, paths[step])
        damages: list[str] = []
        for candidate in sorted(paths, reverse=True):
            try:
                found = _read_checkpoint(candidate, paths[candidate])
            except RunFolderError as error:
                damages.append(str(error))
                continue
            for damage in damages:
                on_fallback(f"{damage}\nUsing the checkpoint of step {candidate} instead.")
            return found
        if damages:
            raise refusal(
                "\n".join([f"{self.path}: every checkpoint is damaged.", *damages])
                + "\nCopy the run folder again from its origin, or train again with another --out."
            )
        return None

    def best(self, on_fallback: Callable[[str], None] = _log.warning) -> Checkpoint:
        """The checkpoint that the newest one's ``state["best_step"]`` names, else, with a notice, the newest.

        Raises:
            RunFolderError: there is no checkpoint, or all are damaged.
        """
        newest = self.load(on_fallback=on_fallback)
        if newest is None:
            raise refusal(f"{self.path}: has no checkpoint yet. Train it first: train --resume goes on with it.")
        step = newest.state.get("best_step")
        if step == newest.step:
            return newest
        instead = f"Using the newest checkpoint, of step {newest.step}, instead."
        if type(step) is not int or step not in self._step_paths():
            on_fallback(f"{self.path}: has no best checkpoint (best_step is {step}). {instead}")
            return newest
        try:
            return _read_checkpoint(step, self._step_paths()[step])
        except RunFolderError as error:
            on_fallback(f"{error}\n{instead}")
            return newest

    def _step_paths(self) -> dict[int, Path]:
        paths: dict[int, Path] = {}
        with explained(f"Cannot read {self.path / CHECKPOINTS}"), suppress(FileNotFoundError):
            # Sorted, so that "step-N" comes before "step-N.old", which counts only when a crash left it alone.
            for entry in sorted((self.path / CHECKPOINTS).iterdir()):
                if match := _STEP.fullmatch(entry.name):
                    paths.setdefault(int(match[1]), entry)
        return paths

    def _prune(self, saved: int, keep: Collection[int]) -> None:
        paths = self._step_paths()
        recent = sorted(step for step in paths if step <= saved)[-_KEPT:]
        for step in paths.keys() - {*recent, *keep}:
            discard(paths[step])
        for leftover in (self.path / CHECKPOINTS).glob(f"step-*{ASIDE}"):
            if leftover.with_name(leftover.name.removesuffix(ASIDE)).exists():
                discard(leftover)

    def _known_steps(self) -> str:
        steps = self.steps()
        return f"it has {', '.join(map(str, steps))}" if steps else "it has none yet"

    # ------------------------------------------------------------------------------------------ metrics and lock

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add one row to ``metrics.jsonl``; see ``MetricsLog.append``."""
        self._metrics.append(row)

    def metrics(self) -> list[dict[str, Any]]:
        """All rows, in the order they were added; a last line cut by a crash is left out."""
        return self._metrics.rows()

    def truncate_metrics(self, step: int) -> None:
        """Remove the rows after ``step``, so that a run resumed from there does not write them twice."""
        self._metrics.truncate(step)

    def lock(self) -> AbstractContextManager[None]:
        """Hold the run folder for training. The system frees it when this process dies, however it dies.

        Raises:
            RunFolderError: on entering, when another process holds it; the message names that process.
        """
        return held(self.path)


def _read_checkpoint(step: int, path: Path) -> Checkpoint:
    folder = SealedFolder(path)
    folder.check_listing()
    weights, optimiser = folder.read_tensors("weights.safetensors"), folder.read_tensors("optimiser.safetensors")
    stored = folder.read_json("state.json")
    if not isinstance(stored, dict) or stored.get("step") != step or not isinstance(stored.get("state"), dict):
        raise refusal(f"{path / 'state.json'}: is not the state of step {step}. Was the folder renamed?")
    return Checkpoint(step, weights, optimiser, stored["state"], path)


def _tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    plain: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, given in tensors.items():
        tensor = given.detach().cpu().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        # safetensors refuses two tensors in one storage: each is stored on its own.
        plain[name] = tensor.clone() if storage in storages else tensor
        storages.add(storage)
    return safetensors.torch.save(plain)


def _split_bytes(name: str, triples: npt.NDArray[np.integer[Any]]) -> bytes:
    if triples.ndim != 2 or triples.shape[1] != 3:
        raise ValueError(f"split {name!r} has shape {list(triples.shape)}, expected [n, 3]")
    return safetensors.numpy.save({"triples": np.ascontiguousarray(triples, dtype=np.int64)})

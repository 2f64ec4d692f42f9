"""The run folder: settings, data, checkpoints and metrics of one training run, all that the other verbs need.

    RUN/settings.json          the whole settings of the run
    RUN/data/                  sealed: vocabulary, titles, read report, one safetensors file per split
    RUN/graph/                 sealed, instead of these: facts and names in shards, as ``tuckerkg ingest`` wrote them
    RUN/checkpoints/step-N/    sealed, one per save: weights, optimizer, state
    RUN/best.json              the step with the best validation MRR
    RUN/calibration/           sealed: fitted probabilities, by checkpoint and version
    RUN/tables/, RUN/index/    sealed: a table to be mapped, an index of candidates; derived, made where they are wanted
    RUN/metrics.jsonl          one JSON object per line
    RUN/refit_of/              sealed, of a refit: what is known of the run before (``run_before.py``)
    RUN/decisions.jsonl        what people decided about predicted facts (``review/decisions.py``)
    RUN/members/               of a blend: the runs that it is made of
    RUN/.lock                  held while training

Tensors are safetensors, the rest is JSON: nothing is pickled and nothing is executed on load.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy
import safetensors.torch
from torch import Tensor

from tuckerkg.data.shards import ShardedGraph
from tuckerkg.errors import did_you_mean
from tuckerkg.storage.checkpoints import FOLDER as CHECKPOINTS
from tuckerkg.storage.checkpoints import Checkpoints
from tuckerkg.storage.linking import link_sealed
from tuckerkg.storage.lock import HOLDER, LOCK, held
from tuckerkg.storage.metrics_log import MetricsLog
from tuckerkg.storage.sealed_folder import (
    SealedFolder,
    clean_temporaries,
    explained,
    is_temporary,
    json_bytes,
    refusal,
    write_atomic,
    write_sealed,
    write_synced,
)
from tuckerkg.types import JsonObject
from tuckerkg.version import VERSION

Ids = npt.NDArray[np.int64]
SETTINGS, DATA, METRICS, GRAPH = "settings.json", "data", "metrics.jsonl", "graph"
PROGRAM = "program.json"  # of the data: which version of the program made the run


class RunFolder:
    """One run on disk. Make it with ``create`` (a new run) or ``open`` (one that is there)."""

    def __init__(self, path: Path, settings: JsonObject) -> None:
        self.path = path
        self.settings = settings
        self.checkpoints = Checkpoints(path)
        self.metrics = MetricsLog(path / METRICS)
        self._data = SealedFolder(path / DATA)

    @classmethod
    def create(  # noqa: PLR0913  (by keyword)
        cls,
        path: Path,
        settings: JsonObject,
        *,
        entities: Sequence[str],
        relations: Sequence[str],
        splits: Mapping[str, npt.NDArray[np.integer[Any]]],
        entity_titles: Mapping[str, str] | None = None,
        relation_titles: Mapping[str, str] | None = None,
        report: Mapping[str, Any] | None = None,
        extra: Mapping[str, bytes] | None = None,
    ) -> RunFolder:
        """Write a new run folder; ``splits`` maps a name to triples [n, 3] of ids, ``extra`` further files of data.

        Raises:
            RunFolderError: the place is taken, in use or cannot be written (see ``check_place``).
        """
        titles = {"entity_titles": dict(entity_titles or {}), "relation_titles": dict(relation_titles or {})}
        files = {
            "entities.json": json_bytes(list(entities)),
            "relations.json": json_bytes(list(relations)),
            "titles.json": json_bytes(titles),
            "report.json": json_bytes(dict(report or {})),
            PROGRAM: json_bytes({"tuckerkg": VERSION}),
            **{f"{name}.safetensors": _split_bytes(name, triples) for name, triples in splits.items()},
            **dict(extra or {}),
        }
        return cls._create(Path(path), settings, files, None)

    @classmethod
    def create_in_shards(cls, path: Path, settings: JsonObject, graph: Path) -> RunFolder:
        """Write a new run folder whose facts are those of a folder of shards: its files are linked, or copied.

        Raises:
            RunFolderError: as for ``create``.
        """
        return cls._create(Path(path), settings, {PROGRAM: json_bytes({"tuckerkg": VERSION})}, graph)

    @classmethod
    def _create(cls, path: Path, settings: JsonObject, files: Mapping[str, bytes], graph: Path | None) -> RunFolder:
        check_place(path)
        text = json.dumps(settings, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        with explained(f"Cannot make {path}"):
            path.mkdir(parents=True, exist_ok=True)
        with held(path):
            check_unused(path)  # again: another process may have been quicker
            clean_temporaries(path)
            write_sealed(path / DATA, files)
            if graph is not None:
                link_sealed(graph, path / GRAPH)
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

    @cached_property
    def graph(self) -> ShardedGraph | None:
        """Facts and names of a run that was made of shards; the rest of this class joins them. None: they are in data.

        Raises:
            RunFolderError: it is damaged.
        """
        return ShardedGraph(self.path / GRAPH) if (self.path / GRAPH).is_dir() else None

    def num_entities(self) -> int:
        """How many entity labels there are."""
        return len(self.entities()) if self.graph is None else self.graph.num_entities

    def entities(self) -> list[str]:
        """The entity labels; the position is the id."""
        return self._labels("entities.json") if self.graph is None else self.graph.all_names()

    def relations(self) -> list[str]:
        """The relation labels, without inverses; the position is the id."""
        if self.graph is not None:
            return list(self.graph.relations()["name"].to_list())
        return self._labels("relations.json")

    def entity_titles(self) -> dict[str, str]:
        """Readable titles of entities by label; not every label has one."""
        return self._object("titles.json", "entity_titles") if self.graph is None else self.graph.entity_titles()

    def relation_titles(self) -> dict[str, str]:
        """Readable titles of relations by label; not every label has one."""
        return self._object("titles.json", "relation_titles") if self.graph is None else self.graph.relation_titles()

    def report(self) -> JsonObject:
        """What the reader counted when the data were read."""
        return self._object("report.json") if self.graph is None else self.graph.report().as_dict()

    def made_by(self) -> str | None:
        """The version of tuckerkg that made it; None where it does not say."""
        return str(self._object(PROGRAM).get("tuckerkg", "")) or None if PROGRAM in self._data.names else None

    def extra_json(self, file: str) -> JsonObject:
        """A further file of the data, a JSON object.

        Raises:
            RunFolderError: the run has none of this name, or it is damaged.
        """
        if file not in self._data.names:
            raise refusal(f"{self.path}: has no {file}; it was made for another task.")
        return self._object(file)

    def extra_tensors(self, file: str) -> dict[str, Tensor]:
        """A further file of the data, tensors by name; raises as ``extra_json`` does."""
        if file not in self._data.names:
            raise refusal(f"{self.path}: has no {file}; it was made for another task.")
        return self._data.read_tensors(file)

    def split(self, name: str) -> Ids:
        """The triples [n, 3] of one split; the files of the others are not touched."""
        if self.graph is not None:
            return self.graph.split(name)
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

    def _object(self, file: str, key: str | None = None) -> JsonObject:
        found = self._data.read_json(file)
        if key is not None and isinstance(found, dict):
            found = found.get(key)
        if not isinstance(found, dict):
            raise refusal(f"{self._data.path / file}: is not an object{f' with {key}' if key else ''}.")
        return found

    def calibration(self, step: int, version: int) -> dict[str, Tensor] | None:
        """The fitted probabilities of a checkpoint and version, as tensors; None where none are stored.

        Raises:
            RunFolderError: they are damaged.
        """
        path = self._calibration_path(step, version)
        return SealedFolder(path).read_tensors("calibration.safetensors") if path.exists() else None

    def store_calibration(self, step: int, version: int, tensors: Mapping[str, Tensor]) -> None:
        """Keep the fitted probabilities of a checkpoint and version.

        Raises:
            RunFolderError: the folder cannot be written.
        """
        path = self._calibration_path(step, version)
        with explained(f"Cannot write {path.parent}"):
            path.parent.mkdir(exist_ok=True)
        write_sealed(path, {"calibration.safetensors": safetensors.torch.save(dict(tensors))})

    def _calibration_path(self, step: int, version: int) -> Path:
        return self.path / "calibration" / f"step-{step:08d}-version-{version:04d}-joined"

    def lock(self) -> AbstractContextManager[None]:
        """Hold the run folder for training. The system frees it when this process dies, however it dies.

        Raises:
            RunFolderError: on entering, when another process holds it; the message names that process.
        """
        return held(self.path)


def _split_bytes(name: str, triples: npt.NDArray[np.integer[Any]]) -> bytes:
    if triples.ndim != 2 or triples.shape[1] != 3:
        raise ValueError(f"split {name!r} has shape {list(triples.shape)}, expected [n, 3]")
    return safetensors.numpy.save({"triples": np.ascontiguousarray(triples, dtype=np.int64)})


def check_place(path: Path) -> None:
    """Refuse, before any work is done, a place where a new run folder could not be made.

    Raises:
        RunFolderError: it is not empty, is a file, is read-only or may not be written by this user.
    """
    path = Path(path)
    with explained(f"Cannot use {path}"):
        check_unused(path)
        place = path
        while not place.exists():
            place = place.parent
        if not place.is_dir():
            raise refusal(f"{place}: is a file, so no run folder can be made at {path}. Choose another --out.")
        _probe(place)


def check_unused(path: Path) -> None:
    """Refuse a folder that holds a run, or anything else but what a creation left that was killed half-way."""
    if not path.is_dir():
        return
    if is_run(path):
        raise refusal(f"{path}: already holds a run. Go on with it by --resume, or choose another --out.")
    ours = {DATA, GRAPH, CHECKPOINTS, LOCK, HOLDER}
    foreign = [entry.name for entry in path.iterdir() if entry.name not in ours and not is_temporary(entry.name)]
    foreign += [f"{CHECKPOINTS}/{entry.name}" for entry in path.glob(f"{CHECKPOINTS}/*")]
    if foreign:
        raise refusal(f"{path}: is not empty (it holds {min(foreign)}) and is not a run. Choose another --out.")


def is_run(path: Path) -> bool:
    """Whether ``path`` is a run folder: settings are what its creation writes last."""
    return (path / SETTINGS).is_file()


def why_not_a_run(path: Path) -> str:
    """What is wrong with a path that is not a run folder, and which one was perhaps meant."""
    if not path.exists():
        siblings = path.absolute().parent
        runs = [entry.name for entry in siblings.iterdir() if is_run(entry)] if siblings.is_dir() else []
        return f"{path}: there is no such folder.{did_you_mean(path.name, runs)}"
    if not path.is_dir():
        return f"{path}: is a file; a run folder was expected, as train --out makes it."
    for ancestor in path.absolute().parents[:2]:
        if is_run(ancestor):
            return f"{path}: is a part of the run folder {ancestor}; give that."
    inside = sorted(entry.name for entry in path.iterdir() if is_run(entry))
    if inside:
        return f"{path}: is not a run folder but holds some; give one of them: {', '.join(inside[:5])}."
    return f"{path}: is not a run folder, it has no {SETTINGS}. train --out makes one."


def _probe(folder: Path) -> None:
    # Trying is the only sure way: permissions, mounts, quotas and limits all have a say.
    probe = folder / f".probe.tmp-{os.getpid()}"
    try:
        probe.unlink(missing_ok=True)
        write_synced(probe, b"\n")
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)

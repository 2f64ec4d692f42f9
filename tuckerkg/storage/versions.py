"""Versions of a run: facts and entities that were added after training, each version in a sealed folder of its own.

    RUN/versions/version-0002/    everything added since training: entities, triples, the new entities' rows

Version 1 is the run as it was trained. A version holds all that was added up to it, so any one of them can be opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from tuckerkg.storage.sealed_folder import SealedFolder, clean_temporaries, explained, json_bytes, refusal, write_sealed

FOLDER = "versions"
_NAME = re.compile(r"version-([0-9]{4,9})")


@dataclass(frozen=True)
class Version:
    """What was added to a run: ``labels`` of new entities, ``triples [m, 3]``, ``rows`` of the model's entity tables.

    New entities have the ids after the trained ones. ``step`` is the checkpoint that the rows fit.
    """

    number: int
    step: int
    labels: tuple[str, ...]
    triples: np.ndarray
    rows: Mapping[str, Tensor]
    titles: Mapping[str, str] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)


def version_numbers(run: Path) -> list[int]:
    """The versions of a run folder, ascending; 1 is always among them."""
    numbers = {1}
    with explained(f"Cannot read {run / FOLDER}"), suppress(FileNotFoundError):
        numbers |= {int(match[1]) for entry in (run / FOLDER).iterdir() if (match := _NAME.fullmatch(entry.name))}
    return sorted(numbers)


def write_version(run: Path, version: Version) -> Path:
    """Write a version beside the others, all at once."""
    folder = run / FOLDER
    with explained(f"Cannot write {folder}"):
        folder.mkdir(exist_ok=True)
    clean_temporaries(folder)
    path = folder / f"version-{version.number:04d}"
    tensors = {name: rows.detach().cpu().contiguous() for name, rows in version.rows.items()}
    files = {
        "entities.json": json_bytes(list(version.labels)),
        "added.json": json_bytes(
            {"step": version.step, "titles": dict(version.titles), "report": dict(version.report)}
        ),
        "triples.safetensors": save({"triples": torch.from_numpy(np.ascontiguousarray(version.triples))}),
        "rows.safetensors": save(tensors),
    }
    write_sealed(path, files)
    return path


def read_version(run: Path, number: int) -> Version:
    """Read one version, every file verified.

    Raises:
        RunFolderError: there is no such version, or it is damaged.
    """
    known = version_numbers(run)
    if number == 1 or number not in known:
        raise refusal(f"{run}: has no version {number}; it has {', '.join(map(str, known))}.")
    folder = SealedFolder(run / FOLDER / f"version-{number:04d}")
    folder.check_listing()
    labels, added = folder.read_json("entities.json"), folder.read_json("added.json")
    triples = folder.read_tensors("triples.safetensors").get("triples")
    sound = (
        isinstance(labels, list)
        and all(isinstance(label, str) for label in labels)
        and isinstance(added, dict)
        and type(added.get("step")) is int
        and all(isinstance(added.get(key), dict) for key in ("titles", "report"))
        and triples is not None
        and triples.dtype == torch.int64
        and triples.ndim == 2
        and triples.shape[1] == 3
    )
    if not sound or triples is None:
        raise refusal(
            f"{folder.path}: is not a version of a run. Copy it again from its origin, or add the facts again."
        )
    rows = folder.read_tensors("rows.safetensors")
    return Version(number, added["step"], tuple(labels), triples.numpy(), rows, added["titles"], added["report"])

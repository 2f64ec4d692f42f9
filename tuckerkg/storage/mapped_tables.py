"""The entity table as one file that is mapped into memory, not read: a derived file beside the checkpoint.

    RUN/tables/step-N/    sealed: a file of plain numbers for each table, and what it was made of

Processes that map it share one copy, in the system's page cache. Shards would do as well but for two things that were
measured: products of few queries are a tenth slower over shards, whose numbers begin at odd addresses, and their sums
differ in the last bits from those of a table in one piece.

The file is made when it is first wanted, shard by shard; made again where it is damaged, or belongs to other weights.
Its SHA-256 is checked whenever it is opened.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import safetensors
import torch
from torch import Tensor

from tuckerkg.errors import RunFolderError
from tuckerkg.storage.sealed_folder import (
    SealedFolder,
    abandon,
    begin_sealed,
    discard,
    explained,
    json_bytes,
    refusal,
    seal,
    write_part,
)
from tuckerkg.types import JsonObject

FOLDER, ABOUT = "tables", "about.json"
MAPPED_FROM = 1 << 26  # bytes of a table from where on mapping is worth a file
_log = logging.getLogger("tuckerkg")


def map_table(run: Path, step: int, checkpoint: SealedFolder, name: str, files: list[str]) -> Tensor | None:
    """The table ``name`` of a checkpoint, mapped; None where no file can be made of it, which is said.

    Args:
        files: those of the checkpoint that hold its rows, in their order.
    """
    place = run / FOLDER / f"step-{step:08d}"
    if place.is_dir():
        try:
            return _map(SealedFolder(place), checkpoint.fingerprint, name)
        except RunFolderError as error:
            _log.info("%s; it is made again", error)
    try:
        with explained(f"Cannot write {place.parent}"):
            place.parent.mkdir(exist_ok=True)
        _write(place, checkpoint, name, files)
        _remove_others(place)
    except RunFolderError as error:
        _log.warning("%s The table is copied into memory instead of mapped.", error)
        return None
    return _map(SealedFolder(place), checkpoint.fingerprint, name)


def map_tensors(folder: SealedFolder, name: str) -> dict[str, Tensor]:
    """One verified safetensors file as tensors that lie in the file: they take no memory of the process."""
    path = folder.checked_file(name)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (it is no dict)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise refusal(f"{path}: is not a safetensors file ({error}). Weights are read from safetensors only.") from None


def rows_in(folder: SealedFolder, name: str, table: str) -> int:
    """How many rows a table has in a safetensors file; only its header is read."""
    path = folder.sized_file(name)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return int(file.get_slice(table).get_shape()[0])
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RuntimeError, IndexError) as error:
        raise refusal(f"{path}: is not a safetensors file with {table} ({error}).") from None


def _map(folder: SealedFolder, made_of: str, name: str) -> Tensor:
    about = folder.read_json(ABOUT)
    if not isinstance(about, dict) or about.get("made_of") != made_of or about.get("name") != name:
        raise refusal(f"{folder.path}: belongs to other weights.")
    rows, width = (int(number) for number in about["shape"])
    path = folder.checked_file(_file(name))
    if path.stat().st_size != 4 * rows * width:
        raise refusal(f"{path}: does not hold {rows:,} rows of {width:,} numbers.")
    # Private: what a process writes by mistake stays its own.
    return torch.from_file(str(path), shared=False, size=rows * width, dtype=torch.float32).view(rows, width)


def _write(place: Path, checkpoint: SealedFolder, name: str, files: list[str]) -> None:
    temporary = begin_sealed(place)
    try:
        shape, entry = _write_rows(temporary / _file(name), (map_tensors(checkpoint, file)[name] for file in files))
        about = json_bytes({"made_of": checkpoint.fingerprint, "name": name, "shape": shape})
        seal(temporary, place, {_file(name): entry, ABOUT: write_part(temporary, ABOUT, about)})
    except BaseException:
        abandon(temporary)
        raise


def _write_rows(path: Path, parts: Iterable[Tensor]) -> tuple[list[int], JsonObject]:
    """Shape and manifest entry of a file of little-endian numbers, row by row."""
    digest, rows, width = hashlib.sha256(), 0, 0
    with explained(f"Cannot write {path}"), path.open("xb") as file:
        for part in parts:
            if part.dtype != torch.float32 or part.ndim != 2:
                raise refusal(f"{path}: a table of {part.dtype} {list(part.shape)} is not mapped.")
            rows, width = rows + len(part), part.shape[1]
            for piece in part.split(1 << 16):
                data = piece.numpy().astype("<f4", copy=False).tobytes()
                digest.update(data)
                file.write(data)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    return [rows, width], {"sha256": digest.hexdigest(), "bytes": size}


def _remove_others(place: Path) -> None:
    """Tables of steps that are no checkpoints any more; whoever has one mapped keeps it."""
    with suppress(OSError):
        for other in place.parent.glob("step-????????"):
            if other != place and not (place.parent.parent / "checkpoints" / other.name).exists():
                discard(other)


def _file(name: str) -> str:
    return f"{name}.f32"

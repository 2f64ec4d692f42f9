"""Sealed folders: written once, checksummed, and either complete or not there at all.

A folder is written under a temporary name, every file synced, ``manifest.json`` last; then it is renamed into
place. The manifest lists the size and SHA-256 of every file and seals itself with a digest, so whatever is cut,
flipped, missing or added later is noticed when the folder is read. Importing this module does not import torch.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from tuckerkg.errors import RunFolderError, printable
from tuckerkg.types import JsonObject

if TYPE_CHECKING:
    from torch import Tensor


FORMAT = 1
"""The newest format this version reads and the one it writes. The digest rule is the same in every format."""

MANIFEST = "manifest.json"
ASIDE = ".old"
"""Ending of the former folder while a new one takes its place; readers use it when the new one is not there yet."""

_MANIFEST_LIMIT = 1 << 20  # bytes; a larger one is not ours
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TEMPORARY = re.compile(r".+\.tmp-([0-9]+)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REMEDIES = {
    errno.ENOSPC: "Free some disk space or choose another --out.",
    errno.EDQUOT: "Free some of your disk quota or choose another --out.",
    errno.EFBIG: "A file size limit is set; raise it (ulimit -f unlimited) or choose another --out.",
    errno.EIO: "The disk reported an error; look at the system's log and choose another --out.",
    errno.EROFS: "The place is read-only; choose another --out.",
    errno.EACCES: "Change the permissions of the place or choose another.",
    errno.EPERM: "Change the permissions of the place or choose another.",
    errno.ENOTDIR: "A part of the path is a file, not a folder; choose another.",
}


def refusal(text: str) -> RunFolderError:
    """A RunFolderError whose text, which may quote file names, is safe on a terminal."""
    return RunFolderError(printable(text))


@contextmanager
def explained(action: str) -> Iterator[None]:
    """Turn an OSError of the block into a RunFolderError: the action that failed, the cause, the remedy."""
    try:
        yield
    except OSError as error:
        code = error.errno or 0
        cause = error.strerror or str(error)
        place = f" ({error.filename})" if error.filename else ""
        raise refusal(f"{action}: {cause}{place}. {_REMEDIES.get(code, '')}".rstrip()) from error


# ---------------------------------------------------------------------------------------------- writing


def write_sealed(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the folder ``path`` with these files and seal it; a former ``path`` is replaced.

    Whatever goes wrong, the former folder stays and the temporary one is removed.

    Raises:
        RunFolderError: a name is not allowed, or the disk refused.
    """
    for name in files:
        _check_name(path, name)
    temporary = begin_sealed(path)
    try:
        seal(temporary, path, {name: write_part(temporary, name, data) for name, data in files.items()})
    except BaseException:
        abandon(temporary)
        raise


def begin_sealed(path: Path) -> Path:
    """Make the temporary folder of ``path``, for files that several processes write; ``seal`` or ``abandon`` it."""
    temporary = _temporary_name(path)
    with explained(f"Cannot write {path}"):
        _remove_tree(temporary)  # left by a dead process that had this process id
        temporary.mkdir()
    return temporary


def write_part(temporary: Path, name: str, *pieces: bytes | memoryview) -> JsonObject:
    """Write one file of a folder that is not sealed yet, of pieces; what the manifest has to say of it."""
    _check_name(temporary, name)
    digest = hashlib.sha256()
    with explained(f"Cannot write {temporary}"):
        write_synced(temporary / name, *pieces)
    for piece in pieces:
        digest.update(piece)
    return {"sha256": digest.hexdigest(), "bytes": sum(len(piece) for piece in pieces)}


def file_entry(path: Path) -> JsonObject:
    """Have a file on the disk that was written already; what the manifest has to say of it."""
    with explained(f"Cannot write {path}"), path.open("rb") as content:
        os.fsync(content.fileno())
        return {"sha256": hashlib.file_digest(content, "sha256").hexdigest(), "bytes": path.stat().st_size}


def seal(temporary: Path, path: Path, entries: Mapping[str, JsonObject]) -> None:
    """Write the manifest of the files that ``write_part`` wrote, and put the folder in place."""
    with explained(f"Cannot write {path}"):
        write_synced(temporary / MANIFEST, _sealed_bytes(FORMAT, entries))
        sync_folder(temporary)
        _put_in_place(temporary, path)


def abandon(temporary: Path) -> None:
    """Remove a folder that is not sealed."""
    shutil.rmtree(temporary, ignore_errors=True)


def seal_files(folder: Path, path: Path) -> None:
    """Seal the files that lie in ``folder`` and rename it to ``path``, which must not exist; for files of any size.

    Raises:
        RunFolderError: a name is not allowed, ``path`` is there already, or the disk refused.
    """
    with explained(f"Cannot write {path}"):
        (folder / MANIFEST).unlink(missing_ok=True)  # left where this was interrupted
        entries = {}
        for file in sorted(folder.iterdir()):
            _check_name(path, file.name)
            entries[file.name] = file_entry(file)
        manifest = _sealed_bytes(FORMAT, entries)
        if len(manifest) > _MANIFEST_LIMIT:
            raise refusal(f"{path}: {len(entries):,} files are too many for one folder.")
        write_synced(folder / MANIFEST, manifest)
        sync_folder(folder)
        if os.path.lexists(path):
            raise refusal(f"{path}: exists already. Remove it or choose another --out.")
        folder.rename(path)
        sync_folder(path.parent)


def write_atomic(path: Path, data: bytes) -> None:
    """Write one file so that a crash leaves the former content or the new one, never a mixture."""
    temporary = _temporary_name(path)
    with explained(f"Cannot write {path}"):
        try:
            temporary.unlink(missing_ok=True)
            write_synced(temporary, data)
            temporary.replace(path)
            sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def discard(path: Path) -> None:
    """Remove a sealed folder if it is there. Renamed first, so that a crash half-way never leaves a damaged one."""
    if not os.path.lexists(path):
        return
    doomed = _temporary_name(path)
    _remove_tree(doomed)
    path.rename(doomed)
    _remove_tree(doomed)


def clean_temporaries(parent: Path) -> None:
    """Remove what dead processes left half-written in ``parent``; what cannot be removed is left for next time."""
    with suppress(OSError):
        for entry in list(parent.iterdir()):
            match = _TEMPORARY.fullmatch(entry.name)
            if match and not _runs_elsewhere(int(match[1])):
                with suppress(OSError):
                    _remove_tree(entry)


def is_temporary(name: str) -> bool:
    """Whether a folder entry of this name is a half-written one."""
    return _TEMPORARY.fullmatch(name) is not None


def write_synced(path: Path, *pieces: bytes | memoryview) -> None:
    """Write a new file of some pieces and have it on the disk, not only in memory, before returning."""
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Have the names in a folder on the disk: syncing a file does not sync its name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def json_bytes(value: Any) -> bytes:
    """``value`` as one line of JSON. Raises ValueError on NaN and infinities, which JSON does not have."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _put_in_place(temporary: Path, path: Path) -> None:
    aside = path.with_name(path.name + ASIDE)
    try:
        if path.exists():
            discard(aside)
            path.rename(aside)
        temporary.rename(path)
        sync_folder(path.parent)
    except BaseException:
        # A name that is not known to be on the disk must not count as saved.
        with suppress(OSError):
            if not temporary.exists():
                path.rename(temporary)
            if aside.exists() and not path.exists():
                aside.rename(path)
        raise
    with suppress(OSError):  # the new folder is safe; a leftover is removed at the next save
        discard(aside)


def _temporary_name(path: Path) -> Path:
    return path.with_name(f"{path.name}.tmp-{os.getpid()}")


def _remove_tree(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _runs_elsewhere(process_id: int) -> bool:
    # Our own id counts as dead: in a container every run may get the same small id.
    if process_id in (0, os.getpid()):
        return False
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


# ---------------------------------------------------------------------------------------------- manifest


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _sealed_bytes(format_version: int, entries: Mapping[str, Mapping[str, Any]]) -> bytes:
    body = {"format": format_version, "files": entries}
    return _canonical({**body, "digest": hashlib.sha256(_canonical(body)).hexdigest()})


def _read_manifest(folder: Path) -> dict[str, JsonObject]:
    if not os.path.lexists(folder / MANIFEST):
        raise refusal(f"{folder}: {MANIFEST} is missing, so the folder is incomplete. Copy it again from its origin.")
    raw = _read_regular(folder / MANIFEST, limit=_MANIFEST_LIMIT)
    damaged = refusal(f"{folder}: {MANIFEST} is damaged. Copy the folder again from its origin.")
    try:
        found = json.loads(raw)
        version, entries = found["format"], found["files"]
        intact = type(version) is int and raw == _sealed_bytes(version, entries)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise damaged from None
    if not intact:
        raise damaged
    if version > FORMAT:
        raise refusal(
            f"{folder}: was written in format {version} and needs a tuckerkg that reads format {version}; "
            f"this one reads up to format {FORMAT}. Upgrade it: pip install --upgrade tuckerkg"
        )
    return _checked_entries(folder, version, entries)


def _checked_entries(folder: Path, version: int, entries: Any) -> dict[str, JsonObject]:
    # A manifest can be intact and yet have been made by hand; nothing in it is trusted.
    if version < 1 or not isinstance(entries, dict):
        raise refusal(f"{folder}: {MANIFEST} is not a manifest of format {FORMAT}.")
    for name, entry in entries.items():
        _check_name(folder, name)
        plain = isinstance(entry, dict) and entry.keys() == {"sha256", "bytes"}
        if not plain or type(entry["bytes"]) is not int or not _SHA256.fullmatch(str(entry["sha256"])):
            raise refusal(f"{folder}: {MANIFEST} has no size and SHA-256 for {name}.")
    return entries


def _check_name(folder: Path, name: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", "..", MANIFEST):
        raise refusal(
            f"{folder}: the file name {name!r} is not allowed in it; "
            "names have 1 to 64 letters, digits, dots, underscores and hyphens."
        )


# ---------------------------------------------------------------------------------------------- reading


class SealedFolder:
    """The reading side of a sealed folder. Each file is verified when it is read, the manifest at once.

    Files that are not read are not examined, so the rest can be used while one is damaged; ``verify`` looks at all.

    Raises:
        RunFolderError: here and in every method, when something is missing, changed or from a newer version.
    """

    def __init__(self, path: Path) -> None:
        if path.is_symlink():
            raise refusal(f"{path}: is a symbolic link, which is not followed. Put the folder itself in its place.")
        if not path.is_dir():
            raise refusal(f"{path}: there is no such folder.")
        self.path = path
        self._entries = _read_manifest(path)

    @property
    def names(self) -> list[str]:
        """The files the manifest lists, sorted."""
        return sorted(self._entries)

    @property
    def digest(self) -> str:
        """SHA-256 of what the manifest says of all files."""
        return hashlib.sha256(_canonical(self._entries)).hexdigest()

    def read_bytes(self, name: str) -> bytes:
        """The content of one file, its size and SHA-256 verified."""
        entry = self._entry(name)
        data = _read_regular(self.path / name, limit=entry["bytes"])
        self._check_bytes(name, len(data))
        self._check_digest(name, hashlib.sha256(data).hexdigest())
        return data

    def sized_file(self, name: str) -> Path:
        """The path of a file that is too large to be read at once; its size is verified, its content is not."""
        self._entry(name)
        _refuse_link(self.path / name)
        status = (self.path / name).lstat()
        if not stat.S_ISREG(status.st_mode):
            raise refusal(f"{self.path / name}: is not a regular file. Put the file itself in its place.")
        self._check_bytes(name, status.st_size)
        return self.path / name

    @property
    def fingerprint(self) -> str:
        """A digest of what all files are, as the manifest says: what is derived from them keeps it."""
        return hashlib.sha256(_canonical(self._entries)).hexdigest()

    def size_of(self, name: str) -> int:
        """How many bytes a file has, as the manifest says."""
        return int(self._entry(name)["bytes"])

    def checked_file(self, name: str) -> Path:
        """The path of a file whose size and SHA-256 are verified, in constant memory."""
        path = self.sized_file(name)
        with explained(f"Cannot read {path}"), path.open("rb") as file:
            self._check_digest(name, hashlib.file_digest(file, "sha256").hexdigest())
        return path

    def _entry(self, name: str) -> JsonObject:
        entry = self._entries.get(name)
        if entry is None:
            raise refusal(f"{self.path}: has no {name}; it holds {', '.join(self.names)}.")
        if not os.path.lexists(self.path / name):
            raise refusal(f"{self.path}: {name} is missing. Copy the folder again from its origin.")
        return entry

    def _check_bytes(self, name: str, found: int) -> None:
        expected = self._entries[name]["bytes"]
        if found != expected:
            raise refusal(
                f"{self.path / name}: has {found:,} bytes, the manifest says {expected:,}. "
                "The file was cut; copy it again from its origin."
            )

    def _check_digest(self, name: str, found: str) -> None:
        if found != self._entries[name]["sha256"]:
            raise refusal(
                f"{self.path / name}: the SHA-256 differs from the manifest's. "
                "The file is damaged or was changed; copy it again from its origin."
            )

    def read_json(self, name: str) -> Any:
        """One verified file as JSON."""
        try:
            return json.loads(self.read_bytes(name).decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise refusal(f"{self.path / name}: is not JSON: {error}") from None

    def read_tensors(self, name: str) -> dict[str, Tensor]:
        """One verified safetensors file as tensors on the CPU; nothing in it is ever executed."""
        from safetensors.torch import load  # noqa: PLC0415  imports torch, which this module does not

        data = self.read_bytes(name)
        try:
            return load(data)
        except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, AssertionError) as error:
            raise refusal(
                f"{self.path / name}: is not a safetensors file ({error}). Weights are read from safetensors only."
            ) from None

    def check_listing(self) -> None:
        """Refuse a folder with a file missing or with one that the manifest does not list."""
        with explained(f"Cannot read {self.path}"):
            present = {entry.name for entry in self.path.iterdir()} - {MANIFEST}
        missing, extra = sorted(self._entries.keys() - present), sorted(present - self._entries.keys())
        if missing:
            raise refusal(f"{self.path}: {', '.join(missing)} missing. Copy the folder again from its origin.")
        if extra:
            raise refusal(f"{self.path}: {', '.join(extra)} not listed in {MANIFEST}. Remove what does not belong.")

    def verify(self) -> None:
        """Verify every file, and that there is none more and none less."""
        self.check_listing()
        for name in self.names:
            self.checked_file(name)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise refusal(f"{path}: is a symbolic link, which is not followed. Put the file itself in its place.")


def _read_regular(path: Path, limit: int) -> bytes:
    # Neither links, which could lead out of the folder, nor pipes, which could block for ever.
    _refuse_link(path)
    with explained(f"Cannot read {path}"):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise refusal(f"{path}: is not a regular file.")
            if status.st_size > limit:
                raise refusal(f"{path}: has {status.st_size:,} bytes, more than the {limit:,} it may have.")
            return file.read(limit + 1)

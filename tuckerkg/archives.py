"""Unpack a .zip or .tar.gz from a stranger: nothing outside the folder, no links or devices, bounded in every way."""

from __future__ import annotations

import io
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from tuckerkg.textfile import RATIO_FREE_BYTES, Limits, inflate, open_blocks, refuse

SUFFIXES = (".zip", ".tar.gz", ".tgz")
CHUNK = 1 << 18


@dataclass(frozen=True)
class ArchiveLimits:
    """The most an archive may hold: files (folders count too), bytes in all, bytes per byte of the archive."""

    files: int = 1_000
    total_bytes: int = 2 << 30
    ratio: int = 200


def is_archive(path: Path) -> bool:
    """Whether the name says archive."""
    return path.name.lower().endswith(SUFFIXES)


def extract(archive: Path, target: Path, limits: ArchiveLimits | None = None) -> list[Path]:
    """Unpack ``archive`` into the new folder ``target`` and return the files in it.

    Raises InputError, and leaves no ``target`` behind, when any member is unsafe or a limit is passed.
    """
    if not is_archive(archive):
        refuse(str(archive), f"is not an archive that can be unpacked; {', '.join(SUFFIXES)} are")
    target.mkdir(parents=True)
    budget = _Budget(str(archive), limits or ArchiveLimits())
    members = _zip_members if archive.name.lower().endswith(".zip") else _tar_members
    try:
        return [budget.write(target, name, content) for name, content in members(archive, budget)]
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        # Damaged headers surface as many kinds of error; to a person they are one.
        if isinstance(error, (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError)):
            refuse(str(archive), f"damaged archive ({error}); get it again")
        if isinstance(error, OSError):
            refuse(str(archive), f"cannot be unpacked: {error.strerror or error}")
        raise


class _Budget:
    """Counts files and bytes while they are written, whatever the archive's own headers claim."""

    def __init__(self, shown: str, limits: ArchiveLimits) -> None:
        self.shown, self.limits = shown, limits
        self.members = self.bytes = 0
        self.archive_bytes = Path(shown).stat().st_size if Path(shown).is_file() else 0

    def member(self, name: str) -> None:
        """Count a member and check its name."""
        self.members += 1
        if self.members > self.limits.files:
            refuse(self.shown, f"holds more than the {self.limits.files:,} files allowed; unpack it yourself")
        pure = PurePosixPath(name)
        unsafe = pure.is_absolute() or ".." in pure.parts or "\\" in name or re.match(r"[A-Za-z]:", name)
        if unsafe or not pure.parts or not name.isprintable():
            refuse(
                self.shown, f"the member {name!r} would leave the folder it is unpacked into; do not trust this archive"
            )

    def write(self, target: Path, name: str, content: IO[bytes]) -> Path:
        path = target / PurePosixPath(name)
        if path.exists():
            refuse(self.shown, f"holds {name!r} twice; get another copy")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as handle:
            while chunk := content.read(CHUNK):
                self.bytes += len(chunk)
                self._check()
                handle.write(chunk)
        return path

    def _check(self) -> None:
        if self.bytes > self.limits.total_bytes:
            refuse(self.shown, f"unpacks to more than the {self.limits.total_bytes:,} bytes allowed")
        if self.bytes > max(RATIO_FREE_BYTES, self.limits.ratio * self.archive_bytes):
            refuse(self.shown, f"unpacks to more than {self.limits.ratio} times its size, which looks like a bomb")

    def refuse_kind(self, name: str, kind: str) -> None:
        refuse(
            self.shown, f"the member {name!r} is {kind}, only files and folders are unpacked; do not trust this archive"
        )


def _zip_members(archive: Path, budget: _Budget) -> Iterator[tuple[str, IO[bytes]]]:
    next(open_blocks(archive, str(archive)), b"")  # refuses what is missing, unreadable or no regular file
    with zipfile.ZipFile(archive) as package:
        for info in package.infolist():
            budget.member(info.filename)
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                budget.refuse_kind(info.filename, "a link" if kind == stat.S_IFLNK else "a device")
            if info.flag_bits & 1:
                budget.refuse_kind(info.filename, "encrypted")
            if not info.is_dir():
                with package.open(info) as content:
                    yield info.filename, content


def _tar_members(archive: Path, budget: _Budget) -> Iterator[tuple[str, IO[bytes]]]:
    limits = Limits(total_bytes=budget.limits.total_bytes, ratio=budget.limits.ratio)
    stream = _Stream(inflate(open_blocks(archive, str(archive)), str(archive), limits))
    with tarfile.open(fileobj=stream, mode="r|") as package:
        for info in package:
            budget.member(info.name)
            if info.isdir():
                continue
            if not info.isreg():
                budget.refuse_kind(info.name, "a link" if info.issym() or info.islnk() else "a device")
            content = package.extractfile(info)
            if content is not None:
                yield info.name, content


class _Stream(io.RawIOBase):
    """Blocks as a file to read from, so that the tar reader never sees more than the limits allow."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.blocks = blocks
        self.left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        parts = [self.left]
        have = len(self.left)
        while size is None or size < 0 or have < size:
            block = next(self.blocks, None)
            if block is None:
                break
            parts.append(block)
            have += len(block)
        data = b"".join(parts)
        end = len(data) if size is None or size < 0 else size
        self.left = data[end:]
        return data[:end]

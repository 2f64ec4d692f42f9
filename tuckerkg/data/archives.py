"""Unpack a .zip or .tar.gz from a stranger.

``tarfile`` with its "data" filter and ``zipfile`` do the unpacking and keep files inside the folder, but neither limits
what comes out, and both rename or overwrite silently: ``/etc/x`` becomes ``etc/x``, a link in a .zip a file, a second
``train.txt`` replaces the first. So this module checks every member before it is unpacked, and refuses the archive with
a message: too many files or bytes, a ratio that looks like a bomb, links, devices, encryption, names that lead outside
or that a terminal must not show, a name twice.
"""

from __future__ import annotations

import gzip
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tuckerkg.data.readers.bytes import RATIO_FREE_BYTES, open_blocks, refuse

try:
    from lzma import LZMAError
except ImportError:  # Python was built without it, and zipfile refuses such members by a RuntimeError
    LZMAError = RuntimeError  # type: ignore[assignment,misc]

SUFFIXES = (".zip", ".tar.gz", ".tgz")
CHUNK = 1 << 18
# Damaged headers surface as many kinds of error; to a person they are one.
DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    LZMAError,
    EOFError,
    ValueError,
    RuntimeError,
)


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

    Raises:
        InputError: a member is unsafe, a limit is passed or the archive is damaged; there is no ``target`` then.
    """
    if not is_archive(archive):
        refuse(str(archive), f"is not an archive that can be unpacked; {', '.join(SUFFIXES)} are")
    next(open_blocks(archive, str(archive)), b"")  # refuses what is missing, unreadable or no regular file
    checker = _Checker(archive, target, limits or ArchiveLimits())
    unpack = _unpack_zip if archive.name.lower().endswith(".zip") else _unpack_tar
    target.mkdir(parents=True)
    try:
        return list(unpack(checker))
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, DAMAGED):
            refuse(str(archive), f"damaged archive ({error}); get it again")
        if isinstance(error, OSError):
            refuse(str(archive), f"cannot be unpacked: {error.strerror or error}; check the archive and the disk")
        raise


class _Checker:
    """Checks the members of one archive, one after the other, before they are unpacked."""

    def __init__(self, archive: Path, target: Path, limits: ArchiveLimits) -> None:
        self.archive, self.target, self.limits = archive, target, limits
        self.archive_bytes = archive.stat().st_size
        self.members = self.bytes = 0

    def check_member(self, name: str, kind: str | None) -> None:
        """Count a member; ``kind`` names what is neither a file nor a folder."""
        self.members += 1
        if self.members > self.limits.files:
            self.refuse(f"holds more than the {self.limits.files:,} files allowed; unpack it yourself")
        pure = PurePosixPath(name)
        unsafe = pure.is_absolute() or ".." in pure.parts or "\\" in name or re.match(r"[A-Za-z]:", name)
        if unsafe or not pure.parts or not name.isprintable():
            self.refuse(f"the member {name!r} would leave the folder it is unpacked into; do not trust this archive")
        if kind is not None:
            self.refuse(
                f"the member {name!r} is {kind}, only files and folders are unpacked; do not trust this archive"
            )

    def check_new(self, name: str) -> None:
        """Refuse a file that would replace another one."""
        if (self.target / name).exists():
            self.refuse(f"holds {name!r} twice; get another copy")

    def count_bytes(self, number: int) -> None:
        """Count bytes that come out of the archive."""
        self.bytes += number
        if self.bytes > self.limits.total_bytes:
            self.refuse(f"unpacks to more than the {self.limits.total_bytes:,} bytes allowed")
        if self.bytes > max(RATIO_FREE_BYTES, self.limits.ratio * self.archive_bytes):
            self.refuse(f"unpacks to more than {self.limits.ratio} times its size, which looks like a bomb")

    def refuse(self, what: str) -> None:
        refuse(str(self.archive), what)


def _unpack_zip(checker: _Checker) -> Iterator[Path]:
    with zipfile.ZipFile(checker.archive) as package:
        for info in package.infolist():
            checker.check_member(info.filename, _kind_in_zip(info))
            if not info.is_dir():
                checker.check_new(info.filename)
                checker.count_bytes(info.file_size)  # zipfile stops there, whatever the data would inflate to
                yield Path(package.extract(info, checker.target))


def _kind_in_zip(info: zipfile.ZipInfo) -> str | None:
    mode = stat.S_IFMT(info.external_attr >> 16)
    if mode not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a link" if mode == stat.S_IFLNK else "a device"
    return "encrypted" if info.flag_bits & 1 else None


def _unpack_tar(checker: _Checker) -> Iterator[Path]:
    # Read as a stream: a header that claims a huge size is then read in small pieces too, which are counted.
    with _CountedGzip(checker) as stream, tarfile.open(fileobj=stream, mode="r|") as package:
        for info in package:
            checker.check_member(info.name, _kind_in_tar(info))
            if not info.isdir():
                checker.check_new(info.name)
                package.extract(info, checker.target, set_attrs=False, filter="data")
                yield checker.target / info.name
        while stream.read(CHUNK):  # gzip verifies its checksum at the end only
            pass


def _kind_in_tar(info: tarfile.TarInfo) -> str | None:
    if info.isdir() or (info.isreg() and not info.issparse()):
        return None
    if info.issparse():
        return "a file with holes"
    return "a link" if info.issym() or info.islnk() else "a device"


class _CountedGzip(gzip.GzipFile):
    """A gzip file that counts what it inflates."""

    def __init__(self, checker: _Checker) -> None:
        super().__init__(checker.archive, "rb")
        self.checker = checker

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.checker.count_bytes(len(data))
        return data

"""Sealed folders put elsewhere without copying what is in them, where the file system can."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tuckerkg.storage.sealed_folder import abandon, begin_sealed, explained, sync_folder


def link_file(file: Path, place: Path) -> None:
    """A hard link, or a copy where there can be none: on another file system, or on one without them."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)
        with place.open("rb") as copied:
            os.fsync(copied.fileno())


def link_sealed(folder: Path, place: Path) -> None:
    """Put the files of a sealed folder at ``place`` as well, all or nothing; a former ``place`` is an unfinished one.

    Raises:
        RunFolderError: the disk refused.
    """
    temporary = begin_sealed(place)
    try:
        with explained(f"Cannot write {place}"):
            for file in regular_files(folder):
                link_file(file, temporary / file.name)
            sync_folder(temporary)
            shutil.rmtree(place, ignore_errors=True)
            temporary.rename(place)
            sync_folder(place.parent)
    except BaseException:
        abandon(temporary)
        raise


def regular_files(folder: Path) -> Iterator[Path]:
    """The files of a folder, without links, in the order of their names."""
    for entry in sorted(folder.iterdir()):
        if entry.is_file() and not entry.is_symlink():
            yield entry

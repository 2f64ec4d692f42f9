"""The members of a blend: run folders below its own, so that it needs nothing else.

    RUN/members/0/    the first one: its settings, data, metrics and the checkpoint that is used

What is sealed is never written again and therefore hard-linked where the file system can; the rest is copied.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuckerkg.storage.checkpoints import FOLDER as CHECKPOINTS
from tuckerkg.storage.linking import link_file, regular_files
from tuckerkg.storage.run_folder import DATA, GRAPH, METRICS, SETTINGS, RunFolder
from tuckerkg.storage.sealed_folder import explained, refusal, sync_folder

FOLDER = "members"


def member_folders(run: Path, count: int) -> list[RunFolder]:
    """The ``count`` members of the blend ``run``.

    Raises:
        RunFolderError: one is missing or damaged.
    """
    return [_member(run / FOLDER / str(place)) for place in range(count)]


def copy_member(folder: RunFolder, step: int, place: Path) -> None:
    """Make a run folder at ``place`` that has the checkpoint of ``step`` of ``folder`` as its best one, and no other.

    Raises:
        RunFolderError: the disk refused.
    """
    checkpoint = folder.checkpoints.folder(step)
    with explained(f"Cannot copy {folder.path} to {place}"):
        place.mkdir(parents=True)
        sealed = [(folder.path / DATA, DATA), (checkpoint, f"{CHECKPOINTS}/step-{step:08d}")]
        sealed += [(folder.path / GRAPH, GRAPH)] if folder.graph is not None else []
        for source, name in sealed:
            (place / name).mkdir(parents=True)
            for file in regular_files(source):
                link_file(file, place / name / file.name)
        for name in (SETTINGS, METRICS):
            if (folder.path / name).is_file():
                shutil.copyfile(folder.path / name, place / name)
    copied = RunFolder.open(place)
    copied.checkpoints.note_best(step)
    for inner in sorted((folder.path / FOLDER).glob("*")):  # of a blend
        member = _member(inner)
        copy_member(member, member.checkpoints.best_step(), place / FOLDER / inner.name)


@contextmanager
def made_whole(path: Path) -> Iterator[Path]:
    """A folder to write in that gets the name ``path`` when the block has ended well; else nothing of it remains.

    Raises:
        RunFolderError: the disk refused, or ``path`` was taken in the meantime.
    """
    place = path.absolute()
    temporary = place.with_name(f"{place.name}.tmp-{os.getpid()}")
    with explained(f"Cannot make {path}"):
        shutil.rmtree(temporary, ignore_errors=True)  # left by a dead process that had this process id
        place.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        with explained(f"Cannot make {path}"):
            temporary.rename(place)
            sync_folder(place.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _member(path: Path) -> RunFolder:
    if path.is_symlink():  # it could lead to the blend itself
        raise refusal(f"{path}: is a link; a member of a blend is a folder inside it. Blend the runs again.")
    return RunFolder.open(path)

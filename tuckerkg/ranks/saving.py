"""Checkpoints that many ranks write and read: each its own shards, the first one what all have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from tuckerkg.errors import RunFolderError, TuckerkgError
from tuckerkg.ranks.group import Group
from tuckerkg.storage.checkpoints import (
    OPTIMIZER,
    WEIGHTS,
    Checkpoints,
    checkpoint_files,
    read_state,
    shard_files,
    tensor_pieces,
)
from tuckerkg.storage.sealed_folder import SealedFolder, abandon, write_part
from tuckerkg.types import JsonObject, LogFunction

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Saved:
    """What a rank has of a checkpoint: what all have in common, and its shards, with their optimizers."""

    step: int
    state: JsonObject
    weights: Tensors
    optimizer: Tensors
    shards: Mapping[int, tuple[Tensors, Tensors]]


def save_in_shards(group: Group, checkpoints: Checkpoints, saved: Saved, best: int) -> None:
    """Write a checkpoint together. It is whole, or not there: on any rank's error every rank raises it.

    The run folder is one that all ranks see.

    Raises:
        TuckerkgError: the error of a rank, with its number.
    """
    temporary = Path()
    entries: JsonObject = {}

    def begin() -> None:
        nonlocal temporary
        files = checkpoint_files(saved.step, saved.weights, saved.optimizer, saved.state)
        temporary = checkpoints.begin(saved.step)
        entries.update({name: write_part(temporary, name, data) for name, data in files.items()})

    def write() -> None:
        for shard, tensors in saved.shards.items():
            for name, part in zip(shard_files(shard), tensors, strict=True):
                entries[name] = write_part(temporary, name, *tensor_pieces(part))

    def finish() -> None:
        checkpoints.seal(saved.step, temporary, every, best)

    try:
        _all_succeed(group, begin, group.is_first)
        temporary = Path(group.tell(str(temporary))[0])
        _all_succeed(group, write)
        every = {name: entry for part in group.tell(entries) for name, entry in part.items()}
        _all_succeed(group, finish, group.is_first)
    except BaseException:
        if group.is_first and temporary != Path():
            abandon(temporary)
        raise


def newest_in_shards(group: Group, checkpoints: Checkpoints, own: list[int], log: LogFunction) -> Saved | None:
    """The newest checkpoint that is whole for every rank, with the shards ``own``; None where nothing is saved.

    Raises:
        TuckerkgError: all are damaged, or were not saved in shards.
    """
    steps = [int(step) for step in group.tell(checkpoints.steps())[0]]
    damages: list[str] = []
    for step in sorted(steps, reverse=True):
        found, problem = None, None
        try:
            found = _read(checkpoints, step, own)
        except RunFolderError as error:
            problem = str(error)
        problems = [f"rank {rank}: {text}" for rank, text in enumerate(group.tell(problem)) if text is not None]
        if not problems:
            for damage in damages:
                log(f"{damage}\nUsing the checkpoint of step {step} instead.")
            return found
        damages.append(problems[0])
    if damages:
        raise TuckerkgError("\n".join([f"{checkpoints.run}: no checkpoint can be used.", *damages]))
    return None


def _read(checkpoints: Checkpoints, step: int, own: list[int]) -> Saved:
    folder = checkpoints.sealed(step)
    folder.check_listing()
    for name in (name for shard in own for name in shard_files(shard)):
        folder.checked_file(name)
    weights, optimizer = folder.read_tensors(WEIGHTS), folder.read_tensors(OPTIMIZER)
    return Saved(step, read_state(step, folder), weights, optimizer, _ShardFiles(folder, own))


class _ShardFiles(Mapping[int, tuple[Tensors, Tensors]]):
    """Shards of a checkpoint, read when they are asked for: a rank holds its tables once, and one more shard."""

    def __init__(self, folder: SealedFolder, own: list[int]) -> None:
        self.folder, self.own = folder, own

    def __getitem__(self, shard: int) -> tuple[Tensors, Tensors]:
        tables, optimizer = shard_files(shard)
        return self.folder.read_tensors(tables), self.folder.read_tensors(optimizer)

    def __iter__(self) -> Iterator[int]:
        return iter(self.own)

    def __len__(self) -> int:
        return len(self.own)


def _all_succeed(group: Group, action: Callable[[], None], mine: bool = True) -> None:
    error = None
    if mine:
        try:
            action()
        except (RunFolderError, OSError) as found:
            error = found
    group.succeed(error)

"""A program that trains on ranks for tests: it writes each step's loss, and something may happen to a rank."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import time
from pathlib import Path

import torch

import tuckerkg.ranks.loop as rank_loop
from tuckerkg.errors import TuckerkgError
from tuckerkg.ranks.group import end_process, joined
from tuckerkg.ranks.loop import fit_on_ranks
from tuckerkg.storage import sealed_folder
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import Callback
from tuckerkg.training.loop import Loop

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "interrupt": signal.SIGTERM}


class Losses(Callback):
    def __init__(self, file: Path) -> None:
        self.file = file.open("a", encoding="utf-8")

    def stepped(self, step: int, loss: float, lr: float) -> None:
        self.file.write(f"{step} {loss!r}\n")
        self.file.flush()

    def log(self, text: str) -> None:
        print(text)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("losses", type=Path)
    parser.add_argument("--at", type=int, default=0)
    for what in (*SIGNALS, "refuse"):
        parser.add_argument(f"--{what}", type=int)
    parser.add_argument("--once", type=Path)
    parser.add_argument("--other")
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--timeout", type=float, default=60.0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    before = Loop._step

    def step(self: Loop, batch: object) -> None:
        before(self, batch)  # type: ignore[arg-type]
        time.sleep(asked.slow)
        for name, number in SIGNALS.items():
            if (
                getattr(asked, name) == rank
                and self.state.step == asked.at
                and not (asked.once and asked.once.exists())
            ):
                if asked.once:
                    asked.once.touch()
                os.kill(os.getpid(), number)

    Loop._step = step  # type: ignore[method-assign]
    if asked.refuse == rank:
        sealed_folder.write_synced = refuse_to_write  # type: ignore[assignment]
    if asked.other and rank == 1:
        differ(asked.other)
    try:
        with joined(asked.timeout) as group:
            fit_on_ranks(RunFolder.open(asked.folder) if group.is_first else None, Losses(asked.losses), asked.timeout)
    except TuckerkgError as error:
        print(f"tuckerkg: {error}", flush=True)
        end_process(1)
    end_process()


def refuse_to_write(path: Path, *pieces: bytes) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def differ(what: str) -> None:
    """Let this rank have another version, other settings or other data."""
    if what == "version of tuckerkg":
        rank_loop.VERSION = "0.0.1"  # type: ignore[misc]
        return
    opened = RunFolder.open

    def open_other(path: Path) -> RunFolder:
        folder = opened(path)
        if what == "settings file":
            folder.settings = {**folder.settings, "train": {**folder.settings["train"], "lr": 0.5}}
        else:
            split = folder.split
            folder.split = lambda name: split(name)[:-1]  # type: ignore[method-assign]
        return folder

    RunFolder.open = open_other  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    main()

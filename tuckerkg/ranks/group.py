"""The processes that train together, and what they tell one another.

Started by ``torchrun``, every process is a rank; without it there is one, alone, and nothing is sent.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from tuckerkg.errors import TuckerkgError

TIMEOUT = 300.0  # seconds that a rank waits for the others
PR_SET_PDEATHSIG = 1  # of Linux's prctl
LAST_WORDS = 5.0  # seconds in which ranks that are alive say so after one is lost


class RankLostError(TuckerkgError):
    """Another rank died, or does not answer."""


@dataclass(frozen=True)
class Group:
    """``size`` processes, of which this is number ``rank``; collective calls are made by all of them in one order.

    ``sent`` counts the bytes that this rank has given to others.
    """

    rank: int = 0
    size: int = 1
    timeout: float = TIMEOUT
    sent: list[int] | None = None

    @property
    def is_first(self) -> bool:
        """Whether this rank writes what is written once."""
        return self.rank == 0

    def gather(self, tensor: Tensor) -> Tensor:
        """The tensors of all ranks, of one shape, in the order of the ranks: ``[...] -> [size, ...]``."""
        if self.size == 1:
            return tensor[None]
        found = tensor.new_empty(self.size * max(tensor.numel(), 1)).view(self.size, -1)
        flat = tensor.reshape(-1) if tensor.numel() else tensor.new_zeros(1)
        with self._collective():
            dist.all_gather(list(found.unbind(0)), flat.contiguous())
        self._count(flat.numel() * flat.element_size() * (self.size - 1))
        return found[:, : tensor.numel()].view(self.size, *tensor.shape)

    def gather_rows(self, rows: Tensor, counts: list[int]) -> list[Tensor]:
        """``rows [counts[rank], ...]`` of every rank."""
        if self.size == 1:
            return [rows]
        most = max(counts)
        padded = rows.new_zeros(most, *rows.shape[1:])
        padded[: len(rows)] = rows
        return [part[:count] for part, count in zip(self.gather(padded), counts, strict=True)]

    def total(self, counts: Tensor) -> Tensor:
        """The sum over all ranks of whole numbers, which is the same in any order; ``counts`` is overwritten."""
        if self.size > 1:
            with self._collective():
                dist.all_reduce(counts)
            self._count(2 * counts.numel() * counts.element_size() * (self.size - 1) // self.size)
        return counts

    def tell(self, value: Any) -> list[Any]:
        """What every rank says, as JSON; small things only."""
        if self.size == 1:
            return [value]
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = self.gather(torch.tensor([len(data)]))[:, 0].tolist()
        return [json.loads(bytes(part.tolist())) for part in self.gather_rows(data, sizes)]

    def agree(self, what: str, value: str) -> None:
        """Refuse to go on where ``value`` is not the same on all ranks.

        Raises:
            TuckerkgError: on every rank, with the first one that differs.
        """
        said = self.tell([value, socket.gethostname()])
        for rank, (other, host) in enumerate(said):
            if other != said[0][0]:
                raise TuckerkgError(
                    f"rank {rank} on {host} has another {what} than rank 0: {other}, not {said[0][0]}. Give all ranks "
                    "the same program, settings and data"
                )

    def succeed(self, error: BaseException | None) -> None:
        """Go on where no rank has an error; otherwise all of them raise it, with the number of the rank.

        Raises:
            TuckerkgError: the first rank's error.
        """
        for rank, text in enumerate(self.tell(None if error is None else str(error))):
            if text is not None:
                raise TuckerkgError(f"rank {rank}: {text}" if self.size > 1 else text) from error

    def leave(self) -> None:
        """Part from the others, where all of them do."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def _count(self, number: int) -> None:
        if self.sent is not None:
            self.sent[0] += number

    @contextmanager
    def _collective(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # what torch raises where a peer is gone or late
            raise RankLostError(self._who_is_lost(error)) from error

    def _who_is_lost(self, error: RuntimeError) -> str:
        """Ask who is alive, by the store that the ranks met at."""
        cause = str(error).strip().partition("\n")[0]
        found: list[list[int]] = []
        # The store waits for ever where the cable to it is cut: who asks it is left behind.
        asking = threading.Thread(target=self._ask_store, args=(found,), daemon=True)
        asking.start()
        asking.join(2 * LAST_WORDS)
        who = "the machine of rank 0, which keeps the store of all, does not answer"
        if found:
            named = " and ".join(f"rank {rank}" for rank in found[-1])
            who = f"{named} does not answer" if found[-1] else "a connection between ranks broke"
        return (
            f"rank {self.rank} of {self.size}: {who} ({cause}). The newest checkpoint is whole: start all ranks again "
            "with --resume to go on from it"
        )

    def _ask_store(self, found: list[list[int]]) -> None:
        """Add the ranks that are silent after ``LAST_WORDS``, or none of them."""
        try:
            store = dist.distributed_c10d._get_default_store()
            store.set(f"alive/{self.rank}", "yes")
            end = time.monotonic() + LAST_WORDS
            silent = [self.rank]
            while silent and time.monotonic() < end:
                silent = [rank for rank in range(self.size) if not store.check([f"alive/{rank}"])]
                time.sleep(0.1)
            found.append(silent)
        except (RuntimeError, ValueError):
            return


@contextmanager
def joined(timeout: float = TIMEOUT) -> Iterator[Group]:
    """The group that this process was started in by ``torchrun``; alone without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or not os.environ.get("RANK"):
        yield Group(timeout=timeout)
        return
    if dist.is_initialized():
        yield Group(dist.get_rank(), dist.get_world_size(), timeout, [0])
        return
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    _end_with_launcher()
    try:
        store, rank, _ = next(rendezvous("env://", timeout=timedelta(seconds=timeout)))
        # What ranks wrote before torchrun started them again must not be taken for what these write.
        own = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        dist.init_process_group(backend, store=own, rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
    except (RuntimeError, ValueError) as error:
        raise RankLostError(
            f"rank {os.environ['RANK']} of {size} met no others: {str(error).strip().partition(chr(10))[0]}"
        ) from error
    yield Group(rank, size, timeout, [0])
    dist.destroy_process_group()  # not after an error: it would wait for a rank that is gone


def _end_with_launcher() -> None:
    """Be asked to stop when the process that started this one ends, however it ends; on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end_process(code: int = 0) -> NoReturn:
    """End this rank at once, with everything written.

    Under load, now and then, a thread of torch's C++ libraries is not joined while the interpreter takes itself down
    ("terminate called without an active exception"), which aborts a rank that has done all its work.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def rank_of_process() -> int:
    """This process's number among those that ``torchrun`` started; 0 without it."""
    return int(os.environ.get("RANK") or 0)


def is_started_for_ranks() -> bool:
    """Whether ``torchrun`` started this process, alone or with others."""
    return bool(os.environ.get("RANK") and os.environ.get("WORLD_SIZE"))

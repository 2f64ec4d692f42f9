"""Prepares the next batch while the step runs. A batch depends on (seed, step) only, so nothing else changes."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Literal

import torch

from tuckerkg.batches.batch import Batches, StepBatch

Worker = Literal["auto", "on", "off"]


class Prefetch:
    """Batches from a worker thread with one torch thread, one step ahead; use it in a ``with`` block.

    ``worker`` "auto" uses one where a processor core is free for it: with a GPU, or with fewer torch threads than
    cores. Where the step itself uses every core, a worker takes a core from it at the wrong moments and costs more
    than it saves. Batches are the same either way.
    """

    def __init__(self, batches: Batches, total_steps: int, worker: Worker = "auto") -> None:
        self.batches, self.total_steps = batches, total_steps
        self._next: tuple[int, Future[StepBatch]] | None = None
        self._worker: ThreadPoolExecutor | None = None
        if worker == "on" or (worker == "auto" and _a_core_is_free()):
            threads = torch.get_num_threads()
            self._worker = ThreadPoolExecutor(1, "tuckerkg-batches", initializer=torch.set_num_threads, initargs=(1,))
            self._worker.submit(int).result()  # the worker exists now ...
            torch.set_num_threads(threads)  # ... and threads of other pools start as before

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(self, *raised: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)

    def batch(self, step: int) -> StepBatch:
        """The batch of ``step``, which a worker has ready if the last one asked for was ``step - 1``."""
        if self._worker is None:
            return self.batches.batch(step)
        if self._next is None or self._next[0] != step:
            self._next = (step, self._worker.submit(self.batches.batch, step))
        batch = self._next[1].result()
        self._next = None
        if step + 1 < self.total_steps:
            self._next = (step + 1, self._worker.submit(self.batches.batch, step + 1))
        return batch


def _a_core_is_free() -> bool:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return torch.cuda.is_available() or torch.get_num_threads() < cores

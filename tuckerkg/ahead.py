"""Prepares the next batch while the step runs. A batch depends on (seed, step) only, so nothing else changes."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import torch

from tuckerkg.batches import Batch, Batches


class Ahead:
    """Batches from a worker thread, one step ahead; use it in a ``with`` block.

    Every batch is made by the worker, with one torch thread, also the first: sums then come out the same whether a run
    went through or was resumed.
    """

    def __init__(self, batches: Batches, total_steps: int) -> None:
        self.batches, self.total_steps = batches, total_steps
        threads = torch.get_num_threads()
        self._worker = ThreadPoolExecutor(1, "tuckerkg-batches", initializer=torch.set_num_threads, initargs=(1,))
        self._worker.submit(int).result()  # the worker exists now ...
        torch.set_num_threads(threads)  # ... and threads of other pools start as before
        self._next: tuple[int, Future[Batch]] | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *raised: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)

    def batch(self, step: int) -> Batch:
        """The batch of ``step``, which is ready if the last one asked for was ``step - 1``."""
        if self._next is None or self._next[0] != step:
            self._next = (step, self._worker.submit(self.batches.batch, step))
        batch = self._next[1].result()
        self._next = None
        if step + 1 < self.total_steps:
            self._next = (step + 1, self._worker.submit(self.batches.batch, step + 1))
        return batch

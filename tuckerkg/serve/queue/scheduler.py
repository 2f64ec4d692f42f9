"""Who is computed when: small requests at once and together, large ones in slices and in turns.

Small requests have a thread of their own. What comes in while it computes makes up the next product, a question of each
client in turn, so that one with many does not keep others waiting. Large requests share a few threads of which one
computes at a time. Between two slices it ends if its client has gone, lets small requests pass, and hands over to the
client that has been computed for least.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.engine.links import Row
from tuckerkg.serve.engine.names import NoSuchName
from tuckerkg.serve.engine.slices import Pause
from tuckerkg.serve.engine.whole_graph import Requests
from tuckerkg.serve.limits import Limits
from tuckerkg.serve.problems import later
from tuckerkg.serve.schemas.asked import Asked
from tuckerkg.serve.watching.prometheus import ServiceMetrics
from tuckerkg.serve.watching.tracing import Tracing

MOST_OF_A_BATCH = 256  # questions of one product
BATCH_SECONDS = 0.05  # that one product may take, by what its questions cost
PATIENCE = 0.5  # seconds that a slice waits for small requests, at most: under constant load large ones still end
T = TypeVar("T")
Answer = list[Row] | NoSuchName


class GivenUp(Exception):
    """Nobody waits for the answer any more."""


@dataclass
class _Small:
    """A question for a product, or something else that is soon done."""

    cost: float
    since: float
    future: asyncio.Future[Any]
    engine: Engine | None = None
    asked: Asked | None = None
    work: Callable[[], Any] | None = None
    began: float = 0.0
    ended: float = 0.0


class _Large:
    """A large request: its client, and whether anybody waits for it."""

    def __init__(self, client: str, work: Callable[[Pause], Any], future: asyncio.Future[Any]) -> None:
        self.client, self.work, self.future = client, work, future
        self.since = self.began = time.perf_counter()
        self.given_up = threading.Event()


class Turns:
    """Which of the large requests computes: one at a time, of the client that has been computed for least."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Large] = []
        self._holder: _Large | None = None
        self._used: dict[str, float] = {}

    def used(self, client: str) -> float:
        """Seconds that were computed for a client since others came."""
        return self._used.get(client, 0.0)

    def enter(self, client: str) -> None:
        """A client that comes starts where the others are: what it did not use before is not its own."""
        with self._changed:
            if client not in self._used:
                self._used[client] = min(self._used.values(), default=0.0)

    def leave(self, client: str) -> None:
        """A client has nothing at work any more."""
        with self._changed:
            self._used.pop(client, None)

    def take(self, large: _Large) -> None:
        """Wait until it is this one's turn."""
        with self._changed:
            self._waiting.append(large)
            while self._holder is not None or self._next() is not large:
                self._changed.wait()
            self._waiting.remove(large)
            self._holder = large

    def release(self, large: _Large, seconds: float) -> None:
        """Let the next one compute."""
        with self._changed:
            self._used[large.client] = self.used(large.client) + seconds
            self._holder = None
            self._changed.notify_all()

    def _next(self) -> _Large:
        return min(self._waiting, key=lambda each: (self.used(each.client), each.since))


class Scheduler:
    """Computes for all clients and runs of one process.

    Args:
        limits: how much of what may wait, and what is large.
        metrics: where it is counted.
        tracing: makes spans of waiting and computing.
        trim: called when no large request is under way any more.
    """

    def __init__(
        self,
        limits: Limits,
        metrics: ServiceMetrics,
        tracing: Tracing | None = None,
        trim: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits, self.metrics, self.tracing, self.trim = limits, metrics, tracing or Tracing(), trim
        self.small_at_work, self.at_work = Requests(), Requests()
        self._small: OrderedDict[str, deque[_Small]] = OrderedDict()
        self._came = asyncio.Event()
        self._turns = Turns()
        self._large: list[_Large] = []
        self._running: list[_Large] = []
        self._small_thread = ThreadPoolExecutor(1, thread_name_prefix="small")
        self._large_threads = ThreadPoolExecutor(limits.large_at_once, thread_name_prefix="large")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer."""
        self._task = asyncio.create_task(self._serve_small())

    async def stop(self) -> None:
        """End it; what is waiting gets no answer."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        for large in [*self._large, *self._running]:
            large.given_up.set()
        self._small_thread.shutdown(wait=False, cancel_futures=True)
        self._large_threads.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------------------------------ small requests

    async def ask(self, client: str, engine: Engine, many: Sequence[Asked], costs: Sequence[float]) -> list[Answer]:
        """Answers to small questions, in their order."""
        now = time.perf_counter()
        loop = asyncio.get_running_loop()
        items = [_Small(cost, now, loop.create_future(), engine, each) for each, cost in zip(many, costs, strict=True)]
        return await self._enqueue(client, items)

    async def soon(self, client: str, cost: float, work: Callable[[], T]) -> T:
        """The result of something small."""
        item = _Small(cost, time.perf_counter(), asyncio.get_running_loop().create_future(), work=work)
        found: T = (await self._enqueue(client, [item]))[0]
        return found

    async def _enqueue(self, client: str, items: list[_Small]) -> list[Any]:
        self._small.setdefault(client, deque()).extend(items)
        self._came.set()
        futures = [item.future for item in items]
        try:
            found = list(await asyncio.gather(*futures))
            began, ended = min(item.began for item in items), max(item.ended for item in items)
            self.tracing.part("queue", items[0].since, began)
            self.tracing.part("product", began, ended, questions=len(items))
            return found
        finally:
            for future in futures:  # of a client that has gone, or waited too long
                future.cancel()

    def _next_batch(self) -> list[_Small]:
        """Small requests for one product: one of each client in turn."""
        batch: list[_Small] = []
        cost = 0.0
        while self._small and len(batch) < MOST_OF_A_BATCH and (not batch or cost < BATCH_SECONDS):
            client, waiting = self._small.popitem(last=False)
            item = waiting.popleft()
            if waiting:
                self._small[client] = waiting
            if not item.future.done():
                batch.append(item)
                cost += item.cost
        return batch

    async def _serve_small(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._came.wait()
            batch = self._next_batch()
            if not batch:
                self._came.clear()
                continue
            now = time.perf_counter()
            for item in batch:
                item.began = now
                self.metrics.queue_wait.labels("small").observe(now - item.since)
            found = await loop.run_in_executor(self._small_thread, self._compute, batch)
            now = time.perf_counter()
            for item in batch:
                item.ended = now
            for item, (result, error) in zip(batch, found, strict=True):
                if item.future.done():
                    continue
                if error is None:
                    item.future.set_result(result)
                else:
                    item.future.set_exception(error)

    def _compute(self, batch: list[_Small]) -> list[tuple[Any, Exception | None]]:
        found: dict[int, tuple[Any, Exception | None]] = {}
        with self.small_at_work, self.at_work:
            by_engine: dict[int, list[int]] = {}
            for place, item in enumerate(batch):
                if item.work is not None:
                    found[place] = _tried(item.work)
                else:
                    by_engine.setdefault(id(item.engine), []).append(place)
            for places in by_engine.values():
                self._product(batch, places, found)
        return [found[place] for place in range(len(batch))]

    def _product(self, batch: list[_Small], places: list[int], found: dict[int, tuple[Any, Exception | None]]) -> None:
        engine = batch[places[0]].engine
        questions = [item.asked for place in places if (item := batch[place]).asked is not None]
        assert engine is not None
        self.metrics.batches.inc()
        self.metrics.batch_size.observe(len(questions))
        self.metrics.questions.inc(len(questions))
        rows, error = _tried(lambda: engine.links.answer(questions))
        for number, place in enumerate(places):
            found[place] = (None, error) if error is not None else (rows[number], None)

    # ------------------------------------------------------------------------------------------ large requests

    async def large(self, client: str, work: Callable[[Pause], T]) -> T:
        """The result of ``work``, which calls what it is given between two slices.

        Raises:
            Refused: too many of this client wait.
        """
        waiting = sum(each.client == client for each in self._large)
        if waiting >= self.limits.waiting:
            raise later(
                429,
                f"{waiting} large requests of yours wait already: wait for their answers, or ask for less",
                "too-many",
                5.0,
            )
        large = _Large(client, work, asyncio.get_running_loop().create_future())
        self._large.append(large)
        self._turns.enter(client)
        self._dispatch()
        try:
            found: T = await large.future
            self.tracing.part("queue", large.since, large.began)
            self.tracing.part("slices", large.began, time.perf_counter())
            return found
        finally:
            large.given_up.set()
            if large in self._large:
                self._large.remove(large)
            self.metrics.queue_length.labels("large").set(len(self._large))

    def _dispatch(self) -> None:
        """Give free threads to those who wait: the client with fewest at work first."""
        while self._large and len(self._running) < self.limits.large_at_once:
            running = [each.client for each in self._running]
            large = min(self._large, key=lambda each: (running.count(each.client), self._turns.used(each.client)))
            most = max(1, self.limits.large_at_once - 1)  # of one client: another one need not wait for its end
            if running.count(large.client) >= most:
                return
            self._large.remove(large)
            self._running.append(large)
            self.metrics.queue_wait.labels("large").observe(time.perf_counter() - large.since)
            loop = asyncio.get_running_loop()
            done = loop.run_in_executor(self._large_threads, self._run, large)
            done.add_done_callback(lambda found, large=large: self._ended(large, found))  # type: ignore[misc]
        self.metrics.queue_length.labels("large").set(len(self._large))

    def _run(self, large: _Large) -> tuple[Any, Exception | None]:
        self._turns.take(large)
        began = large.began = time.perf_counter()

        def pause() -> None:
            nonlocal began
            self._turns.release(large, time.perf_counter() - began)
            try:
                self.small_at_work.wait(PATIENCE)
            finally:
                self._turns.take(large)
                began = time.perf_counter()
            if large.given_up.is_set():
                raise GivenUp

        with self.at_work:
            try:
                return _tried(lambda: None if large.given_up.is_set() else large.work(pause))
            finally:
                self._turns.release(large, time.perf_counter() - began)

    def _ended(self, large: _Large, found: asyncio.Future[tuple[Any, Exception | None]]) -> None:
        self._running.remove(large)
        if not any(each.client == large.client for each in [*self._running, *self._large]):
            self._turns.leave(large.client)
        if not found.cancelled() and not large.future.done():
            result, error = found.result()
            if error is None:
                large.future.set_result(result)
            else:
                large.future.set_exception(error)
        self._dispatch()
        if not self._running:
            self.trim()


def _tried(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return work(), None
    except Exception as error:
        return None, error

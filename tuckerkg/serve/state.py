"""The runs of one service: loaded beside the running server, switched to a new version without losing a request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuckerkg.errors import TuckerkgError, nearest, printable
from tuckerkg.inference.run import Run, load
from tuckerkg.serve.access import Access
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.jobs.runner import Jobs
from tuckerkg.serve.limits import Limits
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.queue.budgets import Budgets
from tuckerkg.serve.queue.held import Held, give_memory_back
from tuckerkg.serve.queue.scheduler import Scheduler
from tuckerkg.serve.schemas import service as schemas
from tuckerkg.serve.told import Told
from tuckerkg.serve.watching.prometheus import ServiceMetrics
from tuckerkg.serve.watching.tracing import tracing
from tuckerkg.storage.versions import version_numbers
from tuckerkg.types import LogFunction, ignore

_log = logging.getLogger("tuckerkg.serve")
SHARED = "TUCKERKG_SHARED"  # the folder that the workers of one service see
WATCH_SECONDS = 1.0  # between two looks for new versions, and for what other workers were told


def open_plainly(path: Path, version: int | None) -> Run:
    """Open a run folder as it is."""
    return load(path, version=version)


@dataclass(frozen=True)
class RunSource:
    """A run that can be opened.

    Attributes:
        name: what it is called in the service.
        path: its folder.
        open: opens it, at a version or at the newest.
        follows: whether new versions in the folder are served when they come.
        like: opens another folder in the same way.
    """

    name: str
    path: Path
    open: Callable[[int | None], Run]
    follows: bool = True
    like: Callable[[Path, int | None], Run] = open_plainly


class Slot:
    """One run of the service: how to open it, and the engine that answers now."""

    def __init__(self, source: RunSource) -> None:
        self.source = source
        self.engine: Engine | None = None
        self.state: Literal["loading", "ready", "failed"] = "loading"
        self.reason: str | None = None
        self.switching = asyncio.Lock()
        self.newest = 0  # version that was seen in the folder

    def shown(self, default: bool) -> schemas.ServedRun:
        """As it is listed."""
        about = None if self.engine is None else self.engine.page.about
        return schemas.ServedRun(
            name=self.source.name,
            title=self.source.name if about is None else about.title,
            version=None if about is None else about.run.version,
            checkpoint=None if about is None else about.run.checkpoint,
            default=default,
            state=self.state,
            reason=self.reason,
            entities=None if about is None else about.counts.entities,
            relations=None if about is None else about.counts.relations,
            facts=None if about is None else about.counts.facts,
            test_mrr=None if about is None or about.test is None else about.test.get("mrr"),
        )


class Service:
    """Everything that requests share.

    Args:
        sources: the runs; the first one answers where none is named.
        access: who may ask.
        limits: how much.
        metrics: where it is counted.
        log: called with sentences for the user.
        shared: a folder for jobs and files that were sent, which all workers see; None: one of its own.
        runs: the folder for new runs; None: that of the first run.
        late: whether the first run is loaded before the service takes connections.
        on_ready: called once the first run is loaded.
        on_failure: called where it could not be.
    """

    def __init__(  # noqa: PLR0913  (by keyword only)
        self,
        sources: Sequence[RunSource],
        *,
        access: Access | None = None,
        limits: Limits | None = None,
        metrics: ServiceMetrics | None = None,
        log: LogFunction = ignore,
        shared: Path | None = None,
        runs: Path | None = None,
        late: bool = False,
        on_ready: Callable[[], None] = lambda: None,
        on_failure: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.access, self.limits = access or Access(), limits or Limits()
        self.metrics, self.log = metrics or ServiceMetrics(), log
        self.late, self.on_ready, self.on_failure = late, on_ready, on_failure
        self.slots = {source.name: Slot(source) for source in sources}
        self.default = sources[0].name if sources else ""
        self.draining = False  # the service ends
        self.budgets = Budgets(self.limits)
        self.held = Held(self.limits.held_bytes, self.metrics.held, give_memory_back)
        self.tracing = tracing()
        self.scheduler = Scheduler(self.limits, self.metrics, self.tracing, give_memory_back)
        self._own = None if shared is not None else tempfile.TemporaryDirectory(prefix="tuckerkg-serve-")
        self.shared = shared or Path(self._own.name if self._own is not None else "")
        self.told = Told(self.shared)
        self.jobs = Jobs(self, self.shared, runs or (sources[0].path.parent if sources else Path()))
        self._tasks: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Load the runs in a thread, one after the other; until then the service is up but not ready."""
        await self.scheduler.start()
        slots = list(self.slots.values())
        if self.late and slots:
            with contextlib.suppress(Exception):  # on_failure was called, which ends the service
                await self._load(slots.pop(0))
        self._tasks.append(asyncio.create_task(self._load_all(slots)))

    async def _load_all(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            await self._load(slot)
        self._tasks.append(asyncio.create_task(self._watch()))

    async def _load(self, slot: Slot) -> None:
        first = slot.source.name == self.default
        try:
            engine = await asyncio.to_thread(self._opened, slot.source, None)
        except Exception as error:
            slot.state, slot.reason = "failed", _words(error)
            if first:
                self.on_failure(error)
                raise
            self.log(f"{slot.source.path}: {error}")
            return
        slot.newest = max(version_numbers(slot.source.path)[-1], engine.run.version)
        self._serve(slot, engine)
        if first:
            self.metrics.workers.set(1)
            self.on_ready()

    def _opened(self, source: RunSource, version: int | None) -> Engine:
        return Engine(source.open(version), source.name, self.scheduler.at_work)

    def _serve(self, slot: Slot, engine: Engine) -> None:
        before, slot.engine = slot.engine, engine
        slot.state, slot.reason = "ready", None
        if before is not None:
            self.metrics.runs.labels(*before.stamp.model_dump().values()).set(0)
        self.metrics.runs.labels(*engine.stamp.model_dump().values()).set(1)

    async def stop(self) -> None:
        """End what runs in the background."""
        for task in self._tasks:
            task.cancel()
        await self.jobs.stop()
        await self.scheduler.stop()
        for slot in self.slots.values():
            if slot.engine is not None:
                await asyncio.to_thread(slot.engine.close)
        if self._own is not None:
            self._own.cleanup()

    # ------------------------------------------------------------------------------------------ runs

    def slot(self, name: str | None) -> Slot:
        """The run of a name; None: the first one.

        Raises:
            Refused: there is none.
        """
        found = self.slots.get(self.default if name is None else name)
        if found is None:
            near = nearest(name or "", self.slots)
            raise Refused(
                404,
                f"there is no run {printable(name or '')[:200]!r}; /api/v1/runs lists them",
                "unknown-run",
                more={"near": [{"label": each, "title": each} for each in near]},
            )
        return found

    def engine(self, name: str | None) -> Engine:
        """What answers for a run.

        Raises:
            Refused: it is still being loaded, or could not be.
        """
        slot = self.slot(name)
        if slot.engine is None:
            if slot.state == "failed":
                raise Refused(503, f"the run {slot.source.name!r} could not be loaded: {slot.reason}", "not-loaded")
            raise Refused(503, "the run is being loaded", "loading", more={"retry_after": 1})
        return slot.engine

    async def add_run(self, path: Path) -> None:
        """Serve one more run, here and in the other workers. Raises Refused."""
        await self._load_new(path)
        self.told.serve(path)

    async def _load_new(self, path: Path) -> None:
        first = next(iter(self.slots.values())).source
        source = RunSource(
            path.name, path.resolve(), lambda version: first.like(path.resolve(), version), True, first.like
        )
        slot = self.slots[source.name] = Slot(source)
        await self._load(slot)
        if slot.state == "failed":
            raise Refused(409, f"the run {path.name!r} was made and cannot be opened: {slot.reason}", "cannot-open")

    def ready(self) -> None:
        """Refuse where the first run is not loaded yet. Raises Refused."""
        self.engine(None)

    async def switch(self, name: str, version: int | None, *, tell: bool = True) -> tuple[Engine, int]:
        """Open another version beside the one served, and answer from it: the new engine, and the version before.

        Requests that are at work end with the run that they began with. With ``tell`` other workers follow.

        Raises:
            Refused: it cannot be opened.
        """
        slot = self.slot(name)
        engine = self.engine(name)
        async with slot.switching:
            try:
                fresh = await asyncio.to_thread(self._opened, slot.source, version)
            except TuckerkgError as error:
                raise Refused(409, _words(error), "cannot-open") from None
            before = engine.run.version
            slot.newest = max(slot.newest, fresh.run.version)
            self._serve(slot, fresh)
            if tell:
                self.told.switch(name, fresh.run.version)
        self._tasks.append(asyncio.create_task(self._close_later(engine)))
        self.log(f"{slot.source.name}: version {fresh.run.version} is served")
        return fresh, before

    async def _close_later(self, engine: Engine) -> None:
        await asyncio.sleep(self.limits.compute_seconds)
        await asyncio.to_thread(engine.close)

    async def _watch(self) -> None:
        """Serve new versions when they are in the folder."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for path in self.told.runs():
                if path.name not in self.slots:
                    with contextlib.suppress(Refused):
                        await self._load_new(path)
            for slot in list(self.slots.values()):
                await self._follow(slot)

    async def _follow(self, slot: Slot) -> None:
        if slot.engine is None or not slot.source.follows or slot.switching.locked():
            return
        with contextlib.suppress(TuckerkgError):
            newest = version_numbers(slot.source.path)[-1]
            is_new = newest > slot.newest
            wanted = newest if is_new else self.told.version(slot.source.name)
            slot.newest = max(newest, slot.newest)
            if wanted in (None, slot.engine.run.version):
                return
            try:
                await self.switch(slot.source.name, wanted, tell=is_new)
            except Refused as error:
                self.log(f"{slot.source.name}: version {wanted} is not served: {error.detail}")

    # ------------------------------------------------------------------------------------------ time

    async def within_time(self, work: Any) -> Any:
        """Await ``work`` for as long as a computation may take.

        Raises:
            Refused: it took longer.
        """
        try:
            async with asyncio.timeout(self.limits.compute_seconds):
                return await work
        except TimeoutError:
            seconds = self.limits.compute_seconds
            raise Refused(503, f"no answer within {seconds:g} seconds: ask for less, or later", "too-slow") from None


def _words(error: Exception) -> str:
    """An error without places of files."""
    if isinstance(error, MemoryError):
        return "the memory does not suffice"
    if type(error) is TuckerkgError:
        return str(error)
    return "it cannot be opened; the log says why"

"""Does jobs: each in a program of its own, but for searches, which the run's engine makes itself."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuckerkg.serve.access import Caller
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.jobs.process import Cancelled, Failed, run_program
from tuckerkg.serve.jobs.store import ENDED, Job, JobStore, problem
from tuckerkg.serve.jobs.uploads import Uploads
from tuckerkg.serve.problems import Refused, later
from tuckerkg.serve.schemas.asked import AskedJob
from tuckerkg.serve.schemas.service import Role

if TYPE_CHECKING:
    from tuckerkg.serve.state import Service

_log = logging.getLogger("tuckerkg.serve")
ROLE_OF: dict[str, Role] = {"missing": "read", "report": "decide", "add": "decide", "train": "train"}
LOOKED = 0.25  # seconds between two looks at a search
SPARE = 1.5  # times its minutes and two more that a training may take: what is begun is brought to an end
REPORT_SECONDS, ADD_SECONDS = 900.0, 900.0
AT_ONCE = 2  # jobs of one worker at work


class Jobs:
    """The jobs of one worker; those of others are seen in the same folder.

    Args:
        service: whose runs they are about.
        folder: where they are kept.
        runs: where new runs go.
    """

    def __init__(self, service: Service, folder: Path, runs: Path) -> None:
        self.service, self.runs = service, runs
        self.store = JobStore(folder / "jobs")
        self.uploads = Uploads(folder / "uploads", service.limits)
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._hidden = re.compile("|".join(re.escape(str(each)) for each in (folder, runs.absolute(), runs.resolve())))

    def post(self, asked: AskedJob, caller: Caller) -> Job:
        """Take a job on.

        Raises:
            Refused: the role is missing, too many wait, or it cannot be done.
        """
        caller.need(ROLE_OF[asked.kind])
        mine = [job for job in self.store.all() if job.client == caller.client and job.state not in ENDED]
        if len(mine) >= self.service.limits.jobs:
            raise later(429, f"{len(mine)} jobs of yours wait or work: wait for one, or cancel it", "too-many-jobs", 30)
        work = self._work(asked)
        run = None if asked.kind == "train" else self.service.engine(asked.run).stamp.name
        job = self.store.create(asked.kind, run, caller.name, caller.client)
        task = asyncio.get_running_loop().create_task(self._do(job, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def _work(self, asked: AskedJob) -> Callable[[Job], Awaitable[dict[str, Any]]]:
        """What to do. Raises Refused where it cannot be."""
        if asked.kind == "train":
            assert asked.upload is not None and asked.name is not None
            file, name, out = self.uploads.file(asked.upload), asked.name, self.runs / asked.name
            if name in self.service.slots or out.exists():
                raise Refused(409, f"there is a run called {name!r} already: choose another name", "name-taken")
            minutes = min(asked.minutes or self.service.limits.train_minutes, self.service.limits.train_minutes)
            return lambda job: self._train(job, file, out, minutes)
        engine = self.service.engine(asked.run)
        path = self.service.slot(asked.run).source.path
        if asked.kind == "missing":
            number = None if asked.relation is None else engine.graph.relations.id_of(asked.relation)
            return lambda job: self._missing(job, engine, number, asked.relation)
        if asked.kind == "report":
            return lambda job: self._report(job, path, engine)
        if not engine.page.about.may.add or not self.service.slot(asked.run).source.follows:
            raise Refused(409, "this run was opened for another graph or at a version: nothing can be added", "fixed")
        if not engine.reviewed.accepted():
            raise Refused(409, "no fact has been accepted, so that there is none to add", "nothing-accepted")
        return lambda job: self._add(job, path, engine)

    async def _do(self, job: Job, work: Callable[[Job], Awaitable[dict[str, Any]]]) -> None:
        """Do it, and say what came of it in words."""
        try:
            async with self._at_once:
                if self.store.is_cancelled(job):
                    raise Cancelled
                job.state = "working"
                self.store.write(job)
                job.result = await work(job)
            job.state, job.seconds_left = "done", 0.0
        except Cancelled:
            job.state = "cancelled"
        except Failed as error:
            job.state, job.problem = "failed", problem(self._without_places(str(error)))
        except Refused as error:
            job.state, job.problem = "failed", problem(error.detail, error.code, error.status)
        except asyncio.CancelledError:
            job.state, job.problem = "failed", problem("the service has ended; post the job again", "service-ended")
            raise
        except Exception:
            _log.exception("job %s failed", job.id)
            job.state = "failed"
            job.problem = problem("something went wrong here; the log has it under the job's id", "unexpected", 500)
        finally:
            self.store.write(job)
            self.store.tell(job, {"event": "end", "state": job.state, "job": job.shown().model_dump()})

    def _without_places(self, text: str) -> str:
        """Where files lie on the server is nobody's business."""
        return self._hidden.sub("", text)[:2_000]

    # ------------------------------------------------------------------------------------------ kinds

    async def _missing(self, job: Job, engine: Engine, number: int | None, name: str | None) -> dict[str, Any]:
        search = engine.search(number)
        search.take_failure()
        search.start()
        clock = time.monotonic()
        while search.found is None:
            await asyncio.sleep(LOOKED)
            if self.store.is_cancelled(job):
                engine.drop_search(number)
                raise Cancelled
            if (failure := search.take_failure()) is not None:
                raise Failed(failure)
            self._tell_progress(job, *search.progress, time.monotonic() - clock)
        threshold = engine.page.about.threshold
        return {
            "run": engine.stamp.model_dump(),
            "relation": name,
            "found": len(search.found),
            "above_threshold": sum(fact.probability >= threshold for fact in search.found),
            "threshold": threshold,
        }

    def _tell_progress(self, job: Job, done: int, total: int, seconds: float) -> None:
        if (done, total) == (job.done, job.total):
            return
        job.done, job.total = done, total
        job.seconds_left = seconds / done * (total - done) if done else None
        self.store.write(job)
        self.store.tell(job, {"event": "progress", "done": done, "total": total, "seconds_left": job.seconds_left})

    async def _program(self, job: Job, arguments: list[str], seconds: float) -> tuple[str, dict[str, Any]]:
        """Run a program; its other output, and its result, if it gave one."""
        result: dict[str, Any] = {}
        errors: list[str] = []

        def hear(event: dict[str, Any]) -> None:
            kind = event.get("event")
            if kind == "result":
                result.update({name: value for name, value in event.items() if name != "event"})
                return
            if kind == "error":
                errors.append(str(event.get("text")))
                return
            if kind == "step":
                job.done, job.total, job.seconds_left = event["done"], event["total"], event["seconds_left"]
            elif kind == "validated":
                job.curve.append([event["epoch"], event["mrr"]])
            elif kind == "started":
                job.done, job.total = 0, event["total"]
            elif kind == "log":
                event["text"] = job.message = self._without_places(str(event["text"]))
            self.store.write(job)
            self.store.tell(job, event)

        try:
            said = await run_program(arguments, hear, lambda: self.store.is_cancelled(job), seconds)
        except Failed:
            if errors:
                raise Failed(errors[-1]) from None
            raise
        return said, result

    async def _report(self, job: Job, path: Path, engine: Engine) -> dict[str, Any]:
        out = self.store.folder / f"{job.id}.html"
        run = f"{path}@{engine.run.version}" if engine.run.version != 1 else str(path)
        await self._program(job, ["-m", "tuckerkg", "report", run, "--out", str(out)], REPORT_SECONDS)
        job.file = out.name
        return {"run": engine.stamp.model_dump(), "where": f"/api/v1/jobs/{job.id}/result"}

    async def _add(self, job: Job, path: Path, engine: Engine) -> dict[str, Any]:
        before = engine.stamp.version
        said, _ = await self._program(job, ["-m", "tuckerkg", "decisions", str(path), "--add"], ADD_SECONDS)
        slot = self.service.slot(engine.stamp.name)
        now = self.service.engine(engine.stamp.name)
        if now.stamp.version == before:
            async with slot.switching:
                pass  # another worker, or the look for new versions, may be about it
            now = self.service.engine(engine.stamp.name)
        if now.stamp.version == before:
            now, _ = await self.service.switch(engine.stamp.name, None)
        return {"run": now.stamp.model_dump(), "before": before, "said": self._without_places(said.strip())}

    async def _train(self, job: Job, file: Path, out: Path, minutes: float) -> dict[str, Any]:
        arguments = ["-m", "tuckerkg.serve.jobs.training", "train", str(file), str(out), str(minutes)]
        try:
            _, result = await self._program(job, arguments, 60.0 * (SPARE * minutes + 2.0))
        except BaseException:
            for place in (out, out.with_name(f"{out.name}.parts")):
                shutil.rmtree(place, ignore_errors=True)
            raise
        await self.service.add_run(out)
        return {"run": out.name, **result}

    # ------------------------------------------------------------------------------------------ life

    async def stop(self) -> None:
        """End those that are at work here."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def result_file(self, job: Job) -> Path | None:
        """What a job made, if that is a file."""
        return None if job.file is None else self.store.folder / job.file


def as_event(line: str) -> bytes:
    """A line of a job's events as a server-sent event."""
    try:
        kind = json.loads(line).get("event", "progress")
    except ValueError:
        kind = "progress"
    return f"event: {kind}\ndata: {line}\n\n".encode()

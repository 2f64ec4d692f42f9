"""Jobs as files in a folder that all workers of a service see: whoever is asked knows how far each is.

ID.json      what the job is and how far it is, written by the worker that does it
ID.jsonl     its events, one a line
ID.cancel    somebody wants it to end
ID.html ...  what came of it
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuckerkg.serve.schemas import service as schemas
from tuckerkg.storage.sealed_folder import write_atomic

ENDED = ("done", "failed", "cancelled")
KEPT = 200  # jobs that have ended
JOB_ID = re.compile(r"[0-9a-f]{16}")


@dataclass
class Job:
    """A piece of work in the background."""

    id: str
    kind: str
    run: str | None
    by: str | None
    client: str
    process: int
    started: str
    state: str = "waiting"
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    message: str | None = None
    problem: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    curve: list[list[float]] = field(default_factory=list)
    file: str | None = None  # of the result, in the folder

    def shown(self) -> schemas.Job:
        """As it goes over the wire."""
        hidden = ("client", "process", "file")
        return schemas.Job.model_validate({name: value for name, value in asdict(self).items() if name not in hidden})


class JobStore:
    """The jobs of a service."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def create(self, kind: str, run: str | None, by: str | None, client: str) -> Job:
        """A job that waits."""
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        job = Job(secrets.token_hex(8), kind, run, by, client, os.getpid(), started)
        self.write(job)
        return job

    def write(self, job: Job) -> None:
        """Say how far it is."""
        write_atomic(self.folder / f"{job.id}.json", json.dumps(asdict(job)).encode())

    def read(self, number: str) -> Job | None:
        """A job; None where there is none. One whose worker has died has failed."""
        if not JOB_ID.fullmatch(number):
            return None
        try:
            job = Job(**json.loads((self.folder / f"{number}.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        if job.state not in ENDED and not _is_alive(job.process):
            job.state = "failed"
            job.problem = problem("the process that did it has ended; post the job again", "worker-died")
            self.write(job)
        return job

    def all(self) -> list[Job]:
        """All jobs, the newest first; the oldest of those that have ended are removed."""
        numbers = [path.stem for path in self.folder.glob("*.json") if JOB_ID.fullmatch(path.stem)]
        jobs = [job for number in numbers if (job := self.read(number)) is not None]
        jobs.sort(key=lambda job: job.started, reverse=True)
        for job in [each for each in jobs if each.state in ENDED][KEPT:]:
            for path in self.folder.glob(f"{job.id}.*"):
                path.unlink(missing_ok=True)
            jobs.remove(job)
        return jobs

    def tell(self, job: Job, event: dict[str, Any]) -> None:
        """Add an event."""
        with (self.folder / f"{job.id}.jsonl").open("ab") as file:
            file.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")

    def events(self, number: str, offset: int) -> tuple[list[str], int]:
        """The events from a place of the file on, and the place behind them."""
        data = b""
        with suppress(OSError), (self.folder / f"{number}.jsonl").open("rb") as file:
            file.seek(offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        return whole.decode("utf-8", "replace").splitlines(), offset + len(whole)

    def cancel(self, job: Job) -> None:
        """Have it end."""
        (self.folder / f"{job.id}.cancel").touch()

    def is_cancelled(self, job: Job) -> bool:
        """Whether it is to end."""
        return (self.folder / f"{job.id}.cancel").exists()


def problem(detail: str, code: str = "job-failed", status: int = 422) -> dict[str, Any]:
    """Why a job failed."""
    return {"type": "about:blank", "title": "The job failed", "status": status, "detail": detail, "code": code}


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

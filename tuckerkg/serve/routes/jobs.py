"""Routes about work in the background, and about files that are sent for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response, StreamingResponse

from tuckerkg.serve import formats
from tuckerkg.serve.engine.graph import next_offset
from tuckerkg.serve.jobs.runner import ROLE_OF, as_event
from tuckerkg.serve.jobs.store import ENDED, Job
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.routes.common import BODY, COMMON, ACaller, AnEngine, AService, Limit, Offset, names_of, statuses
from tuckerkg.serve.schemas import service as schemas
from tuckerkg.serve.schemas.asked import AskedAdd, AskedJob
from tuckerkg.serve.state import Service

STREAMS = ("/api/v1/uploads",)  # whose body is read by the route itself
router = APIRouter(prefix="/api/v1", tags=["jobs"], dependencies=COMMON, responses=statuses())
EVENT_SECONDS = 0.25  # between two looks for events
STREAM_SECONDS = 3_600.0  # that one stream of events may last; browsers come back by themselves
KEEP_ALIVE = 15.0  # seconds
LOCATION: dict[int | str, dict[str, Any]] = {
    202: {"description": "It waits or works", "headers": {"Location": {"schema": {"type": "string"}}}}
}
EVENT = {"type": "object", "properties": {"event": {"type": "string"}, "data": {"type": "string"}}}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": EVENT}}, "description": "Events"}
}


@router.post(
    "/jobs", status_code=202, response_model=schemas.StartedJob, responses={**statuses(*BODY, 409, 429), **LOCATION}
)
async def post_job(request: Request, service: AService, caller: ACaller, asked: AskedJob) -> Response:
    """Post work to be done in the background: a search, a report, facts to add, a training."""
    if asked.kind == "train":
        return _started(request, service.jobs.post(asked, caller))
    with names_of(service.engine(asked.run)):
        return _started(request, service.jobs.post(asked, caller))


@router.post(
    "/decisions/add",
    status_code=202,
    response_model=schemas.StartedJob,
    responses={**statuses(*BODY, 409, 429), **LOCATION},
)
async def add_decided(
    request: Request, service: AService, engine: AnEngine, caller: ACaller, asked: AskedAdd
) -> Response:
    """Add the accepted facts to the graph: a job, at whose end the new version of the run is served."""
    return _started(request, service.jobs.post(AskedJob(kind="add", run=engine.stamp.name), caller))


def _started(request: Request, job: Job) -> Response:
    body = formats.as_json(schemas.StartedJob(job=job.shown()))
    return formats.respond(request, body, headers={"location": f"/api/v1/jobs/{job.id}"}, status=202)


@router.get("/jobs", response_model=schemas.Jobs)
def jobs(request: Request, service: AService, limit: Limit = 100, offset: Offset = 0) -> Response:
    """All jobs, the newest first."""
    found = service.jobs.store.all()
    page = [job.shown() for job in found[offset : offset + limit]]
    after = next_offset(offset, len(page), len(found))
    return formats.respond(request, formats.as_json(schemas.Jobs(jobs=page, total=len(found), next=after)))


@router.get("/jobs/{id}", response_model=schemas.Job)
def job(request: Request, service: AService, id: str) -> Response:
    """How far a job is, and what came of it."""
    return formats.respond(request, formats.as_json(_job(service, id).shown()))


@router.delete("/jobs/{id}", response_model=schemas.Job, responses=statuses(409))
def cancel_job(request: Request, service: AService, caller: ACaller, id: str) -> Response:
    """Cancel a job; one that has ended cannot be."""
    found = _job(service, id)
    if found.client != caller.client:
        caller.need(ROLE_OF[found.kind])
    if found.state in ENDED:
        raise Refused(409, f"this job has ended: it is {found.state}", "ended")
    service.jobs.store.cancel(found)
    return formats.respond(request, formats.as_json(found.shown()))


@router.get(
    "/jobs/{id}/result", response_class=FileResponse, responses={200: {"description": "A file"}, **statuses(409)}
)
def job_result(service: AService, id: str) -> Response:
    """The file that a job made, such as a report."""
    found = _job(service, id)
    file = service.jobs.result_file(found)
    if file is None or found.state != "done":
        raise Refused(409, f"this job has made no file: it is {found.state}", "no-file")
    return FileResponse(file, filename=f"{found.run}-report.html", media_type="application/octet-stream")


@router.get("/jobs/{id}/events", response_class=StreamingResponse, responses=STREAM)
async def job_events(request: Request, service: AService, id: str) -> Response:
    """What happens in a job, as server-sent events: those so far, then each as it comes; the last one is ``end``."""
    found = await run_in_threadpool(_job, service, id)
    return StreamingResponse(_events(service, found.id), media_type="text/event-stream")


async def _events(service: Service, number: str) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    place, quiet, end = 0, loop.time(), loop.time() + STREAM_SECONDS
    while loop.time() < end and not service.draining:
        lines, place = await run_in_threadpool(service.jobs.store.events, number, place)
        for line in lines:
            yield as_event(line)
            quiet = loop.time()
            if '"event": "end"' in line[:20]:
                return
        if not lines and (found := service.jobs.store.read(number)) is not None and found.state in ENDED:
            again, _ = service.jobs.store.events(number, place)
            if not again:
                return
        if loop.time() - quiet > KEEP_ALIVE:
            yield b": still there\n\n"
            quiet = loop.time()
        await asyncio.sleep(EVENT_SECONDS)


def _job(service: Service, number: str) -> Job:
    found = service.jobs.store.read(number)
    if found is None:
        raise Refused(404, "there is no such job; /api/v1/jobs lists them", "unknown-job")
    return found


@router.post(
    "/uploads",
    response_model=schemas.Uploaded,
    responses=statuses(*BODY, 429),
    openapi_extra={
        "requestBody": {
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            "required": True,
        }
    },
)
async def upload(
    request: Request,
    service: AService,
    caller: ACaller,
    name: Annotated[str, Query(min_length=1, max_length=100)],
) -> Response:
    """Send a graph as the body: what inspection says of it, and how long training would take."""
    caller.need("train")
    kinds = request.headers.get("content-type", "application/octet-stream").partition(";")[0].strip().lower()
    if kinds != "application/octet-stream" or "content-encoding" in request.headers:
        raise Refused(415, "the body must be the file itself, application/octet-stream")
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > service.limits.upload_bytes:
        raise Refused(413, f"a file may have {service.limits.upload_bytes:,} bytes", "too-large")
    uploads = service.jobs.uploads
    number, file = await uploads.receive(name, request.stream())
    said = await uploads.inspect(number, file)
    found = schemas.Uploaded(
        upload=number, name=file.name, report=said["report"], estimate_minutes=said["estimate_minutes"]
    )
    return formats.respond(request, formats.as_json(found))

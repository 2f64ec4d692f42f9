"""Routes about the runs that are served."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tuckerkg.serve import formats
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.routes.common import BODY, COMMON, LASTING, ACaller, AnEngine, AService, statuses
from tuckerkg.serve.schemas import service as schemas

router = APIRouter(prefix="/api/v1", tags=["runs"], dependencies=COMMON, responses=statuses())


@router.get("/runs", response_model=schemas.ServedRuns)
async def runs(request: Request, service: AService, caller: ACaller) -> Response:
    """The runs, and what you may do."""
    found = schemas.ServedRuns(
        runs=[slot.shown(slot.source.name == service.default) for slot in service.slots.values()],
        roles=list(caller.roles),
        who=caller.name,
        may_name=caller.name is None and "decide" in caller.roles,
    )
    return formats.respond(request, formats.as_json(found))


@router.get("/run", response_model=schemas.About, responses=LASTING)
def run(request: Request, engine: AnEngine, service: AService) -> Response:
    """What is served: the graph, the model, how it trained, and how good it is."""
    slot = service.slot(engine.stamp.name)
    found = engine.page.about
    may = found.may.model_copy(update={"add": found.may.add and slot.source.follows})
    found = found.model_copy(update={"trust": engine.listing.trust(), "may": may})
    return formats.respond(request, formats.as_json(found), lasting=True)


@router.post("/runs/{name}/switch", response_model=schemas.Switched, responses=statuses(*BODY, 409))
async def switch(
    request: Request,
    service: AService,
    caller: ACaller,
    name: str,
    version: Annotated[int | None, Query(ge=1, le=999_999_999)] = None,
) -> Response:
    """Serve another version, the newest where none is named; requests at work end with the one that they began with."""
    caller.need("train")
    if not service.slot(name).source.follows:
        raise Refused(409, "this run was opened at a version, or for another graph: it has no other one", "fixed")
    fresh, before = await service.switch(name, version)
    return formats.respond(request, formats.as_json(schemas.Switched(run=fresh.stamp, before=before)))

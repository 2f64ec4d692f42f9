"""Routes about the service itself: whether it is up, and what it counts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from tuckerkg.serve.routes.common import AService, known_parameters, statuses
from tuckerkg.serve.schemas import service as schemas

UP_PATHS = ("/health", "/livez", "/healthz")
READY_PATHS = ("/ready", "/readyz")
METRICS = "text/plain; version=0.0.4; charset=utf-8"
router = APIRouter(tags=["service"], dependencies=[Depends(known_parameters)])
FEW: dict[int | str, dict[str, Any]] = {
    status: each for status, each in statuses().items() if status in (403, 414, 422, 431, 500, 503)
}


@router.get("/health", responses=FEW)
@router.get("/livez", include_in_schema=False)
@router.get("/healthz", include_in_schema=False)
async def health() -> schemas.State:
    """The service is up."""
    return schemas.State(status="up")


@router.get("/ready", responses=FEW)
@router.get("/readyz", include_in_schema=False)
async def ready(service: AService) -> schemas.State:
    """The first run is loaded: questions are answered."""
    service.ready()
    return schemas.State(status="ready")


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        **FEW,
        401: statuses()[401],
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Series"},
    },
)
async def metrics(service: AService) -> Response:
    """Counts and times in Prometheus's format."""
    return Response(service.metrics.text(), media_type=METRICS)

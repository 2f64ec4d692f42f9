"""What routes share: parameters, who asks, whose turn it is, and the statuses that the document names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.responses import Response

from tuckerkg.errors import did_you_mean, printable
from tuckerkg.serve import formats
from tuckerkg.serve.access import Caller
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.engine.names import NoSuchName
from tuckerkg.serve.engine.slices import Pause
from tuckerkg.serve.problems import MEDIA_TYPE, Refused, later
from tuckerkg.serve.schemas.asked import MOST_ANSWERS, Name
from tuckerkg.serve.state import Service

T = TypeVar("T")
MOST_OFFSET = 1_000_000_000
BYTES_OF_ANSWER = 420  # with labels of Freebase's length
SEVERAL_BYTES = 1 << 16  # answers from here on are counted until they are read

Text = Annotated[Name, Query()]
OptionalText = Annotated[Name | None, Query()]
Limit = Annotated[int, Query(ge=1, le=MOST_ANSWERS)]
Offset = Annotated[int, Query(ge=0, le=MOST_OFFSET)]

DESCRIPTIONS = {
    400: "The body is not plain JSON, or the request is not HTTP",
    401: "A token is needed",
    403: "From another page or host, or without the role that this needs",
    404: "There is no such run, entity, relation or job",
    406: "None of the media types that there are is taken",
    408: "The body did not arrive in time",
    409: "Not in this state",
    413: "The body is too large, or more is asked for than any request may",
    414: "The path or query is too long",
    415: "The body is of another kind, or compressed",
    422: "A parameter or field is wrong",
    429: "The budget is used up, or too many requests wait: Retry-After says when to come again",
    431: "The head is too large",
    500: "Something went wrong; the log has it under the id",
    503: "Loading, ending, or too busy: Retry-After says when to come again",
}
READ = (400, 401, 403, 404, 414, 422, 431, 500, 503)
BODY = (400, 408, 413, 415)
ROWS = {200: {"content": {formats.CSV: {"schema": {"type": "string"}}, formats.NDJSON: {"schema": {"type": "string"}}}}}


def statuses(*more: int, rows: bool = False) -> dict[int | str, dict[str, Any]]:
    """Problems that a route may answer with, as the document names them."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*READ, *more}):
        schema = {"$ref": "#/components/schemas/Problem"}
        found[status] = {"description": DESCRIPTIONS[status], "content": {MEDIA_TYPE: {"schema": schema}}}
    if rows:
        found |= ROWS  # type: ignore[arg-type]
    return found


LASTING: dict[int | str, dict[str, Any]] = {304: {"description": "The client has it already"}}


def service_of(request: Request) -> Service:
    """What all requests share."""
    found: Service = request.app.state.service
    return found


def caller_of(request: Request) -> Caller:
    """Who asks."""
    found: Caller = request.scope["state"]["caller"]
    return found


def _engine(request: Request, run: Annotated[Name | None, Query(description="which run, of several")] = None) -> Engine:
    found = service_of(request).engine(run)
    request.scope["state"]["run"] = found.stamp.name
    return found


def known_parameters(request: Request) -> None:
    """Refuse parameters that a route does not have. Raises Refused."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    known = set(_parameters(route.dependant))
    for name in request.query_params:
        if name not in known:
            allowed = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            shown = printable(name)[:100]
            raise Refused(
                422,
                f"this route has no parameter {shown!r}; {allowed}.{did_you_mean(name[:100], known)}",
                "unknown-parameter",
                more={"errors": [{"pointer": f"query.{shown}", "detail": "unknown"}]},
            )


def _parameters(dependant: Any) -> Iterator[str]:
    for each in dependant.query_params:
        yield each.alias
    for inner in dependant.dependencies:
        yield from _parameters(inner)


bearer = HTTPBearer(auto_error=False, description="A token; none is needed on a loopback address without one")
COMMON = [Depends(known_parameters), Depends(bearer)]
AnEngine = Annotated[Engine, Depends(_engine)]
AService = Annotated[Service, Depends(service_of)]
ACaller = Annotated[Caller, Depends(caller_of)]


def no_such_name(error: NoSuchName, engine: Engine) -> Refused:
    """The problem that an unknown name is."""
    names = engine.graph.entities if error.kind == "entity" else engine.graph.relations
    near = [{"label": names.labels.labels[number], "title": names.titles[number]} for number in error.near]
    return Refused(404, str(error), "unknown-name", more={"near": near})


@contextmanager
def names_of(engine: Engine) -> Iterator[None]:
    """Turn unknown names of a run into problems."""
    try:
        yield
    except NoSuchName as error:
        raise no_such_name(error, engine) from None


async def compute(
    request: Request, engine: Engine, cost: float, work: Callable[[Pause], T], *, charge: bool = True
) -> T:
    """The result of ``work``, in its turn: soon where it costs little, else in slices.

    Raises:
        Refused: it costs too much, too many wait, it took too long, or the client has gone.
    """
    service, caller = service_of(request), caller_of(request)
    if charge:
        spend(request, cost)
    scheduler = service.scheduler
    with names_of(engine):
        if cost <= service.limits.small_cost:
            turn: Awaitable[T] = scheduler.soon(caller.client, cost, lambda: work(_never))
        else:
            turn = scheduler.large(caller.client, work)
        return await while_there(request, service.within_time(turn))


def _never() -> None:
    """What is small is computed at once."""


def spend(request: Request, cost: float) -> None:
    """Charge a request's cost. Raises Refused."""
    service, caller = service_of(request), caller_of(request)
    service.budgets.spend(caller.client, cost)
    service.metrics.cost.inc(cost)
    state = request.scope["state"]
    state["cost"] = state.get("cost", 0.0) + cost


def limit_headers(request: Request) -> dict[str, str]:
    """What the caller has left."""
    return service_of(request).budgets.headers(caller_of(request).client)


async def while_there(request: Request, work: Awaitable[T]) -> T:
    """The result of ``work``, which is given up when the client goes. Raises Refused."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            request.scope["state"]["computed"] = time.perf_counter()
            return task.result()
        raise Refused(503, "the client has gone", "client-gone")
    finally:
        watch.cancel()
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@contextmanager
def room_for(request: Request, answers: int) -> Iterator[Callable[[Response], Response]]:
    """Room for an answer of about so many facts until the client has read it; give the answer to what comes of it.

    Raises:
        Refused: more than a request may have, or the client has not read what it got.
    """
    service, caller = service_of(request), caller_of(request)
    if answers > service.limits.answers:
        raise Refused(
            413,
            f"up to {answers:,} answers are asked for, one request may have {service.limits.answers:,}: "
            "ask fewer questions at once, or for a smaller k",
            "too-large",
        )
    size = answers * BYTES_OF_ANSWER
    if size < SEVERAL_BYTES:
        yield lambda answer: answer
        return
    if not service.held.take(caller.client, size):
        raise later(
            429, "answers that were computed for you before are not read yet: read them first", "answers-unread", 2.0
        )
    given = False

    def give(answer: Response) -> Response:
        nonlocal given
        given = True
        if isinstance(answer, formats.PieceResponse):
            service.held.take_more(caller.client, len(answer.body) - size)
            answer.when_sent = lambda: service.held.give_back(caller.client, len(answer.body))
        else:
            service.held.give_back(caller.client, size)
        return answer

    try:
        yield give
    finally:
        if not given:
            service.held.give_back(caller.client, size)


def needs_engine_state(engine: Engine) -> None:
    """Have decisions of other processes in what is answered next."""
    engine.reviewed.now()


def rows_or(
    request: Request, kind: formats.Format, rows: Sequence[dict[str, Any]], model: Callable[[], bytes]
) -> Response:
    """Rows as CSV or NDJSON, else the whole answer as JSON."""
    if kind == formats.JSON:
        return formats.respond(request, model(), headers=limit_headers(request))
    return formats.respond(request, formats.rows_as(kind, rows), kind, headers=limit_headers(request))

"""Routes about missing links: questions, verdicts, reasons, and searches over the whole graph."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tuckerkg.errors import TuckerkgError
from tuckerkg.serve import formats
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.engine.listing import Decided, Filters
from tuckerkg.serve.engine.names import NoSuchName
from tuckerkg.serve.engine.slices import Pause
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.queue import cost
from tuckerkg.serve.routes.common import (
    BODY,
    COMMON,
    AnEngine,
    Limit,
    Offset,
    OptionalText,
    caller_of,
    compute,
    limit_headers,
    no_such_name,
    room_for,
    service_of,
    spend,
    statuses,
    while_there,
)
from tuckerkg.serve.schemas import links as schemas
from tuckerkg.serve.schemas.asked import Asked, AskedBatch, AskedFacts, AskedWhy

router = APIRouter(prefix="/api/v1", tags=["links"], dependencies=COMMON, responses=statuses())
GROUP = 32  # questions of a batch that are answered together, as long as they have
GROUP_ANSWERS = 1_000  # answers in all
Rows = Sequence[dict[str, Any]]


@router.post("/predict", response_model=schemas.Answers, responses=statuses(*BODY, 406, 429, rows=True))
async def predict(request: Request, engine: AnEngine, asked: Asked) -> Response:
    """Missing links: tails, heads, relations, or all of one entity."""
    kind = formats.format_of(request)
    engine.reviewed.now()
    with room_for(request, asked.k) as give:
        (found,) = await _answers(request, engine, [asked])
        if isinstance(found, NoSuchName):
            raise no_such_name(found, engine)
        rows: Rows = found
        if kind != formats.JSON:
            return give(_rows(request, kind, rows))
        body = await _made(len(rows), lambda: _stamped(engine, answers=rows))
        return give(formats.respond(request, body, headers=limit_headers(request)))


@router.post("/predict/batch", response_model=schemas.AnswersOfBatch, responses=statuses(*BODY, 406, 429, rows=True))
async def predict_batch(request: Request, engine: AnEngine, asked: AskedBatch) -> Response:
    """Many questions at once; one with a name that nobody has fails alone."""
    kind = formats.format_of(request)
    engine.reviewed.now()
    with room_for(request, sum(each.k for each in asked.questions)) as give:
        found = await _answers(request, engine, asked.questions, encoded=kind == formats.JSON)
        if kind != formats.JSON:
            rows = [
                {"question": place, **row}
                for place, each in enumerate(found)
                if not isinstance(each, NoSuchName)
                for row in each
            ]
            return give(_rows(request, kind, rows))
        parts = [_stamp(engine), b',"results":[']
        for place, each in enumerate(found):
            parts.append(b"," if place else b"")
            named = isinstance(each, NoSuchName)
            parts += [_problem(each, engine)] if named else [b'{"answers":', _encoded(each), b"}"]
        body = b"".join([*parts, b"]}"])
        del found, parts
        return give(formats.respond(request, body, headers=limit_headers(request)))


async def _answers(request: Request, engine: Engine, many: Sequence[Asked], encoded: bool = False) -> list[Any]:
    """Rows of each question, or, with ``encoded``, their JSON; small ones soon, large ones in slices."""
    service, caller = service_of(request), caller_of(request)
    costs = [cost.of_question(engine, each) for each in many]
    total = sum(costs)
    spend(request, total)
    request.scope["state"]["questions"] = len(many)
    if total <= service.limits.small_cost:
        turn = service.scheduler.ask(caller.client, engine, many, costs)
        return await while_there(request, service.within_time(turn))

    def work(pause: Pause) -> list[Any]:
        found: list[Any] = []
        for group in _groups(many):
            for rows in engine.links.answer(group, pause):
                found.append(_encoded(rows) if encoded and isinstance(rows, list) else rows)
        return found

    service.metrics.questions.inc(len(many))
    return await while_there(request, service.within_time(service.scheduler.large(caller.client, work)))


def _groups(many: Sequence[Asked]) -> Iterator[list[Asked]]:
    """Questions that are answered together: many small ones, few large ones."""
    group: list[Asked] = []
    answers = 0
    for asked in many:
        if group and (len(group) == GROUP or answers + asked.k > GROUP_ANSWERS):
            yield group
            group, answers = [], 0
        group.append(asked)
        answers += asked.k
    yield group


def _encoded(rows: Any) -> bytes:
    return rows if isinstance(rows, bytes) else json.dumps(rows, ensure_ascii=False).encode()


def _problem(error: NoSuchName, engine: Engine) -> bytes:
    return json.dumps({"problem": no_such_name(error, engine).as_dict()}, ensure_ascii=False).encode()


def _stamp(engine: Engine) -> bytes:
    return b'{"run":' + engine.stamp.model_dump_json().encode() + b',"sums":"' + engine.sums.encode() + b'"'


def _stamped(engine: Engine, answers: Rows) -> bytes:
    return _stamp(engine) + b',"answers":' + _encoded(answers) + b"}"


async def _made(rows: int, make: Any) -> bytes:
    """What ``make`` gives, in a thread where that takes long."""
    found: bytes = make() if rows <= 100 else await asyncio.to_thread(make)
    return found


def _rows(request: Request, kind: formats.Format, rows: Rows) -> Response:
    return formats.respond(request, formats.rows_as(kind, rows), kind, headers=limit_headers(request))


@router.post("/score", response_model=schemas.JudgedFacts, responses=statuses(*BODY, 406, 429, rows=True))
async def score(request: Request, engine: AnEngine, asked: AskedFacts) -> Response:
    """Whole facts: their probabilities, and whether they are true; one with an unknown name fails alone."""
    kind = formats.format_of(request)
    engine.reviewed.now()
    request.scope["state"]["questions"] = len(asked.facts)
    price = cost.of_facts(engine, len(asked.facts))
    found = await compute(request, engine, price, lambda pause: engine.links.score(asked.facts, pause))
    if kind != formats.JSON:
        return _rows(request, kind, [row for row in found if not isinstance(row, NoSuchName)])
    parts = [
        _problem(each, engine) if isinstance(each, NoSuchName) else b'{"fact":' + _encoded(each) + b"}"
        for each in found
    ]
    body = _stamp(engine) + b',"results":[' + b",".join(parts) + b"]}"
    return formats.respond(request, body, headers=limit_headers(request))


@router.post("/explain", response_model=schemas.Explanation, responses=statuses(*BODY, 429))
async def explain(request: Request, engine: AnEngine, asked: AskedWhy) -> Response:
    """Why a fact is believed: edges that carried it, what is left without them, paths, and the next answer."""
    engine.reviewed.now()
    price = cost.of_explanation(engine, asked.k)
    found = await compute(request, engine, price, lambda pause: engine.explaining.explain(asked, pause))
    return formats.respond(request, formats.as_json(found), headers=limit_headers(request))


@router.get("/missing", response_model=schemas.Missing, responses=statuses(406, 413, 429, rows=True))
async def missing(  # noqa: PLR0913, PLR0917  (a parameter each)
    request: Request,
    engine: AnEngine,
    relation: OptionalText = None,
    type: OptionalText = None,
    entity: OptionalText = None,
    at_least: Annotated[float | None, Query(ge=0.0, le=1.0, allow_inf_nan=False)] = None,
    decided: Annotated[Decided, Query()] = "no",
    reasons: bool = False,
    limit: Limit = 20,
    offset: Offset = 0,
) -> Response:
    """The most believed missing facts of the whole graph; the first call begins to look for them."""
    kind = formats.format_of(request)
    filters = Filters(relation, type, entity, at_least, decided)
    price = 0.005 + (cost.of_reasons(limit) if reasons else 0.0)
    found = await compute(
        request, engine, price, lambda pause: engine.listing.missing(limit, offset, filters, reasons, pause)
    )
    if kind == formats.JSON:
        return formats.respond(request, formats.as_json(found), headers=limit_headers(request))
    return _rows(request, kind, formats.plain_rows(found.answers))


@router.get("/proof", response_model=schemas.Proof, responses=statuses(406, 413, 429, rows=True))
async def proof(request: Request, engine: AnEngine, limit: Limit = 20, offset: Offset = 0) -> Response:
    """Test facts that were hidden and found again; the first call begins to look for them."""
    kind = formats.format_of(request)
    found = await compute(request, engine, 0.005, lambda pause: engine.listing.proof(limit, offset))
    if kind == formats.JSON:
        return formats.respond(request, formats.as_json(found), headers=limit_headers(request))
    return _rows(request, kind, formats.plain_rows(found.answers))


@router.get("/changes", response_model=schemas.Changes, responses=statuses(409, 413, 429))
async def changes(
    request: Request, engine: AnEngine, from_: Annotated[int, Query(alias="from", ge=1, le=999_999_999)]
) -> Response:
    """What changed between a version and the one that is served."""

    def work(pause: Pause) -> bytes:
        try:
            return formats.as_json(engine.listing.changes(from_, pause))
        except TuckerkgError as error:
            if type(error) is TuckerkgError:
                raise Refused(409, str(error), "no-such-version") from None
            raise Refused(409, f"version {from_} cannot be opened any more", "no-such-version") from None

    body = await compute(request, engine, 1.0, work)
    return formats.respond(request, body, headers=limit_headers(request))

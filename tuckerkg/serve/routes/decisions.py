"""Routes about decisions: what people say of facts."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tuckerkg.inference.answers.files import rdf_term
from tuckerkg.review.decisions import Decision
from tuckerkg.serve import formats
from tuckerkg.serve.access import Caller
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.engine.graph import next_offset
from tuckerkg.serve.engine.links import Row
from tuckerkg.serve.engine.names import NoSuchName
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.queue import cost
from tuckerkg.serve.routes.common import (
    BODY,
    COMMON,
    ACaller,
    AnEngine,
    Limit,
    Offset,
    OptionalText,
    compute,
    names_of,
    statuses,
)
from tuckerkg.serve.schemas import service as schemas
from tuckerkg.serve.schemas.asked import AskedUndo, Choice, DecidedFacts

router = APIRouter(prefix="/api/v1", tags=["decisions"], dependencies=COMMON, responses=statuses())
Made = Sequence[tuple[int, Decision]]
FILES = {"tsv": "text/tab-separated-values; charset=utf-8", "csv": formats.CSV, "nt": "application/n-triples"}


@router.get("/decisions", response_model=schemas.Decisions, responses=statuses(406, rows=True))
def decisions(
    request: Request,
    engine: AnEngine,
    choice: Annotated[Choice | None, Query()] = None,
    by: OptionalText = None,
    relation: OptionalText = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """What was decided about facts, the last decision first."""
    kind = formats.format_of(request)
    standing = engine.reviewed.now()
    with names_of(engine):
        label = None if relation is None else engine.run.relations.labels[engine.graph.relations.id_of(relation)]
    chosen = [
        (line, each)
        for line, each in standing.by_fact.values()
        if choice in (None, each.choice) and by in (None, each.by) and label in (None, each.relation)
    ]
    chosen.sort(key=lambda found: -found[0])
    page = _shown(engine, chosen[offset : offset + limit])
    if kind != formats.JSON:
        return formats.respond(request, formats.rows_as(kind, formats.plain_rows(page)), kind)
    found = schemas.Decisions(
        run=engine.stamp,
        decisions=page,
        total=len(chosen),
        next=next_offset(offset, len(page), len(chosen)),
        counts=schemas.DecisionCounts(**standing.counts),
        revision=standing.revision,
    )
    return formats.respond(request, formats.as_json(found))


@router.post("/decisions", response_model=schemas.DecisionsMade, responses=statuses(*BODY, 429))
async def decide(request: Request, engine: AnEngine, caller: ACaller, asked: DecidedFacts) -> Response:
    """Accept, reject or defer facts: all of them or none, kept beside the run with who and when."""
    caller.need("decide")
    who = _who(caller, asked.by)
    found = await compute(
        request, engine, cost.of_facts(engine, len(asked.decisions)), lambda pause: _scored(engine, asked, pause)
    )
    made = [
        Decision.now(
            (row["head_label"], row["relation_label"], row["tail_label"]),
            each.choice,
            who,
            probability=row["probability"],
            version=engine.stamp.version,
            step=engine.stamp.checkpoint,
            note=each.note,
        )
        for each, row in zip(asked.decisions, found, strict=True)
    ]
    return _told(request, engine, await run_in_threadpool(engine.reviewed.add, made))


def _scored(engine: Engine, asked: DecidedFacts, pause: object) -> list[Row]:
    rows = []
    for row in engine.links.score(asked.decisions):
        if isinstance(row, NoSuchName):
            raise row
        rows.append(row)
    return rows


@router.post("/decisions/undo", response_model=schemas.DecisionsMade, responses=statuses(*BODY))
async def undo(request: Request, engine: AnEngine, caller: ACaller, asked: AskedUndo) -> Response:
    """Take back one's own last decisions; what was decided about their facts before counts again."""
    caller.need("decide")
    who = _who(caller, asked.by)
    return _told(request, engine, await run_in_threadpool(engine.reviewed.undo, who, asked.count))


def _who(caller: Caller, named: str | None) -> str:
    if caller.name is not None:
        if named not in (None, caller.name):
            raise Refused(403, f"your token's name is {caller.name!r}: nobody else's can be given", "not-your-name")
        return caller.name
    if named is None:
        raise Refused(
            422, "who decides? give by", "invalid", more={"errors": [{"pointer": "/by", "detail": "needed here"}]}
        )
    return named


def _told(request: Request, engine: Engine, made: Made) -> Response:
    standing = engine.reviewed.now()
    found = schemas.DecisionsMade(
        run=engine.stamp,
        decisions=_shown(engine, made),
        counts=schemas.DecisionCounts(**standing.counts),
        revision=standing.revision,
    )
    return formats.respond(request, formats.as_json(found))


def _shown(engine: Engine, made: Made) -> list[schemas.DecidedFact]:
    """Decisions with readable names; one about an entity of a later version has its labels."""
    entities, relations = engine.run.entities, engine.run.relations
    found = []
    for line, each in made:
        head, relation, tail = (
            names.shown(number) if (number := names.find(label)) is not None else label
            for names, label in ((entities, each.head), (relations, each.relation), (entities, each.tail))
        )
        found.append(
            schemas.DecidedFact(
                head=head,
                relation=relation,
                tail=tail,
                head_label=each.head,
                relation_label=each.relation,
                tail_label=each.tail,
                choice=each.choice,  # type: ignore[arg-type]
                by=each.by,
                at=each.at,
                probability=each.probability,
                version=each.version,
                note=each.note,
                line=line,
            )
        )
    return found


@router.get(
    "/decisions/export",
    response_class=Response,
    responses={
        200: {
            "content": {kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in FILES.values()},
            "description": "A file of facts by their labels",
        }
    },
)
def export(
    engine: AnEngine,
    choice: Annotated[Choice | None, Query()] = None,
    format: Annotated[Literal["tsv", "csv", "nt"], Query()] = "tsv",
) -> Response:
    """Decided facts as a file that add, train and other programs read: labels alone, or, as CSV, everything."""
    found = [each for each in engine.reviewed.now().by_fact.values() if choice in (None, each[1].choice)]
    if format == "csv":
        body = formats.as_csv(formats.plain_rows(_shown(engine, found)))
    elif format == "tsv":
        body = _tsv([each.fact for _, each in found])
    else:
        body = _n_triples([each.fact for _, each in found])
    name = f"{engine.stamp.name}-{choice or 'decisions'}.{format}"
    safe = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in name)
    headers = {"content-disposition": f'attachment; filename="{safe}"'}
    return Response(body, 200, headers, FILES[format] if format != "csv" else f"{formats.CSV}; charset=utf-8")


def _n_triples(facts: Sequence[tuple[str, str, str]]) -> bytes:
    lines = (
        f"{rdf_term(head, 'entity')} {rdf_term(relation, 'relation')} {rdf_term(tail, 'entity')} .\n"
        for head, relation, tail in facts
    )
    return "".join(lines).encode()


def _tsv(facts: Sequence[tuple[str, str, str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n").writerows(facts)
    return text.getvalue().encode()

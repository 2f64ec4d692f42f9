"""Routes about what the graph holds. They run in threads, so that none keeps the others waiting."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tuckerkg.serve import formats
from tuckerkg.serve.problems import Refused
from tuckerkg.serve.queue import cost
from tuckerkg.serve.routes.common import (
    COMMON,
    LASTING,
    AnEngine,
    Limit,
    Offset,
    OptionalText,
    Text,
    compute,
    names_of,
    statuses,
)
from tuckerkg.serve.schemas import graph as schemas
from tuckerkg.serve.schemas import service as service_schemas
from tuckerkg.serve.schemas.asked import Asked, Name, Place

router = APIRouter(prefix="/api/v1", tags=["graph"], dependencies=COMMON, responses=statuses())
Hops = Annotated[int, Query(ge=1, le=3)]
Names = Annotated[list[Name] | None, Query(max_length=32)]
PREDICTED = 10  # links around an entity
MOST_PLACED = 3_000
LEAST = 0.1  # probability of one that is drawn


@router.get("/entities", response_model=schemas.Entities, responses=LASTING)
def entities(request: Request, engine: AnEngine, q: Text, limit: Limit = 20, offset: Offset = 0) -> Response:
    """Entities by a part of their name, accents or not; near names where none holds it."""
    return formats.respond(request, formats.as_json(engine.around.search(q, limit, offset)), lasting=True)


@router.get("/complete", response_model=schemas.Completions, responses=LASTING)
def complete(request: Request, engine: AnEngine, q: Text, limit: Limit = 8) -> Response:
    """What the beginning of a question may become: entities, relations, whole questions."""
    return formats.respond(request, formats.as_json(engine.around.complete(q[:200], limit)), lasting=True)


@router.get("/entity", response_model=schemas.EntityPanel, responses=LASTING)
def entity(request: Request, engine: AnEngine, entity: Text) -> Response:
    """An entity: its type, and its facts by relation."""
    with names_of(engine):
        return formats.respond(request, formats.as_json(engine.graph.panel(entity)), lasting=True)


@router.get("/facts", response_model=schemas.Facts, responses={**LASTING, **statuses(406, rows=True)})
def facts(
    request: Request,
    engine: AnEngine,
    entity: Text,
    relation: OptionalText = None,
    place: Annotated[Place | None, Query()] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """The facts of an entity, as head, as tail, or both."""
    kind = formats.format_of(request)
    with names_of(engine):
        found = engine.graph.facts(entity, relation, place, limit, offset)
    if kind == formats.JSON:
        return formats.respond(request, formats.as_json(found), lasting=True)
    return formats.respond(request, formats.rows_as(kind, formats.plain_rows(found.facts)), kind, lasting=True)


@router.get("/neighbourhood", response_model=schemas.Neighbourhood, responses=statuses(413, 429))
async def neighbourhood(
    request: Request,
    engine: AnEngine,
    entity: Text,
    hops: Hops = 1,
    limit: Limit = 50,
    relation: Names = None,
    predicted: bool = False,
) -> Response:
    """The graph around an entity: facts of as many kinds as there are, nearer ones first; and missing links."""
    asked = [Asked(head=entity, k=PREDICTED), Asked(tail=entity, k=PREDICTED)] if predicted else []

    def found(pause: object) -> bytes:
        part = engine.around.neighbourhood(entity, hops, limit, relation)
        wanted = None if relation is None else {engine.graph.relations.id_of(each) for each in relation}
        labels = None if wanted is None else {engine.run.relations.labels[number] for number in wanted}
        for rows in engine.answer(asked) if asked else []:
            part.predicted += [
                schemas.Answer(**row)
                for row in rows
                if row["probability"] >= LEAST and (labels is None or row["relation_label"] in labels)
            ]
        return formats.as_json(part)

    body = await compute(request, engine, 0.001 + cost.of_questions(engine, asked), found)
    return formats.respond(request, body)


@router.get("/nearest", response_model=schemas.Nearest, responses={**LASTING, **statuses(413, 429)})
async def nearest(request: Request, engine: AnEngine, entity: Text, limit: Limit = 10) -> Response:
    """Entities like this one: near by their vectors, or with the same neighbours."""
    body = await compute(request, engine, 0.01, lambda pause: formats.as_json(engine.around.nearest(entity, limit)))
    return formats.respond(request, body, lasting=True)


@router.get("/map", response_model=schemas.Plane, responses={**LASTING, **statuses(409, 413, 429)})
async def map_of_entities(
    request: Request,
    engine: AnEngine,
    entity: OptionalText = None,
    limit: Annotated[int, Query(ge=1, le=MOST_PLACED)] = 1_000,
) -> Response:
    """Entities where their vectors lie in a plane: those with most facts, and the one that is named."""
    if not engine.page.about.may.vectors:
        raise Refused(409, "this run has no vectors of entities: its answers come from paths, or from several runs")
    body = await compute(request, engine, 0.05, lambda pause: formats.as_json(engine.around.plane(limit, entity)))
    return formats.respond(request, body, lasting=True)


@router.get("/relations", response_model=schemas.Relations, responses=LASTING)
def relations(request: Request, engine: AnEngine, limit: Limit = 100, offset: Offset = 0) -> Response:
    """Relations, those with most facts first."""
    return formats.respond(request, formats.as_json(engine.graph.list_relations(limit, offset)), lasting=True)


@router.get("/relation", response_model=service_schemas.RelationPage, responses=LASTING)
def relation(request: Request, engine: AnEngine, relation: Text) -> Response:
    """One relation: its kind, who its heads and tails are, examples, and how well the model knows it."""
    with names_of(engine):
        found = engine.page.relation(relation).model_copy(update={"trust": engine.listing.trust(relation)})
        return formats.respond(request, formats.as_json(found), lasting=True)


@router.get("/suggestions", response_model=schemas.Suggestions, responses=LASTING)
def suggestions(request: Request, engine: AnEngine, entity: Text) -> Response:
    """Questions that make sense for an entity."""
    with names_of(engine):
        return formats.respond(request, formats.as_json(engine.graph.suggestions(entity)), lasting=True)

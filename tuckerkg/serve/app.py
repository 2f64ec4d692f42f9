"""The application behind the guard: the page's files, the routes of the API, and what their errors become."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Message, Receive, Scope, Send

from tuckerkg import __version__
from tuckerkg.errors import TuckerkgError, UnknownNameError
from tuckerkg.serve import formats, problems
from tuckerkg.serve.middleware import LOOPBACK, Guard, logged
from tuckerkg.serve.problems import UNEXPECTED, Refused, field_errors
from tuckerkg.serve.routes import decisions, graph, jobs, links, runs
from tuckerkg.serve.routes import service as service_routes
from tuckerkg.serve.schemas.service import Problem
from tuckerkg.serve.state import Service
from tuckerkg.types import LogFunction, ignore

DOCUMENT = "/api/v1/openapi.json"
REASONS = {404: "there is no such page or route", 405: "this route does not take that method"}
PAGES = {"/": "index.html", "/api": "api.html"}


def make_app(
    service: Service,
    *,
    hosts: Iterable[str] = LOOPBACK,
    origins: Iterable[str] = (),
    log: LogFunction = ignore,
    access_log: Callable[[dict[str, Any]], None] | None = None,
) -> Guard:
    """Build the application around a service, behind its guard."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="tuckerkg",
        summary="Missing links of a knowledge graph, with probabilities and reasons",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    _add_pages(app)
    routers = [module.router for module in (service_routes, runs, graph, links, decisions, jobs)]
    for router in routers:
        app.include_router(router)
    _add_document(app, service)
    add_handlers(app)
    app.state.service = service
    api = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    posted = [route for route in api if "POST" in (route.methods or ())]
    return Guard(
        app,
        bodies=[route.path_regex.pattern for route in posted if route.path not in jobs.STREAMS],
        streams=[route.path_regex.pattern for route in posted if route.path in jobs.STREAMS],
        deletes=[route.path_regex.pattern for route in api if "DELETE" in (route.methods or ())],
        hosts=hosts,
        origins=origins,
        access=service.access,
        limits=service.limits,
        metrics=service.metrics,
        tracing=service.tracing,
        log=log,
        access_log=access_log,
    )


class PageFiles(StaticFiles):
    """The page's files: kept by browsers, which ask whether they are still the same."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a file."""

        async def kept(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in (200, 304):
                message["headers"] = [*message["headers"], (b"cache-control", b"no-cache")]
            await send(message)

        await super().__call__(scope, receive, kept)


def _add_pages(app: FastAPI) -> None:
    mimetypes.add_type("text/javascript", ".js")  # browsers refuse scripts that a machine's own table calls plain text
    files = PageFiles(packages=[("tuckerkg.serve", "web")])

    def page(file: str) -> Callable[[Request], Any]:
        async def show(request: Request) -> Response:
            return await files.get_response(file, request.scope)

        return show

    for path, file in PAGES.items():
        app.add_api_route(path, page(file), include_in_schema=False, name=file.partition(".")[0])
    app.mount("/static", GZipMiddleware(files, minimum_size=1_000, compresslevel=5))


def _add_document(app: FastAPI, service: Service) -> None:
    """Serve the OpenAPI document, made once, with examples that the first run can answer."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title, version=app.version, summary=app.summary, routes=app.routes, servers=[{"url": "/"}]
            )
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            schemas["Problem"] = _inlined(
                Problem.model_json_schema(ref_template="#/components/schemas/{model}"), schemas
            )
            if service.access.is_open:  # a token may be sent, and is not looked at
                for path in made["paths"].values():
                    for operation in path.values():
                        if "security" in operation:
                            operation["security"] = [{}, *operation["security"]]
            app.openapi_schema = made
        engine = service.slots[service.default].engine if service.default else None
        if engine is not None:
            first = engine.graph.named(*engine.graph.triples[0].tolist())
            _add_examples(app.openapi_schema, *(first[f"{each}_label"] for each in ("head", "relation", "tail")))
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]

    @app.get(DOCUMENT, include_in_schema=False)
    def openapi(request: Request) -> Response:
        """The document of this API."""
        return formats.respond(request, json.dumps(document()).encode(), lasting=True)


def _add_examples(document: dict[str, Any], head: str, relation: str, tail: str) -> None:
    """Examples for bodies and parameters, out of one fact of the graph."""
    question = {"head": head, "relation": relation}
    fact = question | {"tail": tail}
    bodies: dict[str, dict[str, Any]] = {
        "Asked": question | {"k": 3},
        "AskedBatch": {"questions": [question, {"relation": relation, "tail": tail}]},
        "AskedFacts": {"facts": [fact]},
        "AskedWhy": fact,
        "DecidedFacts": {"decisions": [fact | {"choice": "accept"}], "by": "me"},
        "AskedUndo": {"by": "me"},
        "AskedJob": {"kind": "missing"},
    }
    for name, example in bodies.items():
        document["components"]["schemas"][name]["examples"] = [example]
    values = {"entity": head, "relation": relation, "q": head}
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                if parameter.get("required") and parameter["name"] in values:
                    parameter["example"] = values[parameter["name"]]


def _inlined(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """A schema whose own definitions stand beside the others."""
    for name, inner in schema.pop("$defs", {}).items():
        schemas.setdefault(name, inner)
    return schema


def add_handlers(app: FastAPI) -> None:
    """Turn every exception of a route into a problem."""

    def told(request: Request, refused: Refused) -> Response:
        state = request.scope["state"]
        state["code"] = refused.code
        return problems.answer(refused, state["id"])

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return told(request, error)

    @app.exception_handler(UnknownNameError)
    async def unknown(request: Request, error: UnknownNameError) -> Response:
        return told(request, Refused(404, str(error), "unknown-name"))

    @app.exception_handler(TuckerkgError)
    async def asked_wrongly(request: Request, error: TuckerkgError) -> Response:
        if type(error) is not TuckerkgError:  # about files, whose places are nobody's business
            logged(request.scope)
            return told(request, Refused(500, UNEXPECTED))
        return told(request, Refused(422, str(error)))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        found = field_errors(error.errors())
        said = "; ".join(f"{each['pointer']}: {each['detail']}" for each in found)
        return told(request, Refused(422, said[:1_000], "invalid", more={"errors": found}))

    @app.exception_handler(HTTPException)
    async def refused_by_router(request: Request, error: HTTPException) -> Response:
        detail = REASONS.get(error.status_code, error.detail)
        return told(request, Refused(error.status_code, detail, headers=error.headers or {}))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        logged(request.scope)
        return told(request, Refused(500, UNEXPECTED))

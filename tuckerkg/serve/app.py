"""The application behind the guard: the page's files, the routes of the API, and what their errors become."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from tuckerkg.errors import TuckerkgError, UnknownNameError, printable
from tuckerkg.serve import schemas
from tuckerkg.serve.batcher import Batcher
from tuckerkg.serve.engine import Engine
from tuckerkg.serve.middleware import LOOPBACK, UNEXPECTED, Guard, Refused, RequestLimits, logged, problem
from tuckerkg.serve.prometheus import ServiceMetrics
from tuckerkg.types import LogFunction, ignore

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Problem} for status in (400, 401, 403, 404, 405, 408, 413, 415, 422, 500, 503)
}
REASONS = {404: "there is no such page or route", 405: "this route does not take that method"}
Text = Annotated[schemas.Name, Query()]
Limit = Annotated[int, Query(ge=1, le=schemas.MOST_ANSWERS)]
Hops = Annotated[int, Query(ge=1, le=3)]


class Service:
    """An engine that is loaded beside the running server, and what answers from it."""

    def __init__(self, load: Callable[[], Engine], metrics: ServiceMetrics, limits: RequestLimits) -> None:
        self.load, self.metrics, self.limits = load, metrics, limits
        self.engine: Engine | None = None
        self.batcher: Batcher | None = None

    async def start(self) -> None:
        """Load the run in a thread; until then the service is up but not ready."""
        engine = await asyncio.to_thread(self.load)
        self.batcher = Batcher(engine, self.metrics)
        await self.batcher.start()
        self.engine = engine
        self.metrics.workers.set(1)

    def ready(self) -> Engine:
        """Return the engine.

        Raises:
            Refused: it is still being loaded.
        """
        if self.engine is None:
            raise Refused(503, "the run is being loaded")
        return self.engine

    async def within_time(self, work: Any) -> Any:
        """Await ``work`` for as long as a computation may take.

        Raises:
            Refused: it took longer.
        """
        try:
            async with asyncio.timeout(self.limits.compute_seconds):
                return await work
        except TimeoutError:
            raise Refused(503, f"no answer within {self.limits.compute_seconds:g} seconds") from None

    async def ask(self, many: list[schemas.Asked]) -> list[list[dict[str, Any]]]:
        """Answer questions; names are looked up first, so that an unknown one fails alone."""
        engine = self.ready()
        for asked in many:
            engine.question(asked)
        assert self.batcher is not None
        found = await self.within_time(self.batcher.ask(many))
        return [[vars(fact) for fact in facts] for facts in found]


def make_app(
    load: Callable[[], Engine],
    *,
    hosts: Iterable[str] = LOOPBACK,
    token: str | None = None,
    limits: RequestLimits = RequestLimits(),  # noqa: B008  (frozen)
    log: LogFunction = ignore,
    log_all: bool = False,
) -> Guard:
    """Build the application around the engine that ``load`` opens, behind its guard."""
    metrics = ServiceMetrics()
    service = Service(load, metrics, limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(service.start())
        yield
        loading.cancel()
        if service.batcher is not None and service.engine is not None:
            await service.batcher.stop()
            await asyncio.to_thread(service.engine.close)

    app = FastAPI(
        title="tuckerkg",
        summary="Missing links of a knowledge graph, with probabilities and reasons",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses=PROBLEMS,
    )
    _add_page(app)
    _add_routes(app, service)
    _add_handlers(app)
    app.state.service = service
    bodies = [route.path for route in app.routes if isinstance(route, APIRoute) and "POST" in (route.methods or ())]
    return Guard(app, bodies=bodies, hosts=hosts, token=token, limits=limits, metrics=metrics, log=log, log_all=log_all)


def _add_page(app: FastAPI) -> None:
    mimetypes.add_type("text/javascript", ".js")  # browsers refuse scripts that a machine's own table calls plain text
    files = StaticFiles(packages=[("tuckerkg.serve", "web")])

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        """Serve the page."""
        return await files.get_response("index.html", request.scope)

    app.mount("/static", files)


def _add_routes(app: FastAPI, service: Service) -> None:
    @app.get("/health", tags=["service"])
    async def health() -> schemas.State:
        """The service is up."""
        return schemas.State(status="up")

    @app.get("/ready", tags=["service"])
    async def ready() -> schemas.State:
        """The run is loaded: questions are answered."""
        service.ready()
        return schemas.State(status="ready")

    @app.get("/metrics", tags=["service"], response_class=Response)
    async def metrics() -> Response:
        """Counts and times in Prometheus's format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/api/run", tags=["run"])
    async def about() -> schemas.About:
        """What is served: graph, model, training curve, figures."""
        return service.ready().about

    @app.get("/api/entities", tags=["graph"])
    async def search(q: Text, limit: Limit = 20) -> schemas.Entities:
        """Entities by a part of their name."""
        return service.ready().search(q, limit)

    @app.get("/api/facts", tags=["graph"])
    async def facts(entity: Text, limit: Limit = 100) -> schemas.Facts:
        """The facts of an entity."""
        return service.ready().facts(entity, limit)

    @app.get("/api/neighbourhood", tags=["graph"])
    async def neighbourhood(entity: Text, hops: Hops = 1, limit: Limit = 50) -> schemas.Neighbourhood:
        """The graph around an entity: facts of as many kinds as there are, nearer ones first."""
        return service.ready().neighbourhood(entity, hops, limit)

    @app.get("/api/relations", tags=["graph"])
    async def relations() -> schemas.Relations:
        """All relations."""
        return service.ready().relations

    @app.get("/api/suggestions", tags=["graph"])
    async def suggestions(entity: Text) -> schemas.Suggestions:
        """Questions that make sense for an entity."""
        return service.ready().suggestions(entity)

    # Answers are written as they are: checking them against their own schema would take longer than finding them.
    @app.post("/api/predict", tags=["links"], response_model=schemas.Answers)
    async def predict(asked: schemas.Asked) -> Response:
        """Missing links: tails, heads, relations, or all of one entity."""
        return JSONResponse({"answers": (await service.ask([asked]))[0], "sums": service.ready().sums})

    @app.post("/api/predict/batch", tags=["links"], response_model=schemas.AnswersOfBatch)
    async def predict_batch(asked: schemas.AskedBatch) -> Response:
        """Many questions at once."""
        return JSONResponse({"answers": await service.ask(asked.questions), "sums": service.ready().sums})

    @app.post("/api/score", tags=["links"])
    async def score(asked: schemas.AskedFacts) -> schemas.JudgedFacts:
        """Whole facts: their probabilities, and whether they are true."""
        work = asyncio.to_thread(service.ready().score, asked.facts)
        facts = await service.within_time(work)
        judged = [schemas.JudgedFact(**fact.as_dict()) for fact in facts]
        return schemas.JudgedFacts(facts=judged, sums=service.ready().sums)

    @app.post("/api/explain", tags=["links"])
    async def explain(asked: schemas.AskedWhy) -> schemas.Why:
        """Why a fact is believed: edges that carried it, what is left without them, paths."""
        work = asyncio.to_thread(service.ready().explain, asked)
        return schemas.Why(explanation=await service.within_time(work))

    @app.get("/api/missing", tags=["links"])
    async def missing(limit: Limit = 20) -> schemas.Missing:
        """The most believed missing facts of the whole graph; the first call begins to look for them."""
        return service.ready().missing(limit)


def _add_handlers(app: FastAPI) -> None:
    """Turn every exception of a route into an answer with an id."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return problem(error.status, error.reason)

    @app.exception_handler(UnknownNameError)
    async def unknown(request: Request, error: UnknownNameError) -> JSONResponse:
        return problem(404, str(error))

    @app.exception_handler(TuckerkgError)
    async def asked_wrongly(request: Request, error: TuckerkgError) -> JSONResponse:
        if type(error) is not TuckerkgError:  # about files, whose places are nobody's business
            return problem(500, UNEXPECTED, logged(request.scope))
        return problem(422, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        said = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5])
        return problem(422, printable(said)[:1_000])

    @app.exception_handler(HTTPException)
    async def refused_by_router(request: Request, error: HTTPException) -> JSONResponse:
        answer = problem(error.status_code, REASONS.get(error.status_code, error.detail))
        answer.headers.update(error.headers or {})  # among them the methods that are allowed
        return answer

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        return problem(500, UNEXPECTED, logged(request.scope))

"""A run of classes over HTTP: items by name, their classes, and the facts that these rest on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field

from tuckerkg import __version__
from tuckerkg.serve.access import Access
from tuckerkg.serve.app import add_handlers
from tuckerkg.serve.limits import Limits
from tuckerkg.serve.middleware import LOOPBACK, Guard
from tuckerkg.serve.schemas.asked import Name
from tuckerkg.serve.watching.prometheus import ServiceMetrics
from tuckerkg.serve.watching.tracing import tracing
from tuckerkg.tasks.run import ClassRun
from tuckerkg.types import LogFunction, ignore

MOST_ITEMS = 1_000
BODIES = ("/api/v1/classify", "/api/v1/explain")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AskedItems(_Body):
    """Which nodes or graphs."""

    items: Annotated[list[Name], Field(min_length=1, max_length=MOST_ITEMS)]


class AskedItem(_Body):
    """A node or graph to explain."""

    item: Name
    k: Annotated[int, Field(strict=True, ge=1, le=20)] = 5


class ClassOfItem(BaseModel):
    """The class that is told, "unsure" where none is probable enough, and every class's probability."""

    item: str
    item_label: str
    told: str
    best: str
    probability: float
    probabilities: dict[str, float]
    known: str | None


class Classes(BaseModel):
    """In the order in which they were asked for."""

    classes: list[ClassOfItem]


class Fact(BaseModel):
    """A fact, and the probability of the class without it."""

    fact: str
    probability_without: float


class WhyClass(BaseModel):
    """What an item's most probable class rests on, the strongest fact first."""

    model_config = ConfigDict(populate_by_name=True)

    item: str
    told: str = Field(alias="class")
    probability: float
    facts: list[Fact]


class Items(BaseModel):
    """Names that hold a text; ``total`` counts all of them."""

    items: list[str]
    total: int


class AboutClasses(BaseModel):
    """What is served."""

    name: str
    checkpoint: int
    kind: str
    target: str
    classes: list[str]
    items: int
    threshold: float
    valid: dict[str, Any] | None
    test: dict[str, Any] | None


def class_app(
    run: ClassRun,
    access: Access,
    *,
    hosts: Iterable[str] = LOOPBACK,
    origins: Iterable[str] = (),
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    log: LogFunction = ignore,
    access_log: Callable[[dict[str, Any]], None] | None = None,
) -> Guard:
    """Build the application around a run of classes, behind the guard of the service."""
    app = FastAPI(
        title="tuckerkg", summary="Classes of nodes or graphs", version=__version__, docs_url=None, redoc_url=None,
        openapi_url="/api/v1/openapi.json", generate_unique_id_function=lambda route: route.name,
    )  # fmt: skip
    _add_routes(app, run)
    add_handlers(app)
    patterns = [f"^{path}$" for path in BODIES]
    return Guard(
        app, bodies=patterns, streams=[], deletes=[], hosts=hosts, origins=origins, access=access,
        limits=limits, metrics=ServiceMetrics(), tracing=tracing(), log=log, access_log=access_log,
    )  # fmt: skip


def _add_routes(app: FastAPI, run: ClassRun) -> None:
    about = _about(run)
    explaining = threading.Lock()  # gradients of one explanation at a time

    @app.get("/ready", tags=["service"])
    async def ready() -> dict[str, str]:
        """The run is loaded."""
        return {"status": "ready"}

    @app.get("/health", tags=["service"])
    async def health() -> dict[str, str]:
        """The service is up."""
        return {"status": "up"}

    @app.get("/api/v1/run", tags=["run"])
    async def described() -> AboutClasses:
        """What is served, and how good it is."""
        return about

    @app.get("/api/v1/items", tags=["run"])
    async def items(q: Annotated[Name, Query()], limit: Annotated[int, Query(ge=1, le=MOST_ITEMS)] = 20) -> Items:
        """Nodes or graphs by a part of their label."""
        found = [label for label in run.items.labels if q.casefold() in label.casefold()]
        return Items(items=found[:limit], total=len(found))

    @app.post("/api/v1/classify", tags=["classes"])
    async def classify(asked: AskedItems) -> Classes:
        """Classes of nodes or graphs."""
        return Classes(classes=[ClassOfItem(**each.as_dict()) for each in run.predict(asked.items)])

    @app.post("/api/v1/explain", tags=["classes"])
    async def explain(asked: AskedItem) -> WhyClass:
        """The facts that a class rests on."""

        def work() -> dict[str, Any]:
            with explaining:
                return run.explain(asked.item, asked.k).as_dict()

        return WhyClass(**await asyncio.to_thread(work))


def _about(run: ClassRun) -> AboutClasses:
    task, judged = run.task, run.judged()
    return AboutClasses(
        name=run.path.resolve().name,
        checkpoint=run.step,
        kind=task.kind,
        target=task.target,
        classes=list(task.classes),
        items=task.num_items,
        threshold=run.fitted.threshold,
        valid=judged["valid"].as_dict() if "valid" in judged else None,
        test=judged["test"].as_dict() if "test" in judged else None,
    )

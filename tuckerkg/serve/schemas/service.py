"""The service itself: runs, decisions, jobs, uploads, problems."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from tuckerkg.serve.schemas.asked import Choice
from tuckerkg.serve.schemas.graph import Fact, OfRun, Page, Relation

Role = Literal["read", "decide", "train"]
Point = Annotated[list[float], Field(min_length=2, max_length=2)]  # epoch, validation MRR


class State(BaseModel):
    """Whether the service is up, or ready."""

    status: str


class NearName(BaseModel):
    """A name that looks like the one that nobody has."""

    label: str
    title: str


class FieldError(BaseModel):
    """What is wrong with one field; ``pointer`` is a JSON pointer into the body, or names a parameter."""

    pointer: str
    detail: str


class Problem(BaseModel):
    """What went wrong (RFC 9457): ``code`` for programs, ``detail`` for people; ``instance`` is the request's id."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    instance: str | None = None
    near: list[NearName] | None = None
    errors: list[FieldError] | None = None
    retry_after: int | None = None


class ServedRun(BaseModel):
    """One of the runs that are served."""

    name: str
    title: str
    version: int | None
    checkpoint: int | None
    default: bool
    state: Literal["loading", "ready", "failed"]
    reason: str | None = None
    entities: int | None
    relations: int | None
    facts: int | None
    test_mrr: float | None


class ServedRuns(BaseModel):
    """The runs, and what the caller may do. ``may_name``: who decides is named in the request."""

    runs: list[ServedRun]
    roles: list[Role]
    who: str | None
    may_name: bool


class Counts(BaseModel):
    """How many there are; ``facts`` are those of all splits."""

    entities: int
    relations: int
    facts: int
    train: int
    valid: int
    test: int


class Bin(BaseModel):
    """Facts of about one probability: what was said, what is true, how many."""

    confidence: float
    accuracy: float
    count: float


class Calibration(BaseModel):
    """How far probabilities hold."""

    ece: float
    brier: float
    log_loss: float
    bins: list[Bin]


class Trusted(BaseModel):
    """Of ``count`` facts with about the probability ``said``, the share ``true``."""

    said: float
    true: float
    count: int


class May(BaseModel):
    """What a run can do."""

    explain: bool
    vectors: bool
    add: bool


class About(OfRun):
    """What is served: the graph, the model, how it trained, and how good it is."""

    title: str
    about: str
    counts: Counts
    model: dict[str, str | int | float]
    curve: list[Point]
    test: dict[str, float] | None
    calibration: Calibration | None
    trust: list[Trusted] | None
    threshold: float
    index: dict[str, Any] | None
    sums: Literal["exact", "estimated"]
    may: May
    package_version: str
    licence: str


class RelationPage(OfRun):
    """One relation: who its heads and tails are, some facts, how well the model knows it.

    ``trust`` is what was said of its hidden facts and what is true, once they were looked for, where there are enough.
    """

    relation: Relation
    heads_type: str | None
    tails_type: str | None
    examples: list[Fact]
    figures: dict[str, float] | None
    trust: list[Trusted] | None
    thresholds: dict[str, float] | None


class DecidedFact(Fact):
    """A decision: its line in the file counts from 1."""

    choice: Choice
    by: str
    at: str
    probability: float | None
    version: int | None
    note: str
    line: int


class DecisionCounts(BaseModel):
    """How many facts are accepted, rejected and deferred."""

    accept: int
    reject: int
    defer: int


class Decisions(Page):
    """Decisions, the last one first; ``revision`` grows with every line of the file."""

    decisions: list[DecidedFact]
    counts: DecisionCounts
    revision: int


class DecisionsMade(OfRun):
    """What was decided just now, or taken back."""

    decisions: list[DecidedFact]
    counts: DecisionCounts
    revision: int


class Job(BaseModel):
    """Work in the background: how far it is, what came of it."""

    id: str
    kind: Literal["missing", "train", "report", "add"]
    run: str | None
    by: str | None
    state: Literal["waiting", "working", "done", "failed", "cancelled"]
    done: int
    total: int
    seconds_left: float | None
    message: str | None = None
    started: str
    problem: Problem | None
    result: dict[str, Any] | None
    curve: list[Point]


class StartedJob(BaseModel):
    """A job that was taken on."""

    job: Job


class Jobs(BaseModel):
    """Jobs, the newest first."""

    jobs: list[Job]
    total: int
    next: int | None = None


class Uploaded(BaseModel):
    """A graph that was sent: what inspection says of it, and how long training would take at most."""

    upload: str
    name: str
    report: dict[str, Any]
    estimate_minutes: float


class Switched(OfRun):
    """A run was opened at another version."""

    before: int

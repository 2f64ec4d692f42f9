"""What may be asked over HTTP and what comes back: names, never ids."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from tuckerkg.types import Basis, Verdict

MOST_ANSWERS = 1_000
MOST_QUESTIONS = 256
LONGEST_LABEL = 4_096


def _plain(text: str) -> str:
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("a name holds no NUL and no lone surrogate")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_LABEL), AfterValidator(_plain)]
Count = Annotated[int, Field(strict=True, ge=1, le=MOST_ANSWERS)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Asked(_Body):
    """A question: two of head, relation and tail, or one of head and tail alone."""

    head: Name | None = None
    relation: Name | None = None
    tail: Name | None = None
    k: Count = 10
    known: Annotated[bool, Field(strict=True)] = False
    typed: Annotated[bool, Field(strict=True)] = True
    joined: Annotated[bool, Field(strict=True)] | None = None
    """Whether probabilities come from both questions of a fact; null: where the run is quick to ask."""

    @model_validator(mode="after")
    def _leaves_something_open(self) -> Asked:
        if None not in (self.head, self.relation, self.tail) or (self.head is None and self.tail is None):
            raise ValueError("give head and relation, relation and tail, head and tail, or one of head and tail")
        return self


class AskedBatch(_Body):
    """Many questions at once."""

    questions: Annotated[list[Asked], Field(min_length=1, max_length=MOST_QUESTIONS)]


class Triple(_Body):
    """A fact by its names or labels."""

    head: Name
    relation: Name
    tail: Name


class AskedFacts(_Body):
    """Facts to weigh."""

    facts: Annotated[list[Triple], Field(min_length=1, max_length=MOST_QUESTIONS)]


class AskedWhy(_Body):
    """A fact to explain."""

    head: Name
    relation: Name
    tail: Name
    k: Annotated[int, Field(strict=True, ge=1, le=20)] = 5


class Fact(BaseModel):
    """A fact in readable names, and in the data's labels."""

    head: str
    relation: str
    tail: str
    head_label: str
    relation_label: str
    tail_label: str


class Answer(Fact):
    """A fact that may be missing; ``known`` says that the graph holds it.

    ``basis`` names the questions that the probability comes from: "both" that the fact answers, "tail" or "head".
    """

    score: float
    probability: float
    basis: Basis
    known: bool


class JudgedFact(Answer):
    """A fact that was asked about: whether it is true, and how often such a verdict was wrong on validation."""

    verdict: Verdict | None
    error_rate: float | None


class _Weighed(BaseModel):
    sums: Literal["exact", "estimated"] = "exact"
    """Where probabilities come from: sums over all entities, or, with an index, estimates from a random sample."""


class JudgedFacts(_Weighed):
    """In the order in which they were asked."""

    facts: list[JudgedFact]


class Answers(_Weighed):
    """The best first."""

    answers: list[Answer]


class AnswersOfBatch(_Weighed):
    """One list per question, in their order."""

    answers: list[list[Answer]]


class Entity(BaseModel):
    """An entity: its label in the data, its readable name, and how many facts it has."""

    label: str
    title: str
    facts: int


class Entities(BaseModel):
    """What a search found; ``total`` counts all matches."""

    entities: list[Entity]
    total: int


class Facts(BaseModel):
    """Facts of one entity; ``total`` counts all of them."""

    entity: Entity
    facts: list[Fact]
    total: int


class Neighbour(Entity):
    """An entity and how many facts lie between it and the one that was asked for."""

    distance: int


class Neighbourhood(BaseModel):
    """A piece of the graph around one entity; ``total`` counts all facts of that entity."""

    entities: list[Neighbour]
    facts: list[Fact]
    total: int


class Relation(BaseModel):
    """A relation and its number of facts."""

    label: str
    title: str
    facts: int


class Relations(BaseModel):
    """All relations, most facts first."""

    relations: list[Relation]


class Suggestion(BaseModel):
    """A question that makes sense for an entity: as the head or as the tail of a relation."""

    relation: str
    relation_label: str
    place: Literal["head", "tail"]
    known: int


class Suggestions(BaseModel):
    """Questions for an entity; those with facts already come first."""

    entity: Entity
    suggestions: list[Suggestion]


class Why(BaseModel):
    """An explanation; see ``tuckerkg explain --json``."""

    explanation: dict[str, Any]


class Missing(_Weighed):
    """The most believed missing facts of the whole graph, or how far the search for them is.

    A run that is slow to ask is asked ``asked`` of all ``questions``: the promising ones, where a member of a blend
    finds them, else random ones. ``reason`` says why it has failed; the next request begins it again.
    """

    state: Literal["working", "ready", "failed"]
    reason: str | None = None
    done: int
    total: int
    asked: int
    questions: int
    chosen: Literal["all", "promising", "random"]
    answers: list[Answer]


class About(BaseModel):
    """What is served."""

    name: str
    version: int
    facts: dict[str, str]
    curve: list[Annotated[list[float], Field(min_length=2, max_length=2)]]  # epoch, validation MRR
    test: dict[str, Any] | None
    calibration: dict[str, Any] | None
    index: dict[str, Any] | None = None  # how good it is, where one proposes candidates


class State(BaseModel):
    """Whether the service is up, or ready."""

    status: str


class Problem(BaseModel):
    """What went wrong, and an id by which the log can be searched."""

    error: str
    id: str

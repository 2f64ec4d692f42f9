"""What the graph holds: entities, relations and facts, as they go over the wire."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tuckerkg.serve.schemas.asked import Choice, Place
from tuckerkg.types import Basis, Verdict


class RunStamp(BaseModel):
    """Which run an answer is from: its name, version, and the training step of its weights."""

    name: str
    version: int
    checkpoint: int


class OfRun(BaseModel):
    """An answer that names its run."""

    run: RunStamp


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
    ``single``: the relation holds one value, and this entity has another one already. ``reason``: why, in one line.
    """

    score: float
    probability: float
    basis: Basis
    known: bool
    decision: Choice | None = None
    single: bool = False
    reason: str | None = None


class JudgedFact(Answer):
    """A fact that was asked about: whether it is true, and how often such a verdict was wrong on validation."""

    verdict: Verdict | None
    error_rate: float | None


class Entity(BaseModel):
    """An entity: its label in the data, its readable name, how many facts it has, and what kind of thing it is."""

    label: str
    title: str
    facts: int
    type: str | None = None


class Relation(BaseModel):
    """A relation: its number of facts, whether heads and tails have one or many, and whether a head has one value."""

    label: str
    title: str
    facts: int
    kind: Literal["1-1", "1-N", "N-1", "N-N"]
    single: bool


class Page(OfRun):
    """A part of a list: ``total`` counts all of it, ``next`` is the offset of the next part."""

    total: int
    next: int | None = None


class Entities(Page):
    """What a search found; ``near``: no name holds the words, these are near."""

    entities: list[Entity]
    near: bool = False


class WholeQuestion(BaseModel):
    """A question, such as "France borders ?"; ``place`` is that of the entity."""

    place: Place
    entity: Entity
    relation: Relation
    text: str


class Completions(OfRun):
    """What may be meant by the beginning of a question."""

    entities: list[Entity]
    relations: list[Relation]
    questions: list[WholeQuestion]
    near: bool = False


class FactGroup(BaseModel):
    """Facts of an entity by one relation, as its head or as its tail: the first of ``known``."""

    relation: Relation
    place: Place
    known: int
    single: bool
    facts: list[Fact]


class EntityPanel(OfRun):
    """An entity with its facts by relation; ``total`` counts all facts."""

    entity: Entity
    description: str | None
    groups: list[FactGroup]
    total: int


class Facts(Page):
    """Facts of one entity."""

    entity: Entity
    facts: list[Fact]


class Neighbour(Entity):
    """An entity and how many facts lie between it and the one that was asked for."""

    distance: int


class Neighbourhood(OfRun):
    """A piece of the graph around one entity; ``total`` counts all facts of that entity."""

    entities: list[Neighbour]
    facts: list[Fact]
    predicted: list[Answer]
    total: int


class SimilarEntity(Entity):
    """An entity and how near it is to another, 1 being the same."""

    similarity: float


class Nearest(OfRun):
    """Entities like one, by embedding, or by neighbours that both have."""

    entity: Entity
    by: Literal["embedding", "neighbours"]
    entities: list[SimilarEntity]


class PlacedEntity(Entity):
    """An entity and its place in a plane, from -1 to 1."""

    x: float
    y: float


class Plane(OfRun):
    """Entities where their vectors lie in a plane: principal components, which keep a share of the variance.

    Those of ``total`` that have most facts.
    """

    entities: list[PlacedEntity]
    total: int
    variance: float


class ListedRelation(Relation):
    """A relation, and what most of its heads and tails are."""

    heads_type: str | None
    tails_type: str | None


class Relations(Page):
    """Relations, most facts first."""

    relations: list[ListedRelation]


class Suggestion(BaseModel):
    """A question that makes sense for an entity: as the head or as the tail of a relation."""

    relation: str
    relation_label: str
    place: Place
    known: int
    single: bool


class Suggestions(OfRun):
    """Questions for an entity; those with facts already come first."""

    entity: Entity
    suggestions: list[Suggestion]

"""What the tools give back: names and labels, never ids. Their schemas are what a program is told beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from tuckerkg.types import Verdict


class GraphFact(BaseModel):
    """A fact in readable names, with the data's labels, which tell namesakes apart."""

    head: str
    relation: str
    tail: str
    head_label: str
    relation_label: str
    tail_label: str


class PossibleFact(GraphFact):
    """A fact that may be missing."""

    probability: float = Field(description="how probable it is that the fact is true and missing from the graph")
    known: bool = Field(description="the graph holds it")


class JudgedFact(PossibleFact):
    """A fact that was asked about."""

    verdict: Verdict | None = Field(description="yes, no or unsure; null: the run has no fitted thresholds")
    error_rate: float | None = Field(description="how often such a verdict was wrong where the truth was known")


class About(BaseModel):
    """What the graph and the model are."""

    name: str
    version: int
    description: dict[str, str]
    test_mrr: float | None = Field(description="mean reciprocal rank on the test split, if it was evaluated")
    may_decide: bool = Field(description="whether decisions may be written")


class FoundEntity(BaseModel):
    """An entity, and how many facts it has."""

    name: str
    label: str
    facts: int


class Found(BaseModel):
    """Entities whose names hold the words, and how many there are in all."""

    entities: list[FoundEntity]
    total: int


class RelationOfGraph(BaseModel):
    """A relation, and how many facts it has."""

    name: str
    label: str
    facts: int


class RelationsOfGraph(BaseModel):
    """All relations, those with most facts first."""

    relations: list[RelationOfGraph]


class FactsOfEntity(BaseModel):
    """Facts of one entity; ``total`` counts those that were asked for."""

    facts: list[GraphFact]
    total: int
    next_offset: int | None = Field(description="where the next page begins; null: this was the last one")


class PossibleFacts(BaseModel):
    """Facts that may be missing, the most probable first."""

    facts: list[PossibleFact]
    sums: Literal["exact", "estimated"]


class MissingFacts(BaseModel):
    """The most probable missing facts of the whole graph, or how far the search for them is."""

    state: Literal["working", "ready", "failed"]
    progress: str
    facts: list[PossibleFact]


class JudgedFacts(BaseModel):
    """In the order in which they were asked."""

    facts: list[JudgedFact]


class Reason(BaseModel):
    """What speaks for a fact, in words."""

    fact: str
    probability: float
    known: bool
    rank: int
    candidates: int
    edges: list[str] = Field(description="facts that carried the score, the strongest first, with what each is worth")
    paths: list[str] = Field(description="paths from head to tail, and how often such a path ends at a true fact")


class DecidedFact(BaseModel):
    """What somebody decided about a fact, which stands here by its labels."""

    head: str
    relation: str
    tail: str
    choice: str
    by: str
    at: str
    note: str


class Decided(BaseModel):
    """Decisions about facts."""

    decisions: list[DecidedFact]
    counts: dict[str, int]


def possible(fact: Mapping[str, Any]) -> PossibleFact:
    """As it is told."""
    return PossibleFact.model_validate(fact)


def judged(fact: Mapping[str, Any]) -> JudgedFact:
    """As it is told."""
    return JudgedFact.model_validate(fact)

"""Missing links: answers, verdicts, explanations, and what was found in the whole graph."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from tuckerkg.serve.schemas.graph import Answer, Fact, JudgedFact, OfRun
from tuckerkg.serve.schemas.service import Problem

State = Literal["working", "ready", "failed"]


class Weighed(OfRun):
    """Where probabilities come from: sums over all entities, or, with an index, estimates from a random sample."""

    sums: Literal["exact", "estimated"] = "exact"


class Answers(Weighed):
    """The best first."""

    answers: list[Answer]


class FoundAnswers(BaseModel):
    """The answers to one question of many."""

    answers: list[Answer]


class Failed(BaseModel):
    """Why one of many could not be answered."""

    problem: Problem


class AnswersOfBatch(Weighed):
    """One result per question, in their order."""

    results: list[FoundAnswers | Failed]


class FoundFact(BaseModel):
    """A fact that could be weighed."""

    fact: JudgedFact


class JudgedFacts(Weighed):
    """One result per fact, in their order."""

    results: list[FoundFact | Failed]


class Standing(BaseModel):
    """How a fact stands: its score, its log share among all candidates, its rank among those not known already."""

    score: float
    log_share: float
    rank: int


class Edge(Fact):
    """A fact that carried the score: ``loss`` of the log share is lost where it alone is taken out."""

    loss: float
    standing: Standing


class Step(BaseModel):
    """One edge of a path, and whether it points forwards."""

    from_: str
    from_label: str
    relation: str
    relation_label: str
    to: str
    to_label: str
    forwards: bool

    model_config = ConfigDict(populate_by_name=True, alias_generator=lambda name: name.rstrip("_"))


class Path(BaseModel):
    """A way from head to tail: its share of the score where scores come along paths, and how often its kind is right.

    Of ``walks`` random paths of its kind, ``confidence`` is the share that leads to a true fact of the relation.
    """

    steps: list[Step]
    share: float | None
    confidence: float
    walks: int

    def sentence(self) -> str:
        """``A -relation-> B <-relation- C``."""
        text = self.steps[0].from_
        for step in self.steps:
            text += f" -{step.relation}-> {step.to}" if step.forwards else f" <-{step.relation}- {step.to}"
        return text

    def evidence(self, relation: str) -> str:
        """What speaks for it: its share of the score, and how often a path of its kind leads to ``relation``."""
        kind = f"{self.confidence:.0%} of {self.walks:,} such paths end at a true {relation}"
        return kind if self.share is None else f"{self.share:.0%} of the score; {kind}"


class Explanation(OfRun):
    """Why a fact is believed: edges that carried its score, what is left without them, and paths.

    ``fact`` has the probability that it has everywhere. ``typed``: the tail has been seen in that place; ranks are
    over all entities, and typed answers leave others out. ``rival`` is the best other answer.
    """

    fact: JudgedFact
    probability: float
    known: bool
    standing: Standing
    candidates: int
    typed: bool
    uses_messages: bool
    edges: list[Edge]
    without_all: Standing | None
    paths: list[Path]
    rival: Answer | None


class Missing(Weighed):
    """The most believed missing facts of the whole graph, or how far the search for them is.

    Nothing under ``threshold`` is listed. A run that is slow to ask is asked ``asked`` of all ``questions``: the
    promising ones, where a member of a blend finds them, else random ones. ``reason`` says why it has failed; the next
    request begins it again.
    """

    state: State
    reason: str | None = None
    done: int
    total: int
    seconds_left: float | None = None
    asked: int
    questions: int
    chosen: Literal["all", "promising", "random"]
    threshold: float
    answers: list[Answer]
    total_answers: int
    next: int | None = None


class ProvenFact(Answer):
    """A fact that the model found; ``true``: it was hidden from it."""

    true: bool


class FirstAnswers(BaseModel):
    """Of the first answers: the probability they were given on average, and the share that is true."""

    first: int
    mean_probability: float
    true_share: float


class Proof(OfRun):
    """Hidden test facts that were found again: the model asked where only the test split is unknown.

    ``hidden`` counts the test facts.
    """

    state: State
    reason: str | None = None
    done: int
    total: int
    seconds_left: float | None = None
    hidden: int
    said: list[FirstAnswers]
    answers: list[ProvenFact]
    total_answers: int
    next: int | None = None


class Change(BaseModel):
    """An answer, and its probability in the version before."""

    fact: Answer
    before: float


class Changes(OfRun):
    """What changed between two versions of a run."""

    from_: int
    to: int
    added: list[Fact]
    added_total: int
    entities_added: list[str]
    answers: list[Change]

    model_config = ConfigDict(populate_by_name=True, alias_generator=lambda name: name.rstrip("_"))

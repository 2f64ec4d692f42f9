"""The tools: search, facts, predict, score, explain, and decide where that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from tuckerkg.inference.run import Run
from tuckerkg.mcp import answers
from tuckerkg.review.decisions import Decision, Decisions
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.engine.links import Row
from tuckerkg.serve.engine.listing import Filters
from tuckerkg.serve.engine.names import NoSuchName
from tuckerkg.serve.schemas.asked import Asked, AskedWhy, Triple

Name = Annotated[str, Field(min_length=1, max_length=4096, description="a name or label of the graph")]
OptionalName = Annotated[str | None, Field(min_length=1, max_length=4096, description="a name or label of the graph")]
Count = Annotated[int, Field(ge=1, le=100, description="how many at most")]
Offset = Annotated[int, Field(ge=0, description="how many to leave out first")]
Choice = Literal["accept", "reject", "defer"]


class RunTools:
    """Tools over one run; every public method is one, and its docstring is what a program reads about it.

    Args:
        run: what is asked.
        by: who decides; None: decisions are read only.
    """

    def __init__(self, run: Run, by: str | None = None) -> None:
        self._run, self._by = run, by
        self._engine = Engine(run)
        self._decisions = Decisions(run.path)

    def readers(self) -> list[Callable[..., object]]:
        """Tools that change nothing."""
        return [
            self.about, self.search, self.relations, self.facts, self.predict, self.missing, self.score, self.explain,
            self.decisions,
        ]  # fmt: skip

    def writers(self) -> list[Callable[..., object]]:
        """Tools that write decisions, where somebody is named who decides."""
        return [] if self._by is None else [self.decide, self.undo]

    def close(self) -> None:
        """End what runs in the background."""
        self._engine.close()

    def about(self) -> answers.About:
        """Say what the graph is about, which model answers, and how well it did on facts hidden from it."""
        about = self._engine.page.about
        told = {"about": about.about, **about.counts.model_dump(), **about.model}
        return answers.About(
            name=about.run.name,
            version=about.run.version,
            description={key: f"{value:,}" if isinstance(value, int) else str(value) for key, value in told.items()},
            test_mrr=(about.test or {}).get("mrr"),
            may_decide=self._by is not None,
        )

    def search(self, words: Name, limit: Count = 10) -> answers.Found:
        """Find entities by a part of their name, before anything is asked about them."""
        found = self._engine.around.search(words, limit)
        entities = [answers.FoundEntity(name=each.title, label=each.label, facts=each.facts) for each in found.entities]
        return answers.Found(entities=entities, total=found.total)

    def relations(self) -> answers.RelationsOfGraph:
        """List the relations of the graph with their number of facts."""
        return answers.RelationsOfGraph(
            relations=[
                answers.RelationOfGraph(name=each.title, label=each.label, facts=each.facts)
                for each in self._engine.graph.list_relations(len(self._run.relations), 0).relations
            ]
        )

    def facts(
        self, entity: Name, relation: OptionalName = None, limit: Count = 20, offset: Offset = 0
    ) -> answers.FactsOfEntity:
        """List facts that the graph holds about an entity, as head or as tail; of one relation where it is given."""
        page = self._engine.graph.facts(entity, relation, None, limit, offset)
        return answers.FactsOfEntity(
            facts=[answers.GraphFact.model_validate(fact, from_attributes=True) for fact in page.facts],
            total=page.total,
            next_offset=page.next,
        )

    def predict(
        self,
        head: OptionalName = None,
        relation: OptionalName = None,
        tail: OptionalName = None,
        limit: Count = 10,
        known: Annotated[bool, Field(description="list facts that the graph holds, too")] = False,
    ) -> answers.PossibleFacts:
        """Complete a fact: give head and relation, relation and tail, head and tail, or one entity alone."""
        asked = Asked(head=head, relation=relation, tail=tail, k=limit, known=known)
        (found,) = self._engine.answer([asked])
        return answers.PossibleFacts(facts=[answers.possible(fact) for fact in found], sums=self._engine.sums)

    def missing(self, limit: Count = 20, relation: OptionalName = None) -> answers.MissingFacts:
        """List the most probable missing facts of the whole graph. The first call starts a search: ask again later."""
        found = self._engine.listing.missing(limit, 0, Filters(relation=relation, at_least=0.0, decided="any"))
        progress = found.reason or f"{found.done:,} of {found.total:,} questions"
        facts = [answers.PossibleFact.model_validate(fact, from_attributes=True) for fact in found.answers]
        return answers.MissingFacts(state=found.state, progress=progress, facts=facts)

    def score(
        self,
        facts: Annotated[list[Triple], Field(min_length=1, max_length=100, description="facts to weigh")],
    ) -> answers.JudgedFacts:
        """Say of given facts how probable they are, and yes, no or unsure with the measured error rate."""
        return answers.JudgedFacts(facts=[answers.judged(fact) for fact in self._scored(facts)])

    def explain(
        self, head: Name, relation: Name, tail: Name, limit: Annotated[int, Field(ge=1, le=20)] = 5
    ) -> answers.Reason:
        """Say why a fact is predicted: the facts that carried its score, and paths from head to tail."""
        found = self._engine.explaining.explain(AskedWhy(head=head, relation=relation, tail=tail, k=limit))
        name = found.fact.relation
        return answers.Reason(
            fact=f"{found.fact.head} {name} {found.fact.tail}",
            probability=found.probability,
            known=found.known,
            rank=found.standing.rank,
            candidates=found.candidates,
            edges=[f"{edge.head} {edge.relation} {edge.tail} (log share {edge.loss:+.3f})" for edge in found.edges],
            paths=[f"{path.sentence()} ({path.evidence(name)})" for path in found.paths],
        )

    def decisions(self, choice: Choice | None = None) -> answers.Decided:
        """List what people decided about predicted facts, and how many were accepted, rejected and deferred."""
        return self._told(self._decisions.current(choice))

    def decide(
        self,
        facts: Annotated[list[Triple], Field(min_length=1, max_length=100)],
        choice: Choice,
        note: Annotated[str, Field(max_length=1000, description="why, in a sentence")] = "",
    ) -> answers.Decided:
        """Accept, reject or defer predicted facts. Kept beside the run with who and when; `undo` takes it back."""
        assert self._by is not None
        made = [
            Decision.now(
                (fact["head_label"], fact["relation_label"], fact["tail_label"]),
                choice,
                self._by,
                probability=fact["probability"],
                version=self._run.version,
                step=self._run.step,
                note=note,
            )
            for fact in self._scored(facts)
        ]
        self._decisions.add(made)
        return self._told(made)

    def undo(self, count: Annotated[int, Field(ge=1, le=100)] = 1) -> answers.Decided:
        """Take back the last decisions that were made by these tools' own name."""
        assert self._by is not None
        return self._told(self._decisions.undo(self._by, count))

    def _scored(self, facts: list[Triple]) -> list[Row]:
        """Facts with probabilities and verdicts. Raises NoSuchName."""
        rows = []
        for row in self._engine.links.score(facts):
            if isinstance(row, NoSuchName):
                raise row
            rows.append(row)
        return rows

    def _told(self, decisions: list[Decision]) -> answers.Decided:
        told = [answers.DecidedFact.model_validate(each, from_attributes=True) for each in decisions]
        return answers.Decided(decisions=told, counts=self._decisions.counts())

"""What searches over the whole graph found, some of it at a time: missing facts, hidden facts, changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

import tuckerkg
from tuckerkg.data.triple_sets import rows_among
from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.answers.predictions import Prediction
from tuckerkg.serve.engine.graph import next_offset
from tuckerkg.serve.engine.slices import Pause, no_pause
from tuckerkg.serve.engine.whole_graph import MissingSearch
from tuckerkg.serve.schemas import links as schemas
from tuckerkg.serve.schemas.graph import Answer, Fact
from tuckerkg.serve.schemas.service import Trusted

if TYPE_CHECKING:
    from tuckerkg.serve.engine.engine import Engine

FIRST = (20, 100, 500, 2_000)  # of the hidden facts
BINS = 10
LEAST_TRUSTED = 30  # links of one relation, from where on what is true of them says something
MOST_REASONS = 50  # of one page
MOST_CHANGES = 1_000  # facts that a version added and that are shown
CHANGED = 100  # answers whose probability before is asked
Decided = Literal["no", "yes", "any"]
Fact_ids = tuple[int, int, int]


@dataclass(frozen=True)
class Filters:
    """Which missing facts are wanted."""

    relation: str | None = None
    type: str | None = None
    entity: str | None = None
    at_least: float | None = None
    decided: Decided = "no"


class Listing:
    """Lists of one run."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.graph = engine, engine.graph

    # ------------------------------------------------------------------------------------------ missing facts

    def missing(
        self,
        limit: int,
        offset: int = 0,
        filters: Filters = Filters(),  # noqa: B008  (frozen)
        reasons: bool = False,
        pause: Pause = no_pause,
    ) -> schemas.Missing:
        """The most probable missing facts; the first request starts the search, which runs in the background.

        Raises:
            NoSuchName: of an entity or a relation to filter by.
        """
        graph = self.graph
        relation = None if filters.relation is None else graph.relations.id_of(filters.relation)
        entity = None if filters.entity is None else graph.run.entities.labels[graph.entities.id_of(filters.entity)]
        label = None if relation is None else graph.run.relations.labels[relation]
        search = self._search(relation)
        state, failure = _begun(search)
        threshold = self.engine.page.about.threshold if filters.at_least is None else filters.at_least
        self.engine.reviewed.now()
        chosen = [
            fact
            for fact in search.found or []
            if fact.probability >= threshold
            and entity in (None, fact.head_label, fact.tail_label)
            and label in (None, fact.relation_label)
            and self._is_of_type(fact, filters.type)
            and self._is_wanted(fact, filters.decided)
        ]
        page = [self.answer(fact) for fact in chosen[offset : offset + limit]]
        if reasons:
            for place, answer in enumerate(page[:MOST_REASONS]):
                pause()
                page[place] = answer.model_copy(update={"reason": self.engine.explaining.reason(self.ids(answer))})
        done, total = search.progress
        return schemas.Missing(
            run=graph.stamp,
            sums=self.engine.sums,
            state=state,
            reason=failure,
            done=done,
            total=total,
            seconds_left=search.seconds_left,
            asked=search.asked,
            questions=search.questions,
            chosen=search.chosen,
            threshold=threshold,
            answers=page,
            total_answers=len(chosen),
            next=next_offset(offset, len(page), len(chosen)),
        )

    def _search(self, relation: int | None) -> MissingSearch:
        """The search that holds the facts of a relation: the one over the whole graph, if it kept all that it found."""
        whole = self.engine.search()
        if relation is None or (whole.found is not None and len(whole.found) < whole.kept):
            return whole
        return self.engine.search(relation)

    def _is_of_type(self, fact: Prediction, kind: str | None) -> bool:
        if kind is None:
            return True
        entities = self.graph.run.entities
        ends = entities.id_of(fact.head_label), entities.id_of(fact.tail_label)
        return any(self.graph.type_of(end) == kind for end in ends)

    def _is_wanted(self, fact: Prediction, decided: Decided) -> bool:
        if decided == "any":
            return True
        found = self.engine.reviewed.choice_of((fact.head_label, fact.relation_label, fact.tail_label))
        return (found is not None) == (decided == "yes")

    def ids(self, fact: Fact | Prediction) -> Fact_ids:
        """A fact's labels as ids."""
        entities, relations = self.graph.run.entities, self.graph.run.relations
        return entities.id_of(fact.head_label), relations.id_of(fact.relation_label), entities.id_of(fact.tail_label)

    def answer(self, fact: Prediction) -> Answer:
        """A prediction as it goes over the wire."""
        labels = fact.head_label, fact.relation_label, fact.tail_label
        decision = self.engine.reviewed.choice_of(labels)
        return Answer(**fact.as_dict(), decision=decision, single=self.graph.has_value(*self.ids(fact)))  # type: ignore[arg-type]

    # ------------------------------------------------------------------------------------------ hidden facts

    def proof(self, limit: int, offset: int = 0) -> schemas.Proof:
        """Test facts that were found again; the first request starts the search."""
        hidden = len(self.graph.run.split("test"))
        if not hidden:
            return schemas.Proof(
                run=self.graph.stamp, state="ready", done=0, total=0, hidden=0, said=[], answers=[], total_answers=0
            )
        search = self.engine.hidden_search
        state, failure = _begun(search)
        found = search.found or []
        page = [
            schemas.ProvenFact(**self.answer(fact).model_dump(), true=self._is_hidden(fact))
            for fact in found[offset : offset + limit]
        ]
        done, total = search.progress
        return schemas.Proof(
            run=self.graph.stamp,
            state=state,
            reason=failure,
            done=done,
            total=total,
            seconds_left=search.seconds_left,
            hidden=hidden,
            said=self._said(found),
            answers=page,
            total_answers=len(found),
            next=next_offset(offset, len(page), len(found)),
        )

    def _is_hidden(self, fact: Prediction) -> bool:
        return self.engine.links.predictor.holds(fact)

    def _said(self, found: Sequence[Prediction]) -> list[schemas.FirstAnswers]:
        chances, true = self._of_hidden(found)
        return [
            schemas.FirstAnswers(
                first=first, mean_probability=float(chances[:first].mean()), true_share=float(true[:first].mean())
            )
            for first in FIRST
            if len(found) >= first
        ]

    def _of_hidden(self, found: Sequence[Prediction]) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of facts, and whether they are true."""
        chances = np.array([fact.probability for fact in found])
        ids = np.array([self.ids(fact) for fact in found], dtype=np.int64).reshape(-1, 3)
        return chances, self.engine.links.predictor.known.hold(*torch.from_numpy(ids).unbind(1)).numpy()

    def trust(self, relation: str | None = None) -> list[Trusted] | None:
        """What was said of hidden facts and what is true, of all or one relation's, once they were looked for.

        Raises:
            NoSuchName: of the relation.
        """
        number = None if relation is None else self.graph.relations.id_of(relation)
        label = None if number is None else self.graph.run.relations.labels[number]
        if not len(self.graph.run.split("test")):
            return None
        search = self.engine.hidden_search
        if search.found is None:
            return None
        found = [fact for fact in search.found if label in (None, fact.relation_label)]
        if label is not None and len(found) < LEAST_TRUSTED:
            return None
        chances, true = self._of_hidden(found)
        bins = np.minimum((chances * BINS).astype(int), BINS - 1)
        return [
            Trusted(said=float(chances[bins == each].mean()), true=float(true[bins == each].mean()), count=count)
            for each in range(BINS)
            if (count := int((bins == each).sum()))
        ]

    # ------------------------------------------------------------------------------------------ versions

    def changes(self, version: int, pause: Pause = no_pause) -> schemas.Changes:
        """What changed between a version and the one served.

        Raises:
            TuckerkgError: there is no such version, or it is a later one.
        """
        run = self.graph.run
        if version >= run.version:
            raise TuckerkgError(f"version {version} is not before version {run.version}, which is served")
        pause()
        before = tuckerkg.load(run.path, version=version)
        pause()
        fresh = run.split("train")
        added = fresh[~rows_among(fresh, before.split("train"))]
        found = (self.engine.search(None).found or [])[:CHANGED]
        shared = [fact for fact in found if fact.head_label in before.entities and fact.tail_label in before.entities]
        pause()
        said = before.score([(fact.head_label, fact.relation_label, fact.tail_label) for fact in shared])
        changes = [
            schemas.Change(fact=self.answer(now), before=then.probability)
            for now, then in zip(shared, said, strict=True)
        ]
        return schemas.Changes(
            run=self.graph.stamp,
            from_=version,
            to=run.version,
            added=[Fact(**self.graph.named(*row)) for row in added[:MOST_CHANGES].tolist()],
            added_total=len(added),
            entities_added=list(run.entities.labels[len(before.entities) :])[:MOST_CHANGES],
            answers=sorted(changes, key=lambda each: -abs(each.fact.probability - each.before)),
        )


def _begun(search: MissingSearch) -> tuple[schemas.State, str | None]:
    """How far a search is; one that has failed says so once and begins again with the next request."""
    failure = search.take_failure()
    if failure is not None:
        return "failed", failure
    search.start()
    return ("working" if search.found is None else "ready"), None

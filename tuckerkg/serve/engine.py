"""What the service knows of a run: search, facts, suggestions, predictions in batches, explanations.

Everything is loaded once: what happens to the run folder afterwards does not reach it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.evaluation.protocol import split_sha256
from tuckerkg.graph.type_constraints import plausible_questions
from tuckerkg.inference.answers.predictions import Prediction
from tuckerkg.inference.predictor import Question
from tuckerkg.inference.run import Run
from tuckerkg.nn.contracts import is_slow
from tuckerkg.serve import schemas
from tuckerkg.serve.missing_search import MissingSearch, Requests

if TYPE_CHECKING:
    import polars as pl


class Engine:
    """Answers from one run. Safe to ask from several threads; explanations one at a time."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.predictor = run.predictor
        self.triples = np.concatenate([run.split(name) for name in SPLITS])
        self.about = self._about()
        ends = np.concatenate([self.triples[:, 0], self.triples[:, 2]])
        self._order = np.argsort(ends, kind="stable") % len(self.triples)
        self._bounds = np.searchsorted(np.sort(ends), np.arange(len(run.entities) + 1))
        self._requests = Requests()
        self._search = MissingSearch(run, self._requests)
        self._explaining = threading.Lock()
        self.run.scorer  # noqa: B018  (loaded before the service is ready)
        self.run.calibration  # noqa: B018
        self.run.explainer  # noqa: B018
        plausible = plausible_questions(self.triples, len(run.entities), len(run.relations)).numpy()
        self._heads, self._tails = np.hsplit(plausible, 2)
        self.answer([schemas.Asked(head=run.entities.labels[0], relation=run.relations.labels[0])])

    # ------------------------------------------------------------------------------------------ entities

    @cached_property
    def _folded(self) -> pl.Series:
        import polars as pl  # noqa: PLC0415  (half a second that --help need not wait for)

        titles = [self.run.entities.shown(number) for number in range(len(self.run.entities))]
        return pl.Series(
            [
                f"{title.casefold()}\n{label.casefold()}"
                for title, label in zip(titles, self.run.entities.labels, strict=True)
            ]
        )

    def search(self, text: str, limit: int) -> schemas.Entities:
        """Entities whose name or label holds ``text``: those that begin with it first, then those with most facts."""
        wanted = text.casefold().strip().replace("\n", " ")
        if not wanted:
            return schemas.Entities(entities=[], total=0)
        holds = self._folded.str.contains(wanted, literal=True).arg_true().to_numpy()
        begins = self._folded.gather(holds).str.starts_with(wanted).to_numpy() if len(holds) else np.empty(0, bool)
        exact = self._folded.gather(holds).str.starts_with(f"{wanted}\n").to_numpy() if len(holds) else begins
        order = np.lexsort((-self._degrees[holds], ~begins, ~exact))[:limit]
        return schemas.Entities(entities=[self.entity(int(holds[place])) for place in order], total=len(holds))

    @cached_property
    def _degrees(self) -> np.ndarray:
        return np.diff(self._bounds)

    def entity(self, number: int) -> schemas.Entity:
        """One entity in words."""
        names = self.run.entities
        return schemas.Entity(label=names.labels[number], title=names.shown(number), facts=int(self._degrees[number]))

    def facts(self, name: str, limit: int) -> schemas.Facts:
        """The facts of an entity. Raises UnknownNameError."""
        number = self.run.entities.id_of(name)
        rows = self._by_relation(number)
        return schemas.Facts(
            entity=self.entity(number), facts=[self._fact(row) for row in rows[:limit]], total=len(rows)
        )

    def neighbourhood(self, name: str, hops: int, limit: int) -> schemas.Neighbourhood:
        """Up to ``limit`` facts within ``hops`` of an entity, every relation in turn, nearer ones first.

        Raises UnknownNameError.
        """
        start = self.run.entities.id_of(name)
        distances, rows = {start: 0}, dict[int, None]()
        ring = [start]
        for distance in range(1, hops + 1):
            share = max(1, (limit - len(rows)) // max(1, len(ring)))
            for number in ring:
                for row in self._varied(number)[: min(share, limit - len(rows))]:
                    rows[row] = None
                    for end in (int(self.triples[row, 0]), int(self.triples[row, 2])):
                        distances.setdefault(end, distance)
            ring = [number for number, found in distances.items() if found == distance]
        near = [
            schemas.Neighbour(**self.entity(number).model_dump(), distance=found) for number, found in distances.items()
        ]
        return schemas.Neighbourhood(
            entities=near, facts=[self._fact(row) for row in rows], total=int(self._degrees[start])
        )

    def _by_relation(self, number: int) -> np.ndarray:
        """Rows of ``triples`` with an entity, relation by relation."""
        rows = self._order[self._bounds[number] : self._bounds[number + 1]]
        ordered: np.ndarray = rows[np.argsort(self.triples[rows, 1], kind="stable")]
        return ordered

    def _varied(self, number: int) -> list[int]:
        """The facts of an entity, one of each relation, then a second of each, and so on."""
        rows = self._by_relation(number)
        relation_ids = self.triples[rows, 1]
        turns = np.arange(len(rows)) - np.searchsorted(relation_ids, relation_ids)
        return [int(row) for row in rows[np.argsort(turns, kind="stable")]]

    def _fact(self, row: int) -> schemas.Fact:
        head, relation, tail = (int(number) for number in self.triples[row])
        entities, relations = self.run.entities, self.run.relations
        return schemas.Fact(
            head=entities.shown(head),
            relation=relations.shown(relation),
            tail=entities.shown(tail),
            head_label=entities.labels[head],
            relation_label=relations.labels[relation],
            tail_label=entities.labels[tail],
        )

    def suggestions(self, name: str) -> schemas.Suggestions:
        """What may be asked of an entity. Raises UnknownNameError."""
        number = self.run.entities.id_of(name)
        rows = self.triples[self._order[self._bounds[number] : self._bounds[number + 1]]]
        found = []
        for place, plausible, column in (("head", self._heads, 0), ("tail", self._tails, 2)):
            counts = np.bincount(rows[rows[:, column] == number, 1], minlength=len(self.run.relations))
            for relation in np.flatnonzero(plausible[number] | (counts > 0)):
                found.append(
                    schemas.Suggestion(
                        relation=self.run.relations.shown(int(relation)),
                        relation_label=self.run.relations.labels[int(relation)],
                        place=place,  # type: ignore[arg-type]
                        known=int(counts[relation]),
                    )
                )
        found.sort(key=lambda each: (-each.known, each.relation))
        return schemas.Suggestions(entity=self.entity(number), suggestions=found)

    @cached_property
    def relations(self) -> schemas.Relations:
        """All relations, most facts first."""
        counts = np.bincount(self.triples[:, 1], minlength=len(self.run.relations))
        return schemas.Relations(
            relations=[
                schemas.Relation(
                    label=self.run.relations.labels[relation],
                    title=self.run.relations.shown(int(relation)),
                    facts=int(counts[relation]),
                )
                for relation in np.argsort(-counts, kind="stable")
            ]
        )

    # ------------------------------------------------------------------------------------------ predictions

    def question(self, asked: schemas.Asked) -> Question | None:
        """A question for a head or a tail in ids, None for one of another kind. Raises UnknownNameError."""
        names = self.run.entities
        head = None if asked.head is None else names.id_of(asked.head)
        tail = None if asked.tail is None else names.id_of(asked.tail)
        if asked.relation is None:
            return None
        relation = self.run.relations.id_of(asked.relation)
        anchor, turned = (head, 0) if head is not None else (tail, len(self.run.relations))
        return Question(anchor, relation + turned, asked.k, asked.known, asked.typed)  # type: ignore[arg-type]

    def answer(self, many: Sequence[schemas.Asked]) -> list[list[Prediction]]:
        """Answers in the order of the questions, whose names are known; heads and tails by one product."""
        with self._requests:
            return self._answered(many)

    def _answered(self, many: Sequence[schemas.Asked]) -> list[list[Prediction]]:
        questions = [self.question(asked) for asked in many]
        found: list[list[Prediction]] = [[] for _ in many]
        plain = [place for place, question in enumerate(questions) if question is not None]
        for joined in (True, False):
            places = [place for place in plain if self._joins(many[place]) is joined]
            asked_here = [question for place in places if (question := questions[place]) is not None]
            for place, facts in zip(places, self.predictor.answer_many(asked_here, joined), strict=True):
                found[place] = facts
        for place, asked in enumerate(many):
            if questions[place] is None:
                found[place] = self.predictor.predict(
                    asked.head,
                    None,
                    asked.tail,
                    asked.k,
                    known=asked.known,
                    typed=asked.typed,
                    joined=self._joins(asked),
                )
        return found

    def _joins(self, asked: schemas.Asked) -> bool:
        """Whether probabilities come from both questions of a fact: each answer costs one question more."""
        return not is_slow(self.run.scorer) if asked.joined is None else asked.joined

    def score(self, facts: Sequence[schemas.Triple]) -> list[Prediction]:
        """Whole triples with their probabilities and verdicts. Raises UnknownNameError."""
        with self._requests:
            return self.run.score([(fact.head, fact.relation, fact.tail) for fact in facts])

    def explain(self, asked: schemas.AskedWhy) -> dict[str, Any]:
        """An explanation as JSON. Raises UnknownNameError."""
        with self._explaining, self._requests:
            return self.run.explain(asked.head, asked.relation, asked.tail, asked.k).as_dict()

    def missing(self, limit: int) -> schemas.Missing:
        """The most probable missing facts; the first request starts the search, which runs in the background."""
        search = self._search
        failure, search.failure = search.failure, None
        if failure is None:
            search.start()
        found, (done, total) = search.found, search.progress
        return schemas.Missing(
            sums=self.sums,
            state="failed" if failure else "working" if found is None else "ready",
            reason=failure,
            done=done,
            total=total,
            asked=search.asked,
            questions=search.questions,
            chosen=search.chosen,
            answers=[answer_of(fact) for fact in (found or [])[:limit]],
        )

    def close(self) -> None:
        """End what runs in the background."""
        self._search.close()

    # ------------------------------------------------------------------------------------------ the run

    def _about(self) -> schemas.About:
        run, settings = self.run, self.run.settings
        facts = {
            "dataset": _named(run.graph_name),
            **({} if run.graph is None else {"trained on": _named(settings.dataset)}),
            "entities": f"{len(run.entities):,}",
            "relations": f"{len(run.relations):,}",
            "facts": f"{len(self.triples):,}",
            **run.describe(),
        }
        if settings.kind == "paths":
            counts = run.counts()
            facts["parameters"] = f"{counts.efp + counts.nfp:,}"
        if run.refit_of is not None:
            facts["refit of"] = f"{run.refit_of.name}, whose figures are shown; this one was trained on all facts"
        if not len(run.split("valid")) and not (run.refit_of and run.refit_of.calibration):
            facts["probabilities"] = "plain sigmoids of the score: no validation triples to fit them on"
        if run.index is not None:
            facts["index"] = str(run.index.quality)
        curve = [[epoch, mrr] for epoch, mrr in run.curve]
        return schemas.About(
            name=run.path.resolve().name,
            version=run.version,
            facts=facts,
            curve=curve,
            test=self._kept_evaluation(),
            calibration=run.reliability("valid").as_dict() if len(run.split("valid")) else None,
            index=None if run.index is None else run.index.quality.as_dict(),
        )

    @property
    def sums(self) -> Literal["exact", "estimated"]:
        """Where probabilities come from: sums over all entities, or estimates."""
        return "exact" if self.run.index is None else "estimated"

    def _kept_evaluation(self) -> dict[str, Any] | None:
        """The figures that ``tuckerkg evaluate`` has written for the weights that are served, if it has.

        For a refit, which was trained on all facts, they are those of the run before.
        """
        if self.run.refit_of is not None and self.run.graph is None:
            return _numbers(self.run.refit_of.evaluations.get("test", {})) or None
        path = self.run.evaluation_file("test")
        if self.run.version != 1 or not path.is_file():
            return None
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if kept.get("step") != self.run.step or kept.get("protocol", {}).get("split_sha256") != self._sha256():
            return None
        return _numbers(kept)

    def _sha256(self) -> dict[str, str]:
        return {name: split_sha256(self.run.split(name)) for name in SPLITS}


def _named(dataset: str) -> str:
    """A dataset's name, or that of its file: where that lies is nobody's business."""
    return PurePath(dataset).name or dataset


def _numbers(kept: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kept.items() if isinstance(value, int | float)}


def answer_of(fact: Prediction) -> schemas.Answer:
    """A prediction as it goes over the wire."""
    return schemas.Answer(**fact.as_dict())

"""Questions by name, answered as rows that go over the wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tuckerkg.inference.answers.columns import Answers
from tuckerkg.probability.features import BASES
from tuckerkg.serve.engine.graph import GraphView
from tuckerkg.serve.engine.names import NoSuchName
from tuckerkg.serve.engine.slices import Pause, Slices, columns_of, least_seconds, no_pause
from tuckerkg.serve.schemas.asked import Asked, Triple

Row = dict[str, Any]
ChoiceOf = Callable[[tuple[str, str, str]], str | None]
MEASURED = 64  # questions that tell what one costs,
ENOUGH = 0.3  # or fewer where they take so many seconds


class Links:
    """Answers questions about one graph.

    Args:
        graph: names in and out.
        choice_of: what was decided about a fact, by its labels.
    """

    def __init__(self, graph: GraphView, choice_of: ChoiceOf) -> None:
        self.graph, self.choice_of = graph, choice_of
        self.run = graph.run
        self.predictor = self.run.predictor
        self.slices = Slices(self.predictor, self._measured())

    def _measured(self) -> float:
        """Seconds that a question takes among others, measured."""
        heads = torch.arange(MEASURED) % self.predictor.num_entities
        queries = torch.stack([heads, torch.arange(MEASURED) % self.predictor.num_relations], 1)
        count, took = 1, 0.0
        while True:
            flags, ten = torch.ones(count, dtype=torch.bool), torch.full((count,), 10)
            asked = queries[:count], ten, ~flags, flags
            took = least_seconds(lambda asked=asked: self.predictor.answers(*asked, joined=False))  # type: ignore[misc]
            if count >= MEASURED or took > ENOUGH:
                return took / count
            count *= 8

    # ------------------------------------------------------------------------------------------ questions

    def is_plain(self, asked: Asked) -> bool:
        """Whether it asks for a head or a tail of one relation."""
        return asked.relation is not None

    def ids(self, asked: Asked) -> tuple[int | None, int | None, int | None]:
        """The names as ids. Raises NoSuchName."""
        names, relations = self.graph.entities, self.graph.relations
        return (
            None if asked.head is None else names.id_of(asked.head),
            None if asked.relation is None else relations.id_of(asked.relation),
            None if asked.tail is None else names.id_of(asked.tail),
        )

    def questions_of(self, asked: Asked, joined: bool) -> int:
        """How many questions over all entities it takes to answer one."""
        again = joined and self.predictor.calibration.fitted
        if asked.relation is not None:
            return 1 + (max(asked.k, 10) if again else 0)
        if asked.head is not None and asked.tail is not None:
            return self.predictor.num_relations * (2 if again else 1)
        return self.predictor.num_relations + (self.predictor.shortlist_size(asked.k) if again else 0)

    def answer(self, many: Sequence[Asked], pause: Pause = no_pause) -> list[list[Row] | NoSuchName]:
        """Rows of each question, in their order; those with names that nobody has fail alone."""
        found: list[list[Row] | NoSuchName] = [[] for _ in many]
        plain: dict[bool, list[tuple[int, tuple[int, int, int, bool, bool]]]] = {True: [], False: []}
        for place, asked in enumerate(many):
            try:
                head, relation, tail = self.ids(asked)
            except NoSuchName as error:
                found[place] = error
                continue
            if relation is None:
                found[place] = self.rows(self._open(asked, head, tail, pause))
                continue
            anchor, turned = (head, 0) if head is not None else (tail, self.predictor.num_relations)
            question = (anchor or 0, relation + turned, asked.k, asked.known, asked.typed)
            plain[asked.joined].append((place, question))
        for joined, questions in plain.items():
            if not questions:
                continue
            answers = self.slices.answers(*columns_of([each for _, each in questions]), joined, pause)
            rows = self.rows(answers)
            counts = torch.bincount(answers.questions, minlength=len(questions)).tolist()
            first = 0
            for (place, _), count in zip(questions, counts, strict=True):
                found[place] = rows[first : first + count]
                first += count
        return found

    def _open(self, asked: Asked, head: int | None, tail: int | None, pause: Pause) -> Answers:
        """Questions that leave the relation open."""
        if head is not None and tail is not None:
            return self.slices.relations(head, tail, asked.k, asked.known, asked.typed, asked.joined, pause)
        anchor, turned = (head, 0) if head is not None else (tail, self.predictor.num_relations)
        relation_ids = torch.arange(self.predictor.num_relations) + turned
        if asked.typed:
            relation_ids = relation_ids[self.predictor.graph.plausible[anchor, relation_ids]]
        queries = torch.stack([torch.full_like(relation_ids, anchor or 0), relation_ids], 1)
        return self.slices.best(queries, asked.k, asked.known, asked.typed, asked.joined, pause)

    # ------------------------------------------------------------------------------------------ facts

    def fact_ids(self, fact: Triple) -> tuple[int, int, int]:
        """The names of a fact as ids. Raises NoSuchName."""
        names = self.graph.entities
        return names.id_of(fact.head), self.graph.relations.id_of(fact.relation), names.id_of(fact.tail)

    def score(self, facts: Sequence[Triple], pause: Pause = no_pause) -> list[Row | NoSuchName]:
        """Facts with their probabilities and verdicts, in their order."""
        found: list[Row | NoSuchName] = []
        ids, places = [], []
        for place, fact in enumerate(facts):
            try:
                ids.append(self.fact_ids(fact))
                places.append(place)
                found.append({})
            except NoSuchName as error:
                found.append(error)
        for place, row in zip(places, self.judge(ids, pause), strict=True):
            found[place] = row
        return found

    def judge(self, ids: Sequence[tuple[int, int, int]], pause: Pause = no_pause) -> list[Row]:
        """Facts of ids as rows with verdicts."""
        if not ids:
            return []
        answers, verdicts, errors = self.slices.judged(torch.tensor(ids), pause)
        return [
            row | {"verdict": verdict, "error_rate": error}
            for row, verdict, error in zip(self.rows(answers), verdicts, errors, strict=True)
        ]

    def rows(self, answers: Answers) -> list[Row]:
        """Answers in words, with what was decided about them."""
        named, has_value, choice_of = self.graph.named, self.graph.has_value, self.choice_of
        columns = (
            answers.facts.tolist(),
            answers.scores.tolist(),
            answers.probabilities.tolist(),
            answers.basis.tolist(),
            answers.known.tolist(),
        )
        rows = []
        for (head, relation, tail), score, probability, basis, known in zip(*columns, strict=True):
            row: Row = named(head, relation, tail)
            row["score"], row["probability"], row["basis"], row["known"] = score, probability, BASES[basis], known
            row["decision"] = choice_of((row["head_label"], row["relation_label"], row["tail_label"]))
            row["single"] = has_value(head, relation, tail)
            row["reason"] = None
            rows.append(row)
        return rows

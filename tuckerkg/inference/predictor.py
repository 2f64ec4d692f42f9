"""Names in, ranked names out, for any scorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.labels import Labels
from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.answers.columns import Answers
from tuckerkg.inference.answers.finder import AnswerFinder, Searches
from tuckerkg.inference.answers.predictions import Judged, Prediction, Predictions
from tuckerkg.inference.answers.search import ExactSearch
from tuckerkg.nn.contracts import Scorer
from tuckerkg.probability.calibration import Calibration
from tuckerkg.probability.weigher import Found
from tuckerkg.types import ProgressFunction


@dataclass(frozen=True)
class Question:
    """(anchor, relation, ?) in ids; relation ids from R on ask for the head of a fact whose tail is the anchor."""

    anchor: int
    relation_id: int
    k: int = 10
    known: bool = False
    typed: bool = True


class Predictor(AnswerFinder):
    """Answers questions about one graph by names.

    Args:
        scorer: scores every entity as the answer to a question.
        entities, relations: their names.
        splits: all triples that count as known; the first ones are those that the scorer has seen.
        calibration: turns scores into probabilities.
        searches: makes what finds the best answers by score.
    """

    def __init__(
        self,
        scorer: Scorer,
        entities: Labels,
        relations: Labels,
        splits: Sequence[np.ndarray],
        calibration: Calibration | None = None,
        searches: Searches = ExactSearch,
    ) -> None:
        super().__init__(scorer, splits, calibration, searches)
        self.entities, self.relations = entities, relations

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        *,
        known: bool = False,
        typed: bool = True,
        joined: bool = True,
    ) -> Predictions:
        """The ``k`` best completions of a question with two of head, relation and tail given, best first.

        With only a head or only a tail the best facts over all relations are given.

        Args:
            known: also give facts that the graph holds, marked as such.
            typed: take only entities that have been seen in that place of the relation, so that there may be fewer
                than ``k``; where the relation is open, ask only questions that make sense of the entities given.
            joined: False takes probabilities from the question that is asked alone, which is faster: the answers' own
                questions in the other direction are not asked.
        """
        if k < 1:
            raise TuckerkgError(f"k is {k}, expected a whole number from 1 on")
        given = (head is not None, relation is not None, tail is not None)
        if given in ((True, True, True), (False, False, False), (False, True, False)):
            raise TuckerkgError(
                "a question leaves something open: give head and relation, relation and tail, head and tail, "
                "or one of head and tail; to weigh a whole triple use score"
            )
        h, r, t = self._ids(head, relation, tail)
        if h is not None and t is not None:
            pairs = torch.tensor([[h, t]])
            found = Answers.joined(self.relation_answers(pairs, k, known, typed=typed, joined=joined))
            return found.predictions(self.entities, self.relations)
        anchor, turned = (h, 0) if h is not None else (t, self.num_relations)
        if r is not None and anchor is not None:
            return self.answer_many([Question(anchor, r + turned, k, known, typed)], joined=joined)[0]
        asked = torch.arange(self.num_relations) + turned
        if typed and anchor is not None:
            asked = asked[self.graph.plausible[anchor, asked]]
        queries = torch.stack([torch.full_like(asked, anchor or 0), asked], 1)
        return self._best(queries, k, known, typed, joined=joined)

    def answer_many(self, questions: Sequence[Question], joined: bool = True) -> list[Predictions]:
        """The best answers to many questions for a head or a tail, scored together: one list per question."""
        asked = [[each.anchor, each.relation_id] for each in questions]
        queries = torch.tensor(asked, dtype=torch.long).view(-1, 2)
        k, known, typed = (
            torch.tensor([getattr(each, name) for each in questions]) for name in ("k", "known", "typed")
        )
        found = self.answers(queries, k, known, typed, joined=joined)
        facts = iter(found.predictions(self.entities, self.relations))
        return [Predictions(islice(facts, count)) for count in torch.bincount(found.questions, minlength=len(queries))]

    def top_missing(
        self,
        k: int,
        *,
        typed: bool = True,
        questions: Tensor | None = None,
        progress: ProgressFunction | None = None,
    ) -> Predictions:
        """The ``k`` most probable facts that the graph does not hold, over the whole graph.

        Args:
            typed: ask plausible heads only and take tails that have been seen there (see ``type_constraints.py``).
            questions: ask these (head, relation) ``[Q, 2]`` only.
        """
        if k < 1:
            raise TuckerkgError(f"the number of facts is {k}, expected a whole number from 1 on")
        asked = self.missing_questions(typed) if questions is None else questions
        return self._best(asked, k, known=False, typed=typed, progress=progress)

    def holds(self, fact: Prediction) -> bool:
        """Whether ``fact`` is among the known triples."""
        ids = self._ids(fact.head_label, fact.relation_label, fact.tail_label)
        return bool(self.known.hold(*torch.tensor([ids]).unbind(1)))

    def score(self, heads: Sequence[str], relations: Sequence[str], tails: Sequence[str]) -> Predictions:
        """Score, probability and verdict of whole triples, in the given order."""
        ids = torch.tensor(
            [
                [self.entities.id_of(h), self.relations.id_of(r), self.entities.id_of(t)]
                for h, r, t in zip(heads, relations, tails, strict=True)
            ],
            dtype=torch.long,
        ).view(-1, 3)
        found, verdicts, errors = self.judge(ids)
        return Predictions(
            Judged(**vars(fact), verdict=verdict, error_rate=error)
            for fact, verdict, error in zip(
                found.predictions(self.entities, self.relations), verdicts, errors, strict=True
            )
        )

    def _ids(self, head: str | None, relation: str | None, tail: str | None) -> tuple[int | None, ...]:
        return (
            None if head is None else self.entities.id_of(head),
            None if relation is None else self.relations.id_of(relation),
            None if tail is None else self.entities.id_of(tail),
        )

    def _best(
        self,
        queries: Tensor,
        k: int,
        known: bool,
        typed: bool,
        *,
        joined: bool = True,
        progress: ProgressFunction | None = None,
    ) -> Predictions:
        """The most probable answers to all of ``queries [Q, 2]`` of (head, relation below 2R).

        Those that are likely from their own question are weighed from both. Ties go to the likelier one from its own
        question, then to the earlier query.
        """
        joined = joined and self.calibration.fitted
        found = self.shortlist(queries, self.shortlist_size(k) if joined else k, known, typed, progress)
        logits = self.weigher.logits(found) if joined else self.weigher.logits_of_question(found)
        return self.most_probable(found, logits, k, joined)

    def most_probable(self, found: Found, logits: Tensor, k: int, joined: bool = True) -> Predictions:
        """The ``k`` answers of ``found`` with the highest ``logits [n]``."""
        order = torch.sort(logits, descending=True, stable=True).indices[:k]
        return self.columns(found, logits, joined).rows(order).predictions(self.entities, self.relations)

"""Names in, ranked names out, for any scorer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.labels import Labels
from tuckerkg.errors import TuckerkgError
from tuckerkg.evaluation.calibration import Calibration, QuestionTotals
from tuckerkg.evaluation.ranking import ScoredChunk, questions_at_once, score_chunks
from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.inference.answers.columns import Answers
from tuckerkg.inference.answers.predictions import Prediction, Predictions
from tuckerkg.inference.type_constraints import TypeConstraints, open_questions
from tuckerkg.kernels.topk import top_of_rows
from tuckerkg.nn.contracts import Scorer
from tuckerkg.types import ProgressFunction

MEASURED = 0.5  # seconds of asking that tell how long the rest takes


@dataclass(frozen=True)
class Question:
    """(anchor, relation, ?) in ids; relation ids from R on ask for the head of a fact whose tail is the anchor."""

    anchor: int
    relation_id: int
    k: int = 10
    known: bool = False
    typed: bool = True


class Predictor:
    """Answers questions about one graph.

    Args:
        scorer: scores every entity as the answer to a question.
        entities, relations: their names.
        splits: all triples that count as known.
        calibration: turns scores into probabilities.
    """

    def __init__(
        self,
        scorer: Scorer,
        entities: Labels,
        relations: Labels,
        splits: Sequence[np.ndarray],
        calibration: Calibration = Calibration(),  # noqa: B008  (frozen)
    ) -> None:
        self.scorer, self.entities, self.relations, self.calibration = scorer, entities, relations, calibration
        self.num_relations = len(relations)
        self.known = KnownTails.from_splits(splits, self.num_relations)
        self.triples = np.concatenate(list(splits))

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        *,
        known: bool = False,
        typed: bool = True,
    ) -> Predictions:
        """The ``k`` best completions of a question with two of head, relation and tail given, best first.

        With only a head or only a tail the best facts over all relations are given.

        Args:
            known: also give facts that the graph holds, marked as such.
            typed: take only entities that have been seen in that place of the relation, so that there may be fewer
                than ``k``.
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
            found = Answers.joined(self.relation_answers(torch.tensor([[h, t]]), k, known))
            return found.predictions(self.entities, self.relations)
        anchor, turned = (h, 0) if h is not None else (t, self.num_relations)
        if r is not None and anchor is not None:  # one question: the order of its scores
            return self.answer_many([Question(anchor, r + turned, k, known, typed)])[0]
        queries = torch.tensor([[anchor, number + turned] for number in range(self.num_relations)])
        return self._best(queries, k, known, typed)

    def answer_many(self, questions: Sequence[Question]) -> list[Predictions]:
        """The best answers to many questions for a head or a tail, scored together: one list per question."""
        queries = torch.tensor([[each.anchor, each.relation_id] for each in questions]).view(-1, 2)
        k, known, typed = (
            torch.tensor([getattr(each, name) for each in questions]) for name in ("k", "known", "typed")
        )
        found = Answers.joined(self.answers(queries, k, known, typed))
        facts = iter(found.predictions(self.entities, self.relations))
        return [Predictions(islice(facts, count)) for count in torch.bincount(found.questions, minlength=len(queries))]

    def answers(
        self, queries: Tensor, k: Tensor, known: Tensor, typed: Tensor, progress: ProgressFunction | None = None
    ) -> Iterator[Answers]:
        """The best answers to ``queries [Q, 2]`` of (head, relation below 2R), some questions at a time.

        ``k [Q]``, ``known [Q]`` and ``typed [Q]`` are what ``predict`` takes, for each question.
        """
        for chunk, asked in self._chunks(queries, known, typed, progress):
            wanted = k[chunk.first : chunk.first + len(chunk.heads)]
            best, places = top_of_rows(chunk.scores, min(int(wanted.max()), chunk.scores.shape[1]))
            shown = (best > -torch.inf) & (torch.arange(best.shape[1]) < wanted[:, None])
            rows, ranks = shown.nonzero().unbind(1)
            facts = torch.stack([chunk.heads[rows], chunk.relation_ids[rows], places[shown]], 1)
            logits = self.calibration.logits(best, asked)[shown]
            yield self._answers(facts, best[shown], logits, chunk.first + rows, ranks + 1)

    def relation_answers(
        self, pairs: Tensor, k: int, known: bool, progress: ProgressFunction | None = None
    ) -> Iterator[Answers]:
        """The best relations between the (head, tail) of ``pairs [Q, 2]``, some pairs at a time.

        By probability where it is fitted, since scores of different relations are not comparable; ties go by score.
        """
        at_once = max(1, questions_at_once(len(self.entities)) // self.num_relations)
        for first in range(0, len(pairs), at_once):
            heads, tails = pairs[first : first + at_once].repeat_interleave(self.num_relations, 0).unbind(1)
            relation_ids = torch.arange(self.num_relations).repeat(len(heads) // self.num_relations)
            found = self.weigh(torch.stack([heads, relation_ids, tails], 1))
            owners = torch.arange(len(heads)) // self.num_relations
            order = torch.argsort(found.scores, descending=True, stable=True)
            order = order[torch.argsort(found.probabilities[order], descending=True, stable=True)]
            order = order[torch.argsort(owners[order], stable=True)]
            if not known:
                order = order[~found.known[order]]
            sizes = torch.bincount(owners[order])
            ranks = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[owners[order]] + 1
            order, ranks = order[ranks <= k], ranks[ranks <= k]
            rest = (column[order] for column in (found.facts, found.scores, found.probabilities, found.known))
            yield Answers(first + owners[order], ranks, *rest)
            if progress is not None:
                progress(min(first + at_once, len(pairs)), len(pairs))

    def best_tails(
        self, head_ids: Tensor, relation_ids: Tensor, k: int = 10, *, known: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Scores and ids ``[Q, k]`` of the best tails of many questions at once; relation ids below 2R.

        A known tail that is left out, where fewer than k others exist, has the score minus infinity.
        """
        found = [
            top_of_rows(chunk.scores if known else chunk.hide_known(), k)
            for chunk in score_chunks(self.scorer, head_ids, relation_ids, self.known)
        ]
        return torch.cat([values for values, _ in found]), torch.cat([places for _, places in found])

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

    def best_logits(self, questions: Tensor, typed: bool = True, progress: ProgressFunction | None = None) -> Tensor:
        """The logit ``[Q]`` of the best answer to each of ``questions [Q, 2]`` that the graph does not hold.

        Minus infinity where there is none.
        """
        best = torch.full((len(questions),), -torch.inf, dtype=torch.float64)
        shown, limited = (torch.full((len(questions),), flag) for flag in (False, typed))
        for chunk, asked in self._chunks(questions, shown, limited, progress):
            highest = chunk.scores.amax(1, keepdim=True)  # logits grow with the score
            span = slice(chunk.first, chunk.first + len(chunk.heads))
            best[span] = self.calibration.logits(highest, asked)[:, 0].double()
        return best

    def missing_questions(self, typed: bool = True) -> Tensor:
        """The questions (head, relation) that ``top_missing`` asks, ``[Q, 2]``."""
        pairs = open_questions(self.triples, len(self.entities), self.num_relations) if typed else self._all_pairs()
        return torch.from_numpy(np.ascontiguousarray(pairs))

    def seconds_for(self, questions: Tensor, typed: bool = True) -> float:
        """About how long so many questions take here, by asking the first few: more of them where that is fast."""
        most = min(len(questions), 2 * questions_at_once(len(self.entities)))
        if most == 0:
            return 0.0
        self._best(questions[:1], 1, known=False, typed=typed)  # what is prepared once does not count
        count, took = 1, 0.0
        while True:
            clock = time.perf_counter()
            self._best(questions[:count], 1, known=False, typed=typed)
            took = time.perf_counter() - clock
            if count == most or took > MEASURED:
                return took * len(questions) / count
            count = min(8 * count, most)

    def holds(self, fact: Prediction) -> bool:
        """Whether ``fact`` is among the known triples."""
        ids = self._ids(fact.head_label, fact.relation_label, fact.tail_label)
        return bool(self.known.hold(*torch.tensor([ids]).unbind(1)))

    def lists(self, head: int, relation_id: int, tail: int) -> bool:
        """Whether ``tail`` may be among the typed answers to (head, relation, ?)."""
        return self._types.allow(head, relation_id, tail)

    def score(self, heads: Sequence[str], relations: Sequence[str], tails: Sequence[str]) -> Predictions:
        """Score and probability of whole triples, in the given order."""
        ids = torch.tensor(
            [
                [self.entities.id_of(h), self.relations.id_of(r), self.entities.id_of(t)]
                for h, r, t in zip(heads, relations, tails, strict=True)
            ]
        ).view(-1, 3)
        return self.weigh(ids).predictions(self.entities, self.relations)

    def weigh(self, facts: Tensor) -> Answers:
        """Facts ``[n, 3]`` in ids with their scores, in their order."""
        found = []
        for chunk in score_chunks(self.scorer, facts[:, 0], facts[:, 1], self.known):
            part = facts[chunk.first : chunk.first + len(chunk.heads)]
            scores = chunk.scores.gather(1, part[:, 2:])
            logits = self.calibration.logits(scores, QuestionTotals.of(chunk))[:, 0]
            found.append(self._answers(part, scores[:, 0], logits))
        return Answers.joined(found)

    def _ids(self, head: str | None, relation: str | None, tail: str | None) -> tuple[int | None, ...]:
        return (
            None if head is None else self.entities.id_of(head),
            None if relation is None else self.relations.id_of(relation),
            None if tail is None else self.entities.id_of(tail),
        )

    def _best(
        self, queries: Tensor, k: int, known: bool, typed: bool, progress: ProgressFunction | None = None
    ) -> Predictions:
        """The most probable answers to all of ``queries [Q, 2]`` of (head, relation below 2R).

        Ties go to the earlier query and id. The order is that of the logits: within a query that of the scores.
        """
        best_logits, best_scores = torch.empty(0), torch.empty(0)
        best_facts = torch.empty(0, 3, dtype=torch.long)
        shown, limited = (torch.full((len(queries),), flag) for flag in (known, typed))
        for chunk, asked in self._chunks(queries, shown, limited, progress):
            logits = self.calibration.logits(chunk.scores, asked)
            flat, rows, places = _candidates(logits, k, best_logits)
            merged = torch.cat([best_logits, flat])
            order = torch.sort(merged, descending=True, stable=True).indices[:k]
            best_logits = merged[order]
            best_scores = torch.cat([best_scores, chunk.scores[rows, places]])[order]
            facts = torch.stack([chunk.heads[rows], chunk.relation_ids[rows], places], 1)
            best_facts = torch.cat([best_facts, facts])[order]
        wanted = best_scores > -torch.inf
        found = self._answers(best_facts[wanted], best_scores[wanted], best_logits[wanted])
        return found.predictions(self.entities, self.relations)

    def _chunks(
        self, queries: Tensor, known: Tensor, typed: Tensor, progress: ProgressFunction | None = None
    ) -> Iterator[tuple[ScoredChunk, QuestionTotals]]:
        """Chunks of ``queries [Q, 2]`` without the answers that are not wanted, and what their probabilities need.

        ``known [Q]`` says whose known facts are wanted, ``typed [Q]`` who takes only entities seen in that place.
        """
        for chunk in score_chunks(self.scorer, queries[:, 0], queries[:, 1], self.known, progress=progress):
            asked = QuestionTotals.of(chunk)  # over all candidates, before any is left out
            span = slice(chunk.first, chunk.first + len(chunk.heads))
            offsets, tails = chunk.known
            rows = rows_of(offsets)
            hidden = ~known[span][rows]
            chunk.scores[rows[hidden], tails[hidden]] = -torch.inf
            limited = typed[span].nonzero()[:, 0]
            if len(limited) == len(chunk.heads):
                self._types.leave_only(chunk.scores, chunk.heads, chunk.relation_ids)
            elif len(limited):
                part = chunk.scores[limited]
                self._types.leave_only(part, chunk.heads[limited], chunk.relation_ids[limited])
                chunk.scores[limited] = part
            yield chunk, asked

    @cached_property
    def _types(self) -> TypeConstraints:
        return TypeConstraints(self.triples, len(self.entities), self.num_relations)

    def _all_pairs(self) -> np.ndarray:
        heads, relation_ids = np.meshgrid(np.arange(len(self.entities)), np.arange(self.num_relations), indexing="ij")
        return np.stack([heads.ravel(), relation_ids.ravel()], 1)

    def _answers(
        self,
        facts: Tensor,
        scores: Tensor,
        logits: Tensor,
        questions: Tensor | None = None,
        ranks: Tensor | None = None,
    ) -> Answers:
        """Facts ``[n, 3]`` with relations below 2R as answers; those of inverse relations are reversed.

        Without ``questions`` each of them answers a question of its own.
        """
        heads, relation_ids, tails = facts.unbind(1)
        turned = relation_ids >= self.num_relations
        heads, tails = torch.where(turned, tails, heads), torch.where(turned, heads, tails)
        relation_ids = relation_ids % self.num_relations
        return Answers(
            torch.arange(len(facts)) if questions is None else questions,
            torch.ones(len(facts), dtype=torch.long) if ranks is None else ranks,
            torch.stack([heads, relation_ids, tails], 1),
            scores,
            torch.sigmoid(logits.double()),
            self.known.hold(heads, relation_ids, tails),
        )


def _candidates(scores: Tensor, count: int, best: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, rows and places in ``scores [b, M]`` that may be among the ``count`` best, in order of row and place.

    ``best`` are the best of earlier rows: once there are enough of them, only what beats the last one counts.
    """
    if len(best) < count:
        values, places = top_of_rows(scores, count)
        rows = torch.arange(len(scores))[:, None].expand_as(places).flatten()
        return values.flatten(), rows, places.flatten()
    places, rows = torch.gt(scores.T, best[-1]).nonzero().unbind(1)  # in the order that the scores have in memory
    order = torch.argsort(rows * scores.shape[1] + places)
    rows, places = rows[order], places[order]
    return scores[rows, places], rows, places

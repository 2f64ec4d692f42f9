"""Names in, ranked names out. The graph is encoded once; any number of questions follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuckerkg.answers import rows_of
from tuckerkg.calibrate import Asked, Calibration
from tuckerkg.errors import TuckerkgError
from tuckerkg.evaluate import CHUNK_SCORES, known_answers
from tuckerkg.model import Encoded
from tuckerkg.names import Names
from tuckerkg.plausible import SeenPlaces, open_questions
from tuckerkg.top import top_of_rows

PRODUCT_QUERIES = 64  # from here on a product is bound by arithmetic
MOST_SCORES = 1 << 26  # 256 MB


@dataclass(frozen=True)
class Prediction:
    """One candidate fact, in readable names and in the data's labels.

    ``probability`` comes from ``score``; ``known`` says that the graph holds the fact.
    """

    head: str
    relation: str
    tail: str
    score: float
    probability: float
    known: bool
    head_label: str
    relation_label: str
    tail_label: str

    def sentence(self) -> str:
        """The fact as one sentence."""
        return f"{self.head} {self.relation} {self.tail}."

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Question:
    """(anchor, relation, ?) in ids; relation ids from R on ask for the head of a fact whose tail is the anchor."""

    anchor: int
    relation_id: int
    k: int = 10
    include_known: bool = False
    typed: bool = True


class Predictor:
    """Answers questions about one encoded graph. ``splits`` are all triples that count as known."""

    def __init__(
        self,
        encoded: Encoded,
        entities: Names,
        relations: Names,
        splits: Sequence[np.ndarray],
        calibration: Calibration = Calibration(),  # noqa: B008  (frozen)
    ) -> None:
        self.encoded, self.entities, self.relations, self.calibration = encoded, entities, relations, calibration
        self.num_relations = len(relations)
        self.known = known_answers(splits, self.num_relations)
        self.triples = np.concatenate(list(splits))

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        *,
        include_known: bool = False,
        typed: bool = True,
    ) -> list[Prediction]:
        """The ``k`` best completions of a question with two of head, relation and tail given, best first.

        With only a head or only a tail the best facts over all relations are given. Known facts are left out
        unless ``include_known``; then they are marked. ``typed`` takes only entities that have been seen in that place
        of the relation, so that there may be fewer than ``k``.
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
            return self._rank_relations(h, t, k, include_known)
        anchor, turned = (h, 0) if h is not None else (t, self.num_relations)
        asked = range(self.num_relations) if r is None else (r,)
        queries = torch.tensor([[anchor, number + turned] for number in asked])
        return self._best(queries, k, include_known, typed)

    def best_tails(
        self, head_ids: Tensor, relation_ids: Tensor, k: int = 10, *, include_known: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Scores and ids ``[Q, k]`` of the best tails of many questions at once; relation ids below 2R.

        A known tail that is left out, where fewer than k others exist, has the score minus infinity.
        """
        step = _queries_at_once(len(self.entities))
        found = [
            top_of_rows(self._open_scores(heads, relations, include_known), k)
            for heads, relations in zip(head_ids.split(step), relation_ids.split(step), strict=True)
        ]
        return torch.cat([values for values, _ in found]), torch.cat([places for _, places in found])

    def answer_many(self, questions: Sequence[Question]) -> list[list[Prediction]]:
        """The best answers to many questions for a head or a tail, scored by one product: one list per question."""
        queries = torch.tensor([[each.anchor, each.relation_id] for each in questions]).view(-1, 2)
        found: list[list[Prediction]] = []
        step = _queries_at_once(len(self.entities))
        for first in range(0, len(queries), step):
            chunk, asking = queries[first : first + step], questions[first : first + step]
            scores, asked = self._asked_scores(chunk[:, 0], chunk[:, 1], include_known=True)
            self._leave_out(scores, chunk, asking)
            best, places = top_of_rows(scores, min(max(each.k for each in asking), scores.shape[1]))
            wanted = best > -torch.inf
            for row, each in enumerate(asking):
                wanted[row, each.k :] = False
            rows = wanted.nonzero()[:, 0]
            facts = torch.cat([chunk[rows], places[wanted][:, None]], 1)
            answers = iter(self._predictions(facts, best[wanted], self.calibration.logits(best, asked)[wanted]))
            found += [list(islice(answers, count)) for count in wanted.sum(1).tolist()]
        return found

    def _leave_out(self, scores: Tensor, chunk: Tensor, questions: Sequence[Question]) -> None:
        """Known facts, and entities never seen there, of the questions that do not want them."""
        unknown = torch.tensor([place for place, each in enumerate(questions) if not each.include_known])
        if len(unknown):
            offsets, answers = self.known.find(chunk[unknown, 0], chunk[unknown, 1])
            scores[unknown[rows_of(offsets)], answers] = -torch.inf
        typed = torch.tensor([place for place, each in enumerate(questions) if each.typed])
        if len(typed) == len(questions):
            self._places.leave_only(scores, chunk[:, 0], chunk[:, 1])
        elif len(typed):
            part = scores[typed]
            self._places.leave_only(part, chunk[typed, 0], chunk[typed, 1])
            scores[typed] = part

    def _open_scores(self, heads: Tensor, relation_ids: Tensor, include_known: bool) -> Tensor:
        """Scores ``[b, N]``, known answers at minus infinity unless they are to be included."""
        scores = self.encoded.scores(heads, relation_ids).cpu()
        if not include_known:
            offsets, answers = self.known.find(heads, relation_ids)
            scores[rows_of(offsets), answers] = -torch.inf
        return scores

    def _asked_scores(self, heads: Tensor, relation_ids: Tensor, include_known: bool) -> tuple[Tensor, Asked]:
        """The same with what their probabilities need, which takes one more look at every score."""
        scores = self._open_scores(heads, relation_ids, include_known=True)
        offsets, answers = self.known.find(heads, relation_ids)
        asked = Asked.of(scores, relation_ids, offsets)
        if not include_known:
            scores[rows_of(offsets), answers] = -torch.inf
        return scores, asked

    def top_missing(
        self, count: int, *, typed: bool = True, tick: Callable[[int, int], None] | None = None
    ) -> list[Prediction]:
        """The ``count`` most probable facts that the graph does not hold, over the whole graph.

        ``typed`` asks plausible heads only and takes tails that have been seen there (see ``plausible.py``). A fact is
        asked for as (head, relation, ?) and walked in chunks, so memory stays bounded.
        """
        if count < 1:
            raise TuckerkgError(f"the number of facts is {count}, expected a whole number from 1 on")
        return self._best(self.missing_questions(typed), count, include_known=False, typed=typed, tick=tick)

    def missing_questions(self, typed: bool = True) -> Tensor:
        """The questions (head, relation) that ``top_missing`` asks, ``[Q, 2]``."""
        pairs = open_questions(self.triples, len(self.entities), self.num_relations) if typed else self._all_pairs()
        return torch.from_numpy(np.ascontiguousarray(pairs))

    def seconds_for(self, questions: Tensor, typed: bool = True) -> float:
        """About how long so many questions take here, by asking the first few."""
        few = questions[: 2 * _queries_at_once(len(self.entities))]
        if len(few) == 0:
            return 0.0
        self._best(few[: len(few) // 2], 1, include_known=False, typed=typed)  # what is prepared once does not count
        clock = time.perf_counter()
        self._best(few, 1, include_known=False, typed=typed)
        return (time.perf_counter() - clock) * len(questions) / len(few)

    def holds(self, fact: Prediction) -> bool:
        """Whether ``fact`` is among the known triples."""
        ids = self._ids(fact.head_label, fact.relation_label, fact.tail_label)
        return bool(self.known.hold(*torch.tensor([ids]).unbind(1)))

    def score(self, heads: Sequence[str], relations: Sequence[str], tails: Sequence[str]) -> list[Prediction]:
        """Score and probability of whole triples, in the given order."""
        ids = torch.tensor(
            [
                [self.entities.id_of(h), self.relations.id_of(r), self.entities.id_of(t)]
                for h, r, t in zip(heads, relations, tails, strict=True)
            ]
        ).view(-1, 3)
        found: list[Prediction] = []
        for chunk in ids.split(_queries_at_once(len(self.entities))):
            found += self._weighed(chunk)
        return found

    def _weighed(self, facts: Tensor) -> list[Prediction]:
        """Facts ``[b, 3]`` in ids with their scores, in their order."""
        scores, asked = self._asked_scores(facts[:, 0], facts[:, 1], include_known=True)
        scores = scores.gather(1, facts[:, 2:])
        return self._predictions(facts, scores[:, 0], self.calibration.logits(scores, asked)[:, 0])

    def _ids(self, head: str | None, relation: str | None, tail: str | None) -> tuple[int | None, ...]:
        return (
            None if head is None else self.entities.id_of(head),
            None if relation is None else self.relations.id_of(relation),
            None if tail is None else self.entities.id_of(tail),
        )

    def _rank_relations(self, head: int, tail: int, k: int, include_known: bool) -> list[Prediction]:
        """By probability where it is fitted: scores of different relations have no common measure."""
        found: list[Prediction] = []
        for relation_ids in torch.arange(self.num_relations).split(_queries_at_once(len(self.entities))):
            heads, tails = torch.full_like(relation_ids, head), torch.full_like(relation_ids, tail)
            found += self._weighed(torch.stack([heads, relation_ids, tails], 1))
        found.sort(key=lambda fact: -fact.probability)
        return [fact for fact in found if include_known or not fact.known][:k]

    def _best(
        self,
        queries: Tensor,
        count: int,
        include_known: bool,
        typed: bool = False,
        tick: Callable[[int, int], None] | None = None,
    ) -> list[Prediction]:
        """The most probable answers to ``queries [Q, 2]`` of (head, relation below 2R).

        Ties go to the earlier query and id. The order is that of the logits: within a query that of the scores.
        """
        best_logits, best_scores = torch.empty(0), torch.empty(0)
        best_facts = torch.empty(0, 3, dtype=torch.long)
        step = _queries_at_once(len(self.entities))
        for first in range(0, len(queries), step):
            chunk = queries[first : first + step]
            scores, asked = self._asked_scores(chunk[:, 0], chunk[:, 1], include_known)  # [b, N]
            if typed:
                self._places.leave_only(scores, chunk[:, 0], chunk[:, 1])
            logits = self.calibration.logits(scores, asked)
            flat, rows, places = _candidates(logits, count, best_logits)
            merged = torch.cat([best_logits, flat])
            order = torch.sort(merged, descending=True, stable=True).indices[:count]
            best_logits = merged[order]
            best_scores = torch.cat([best_scores, scores[rows, places]])[order]
            best_facts = torch.cat([best_facts, torch.cat([chunk[rows], places[:, None]], 1)])[order]
            if tick is not None:
                tick(first + len(chunk), len(queries))
        wanted = best_scores > -torch.inf
        return self._predictions(best_facts[wanted], best_scores[wanted], best_logits[wanted])

    @cached_property
    def _places(self) -> SeenPlaces:
        return SeenPlaces(self.triples, len(self.entities), self.num_relations)

    def _all_pairs(self) -> np.ndarray:
        heads, relation_ids = np.meshgrid(np.arange(len(self.entities)), np.arange(self.num_relations), indexing="ij")
        return np.stack([heads.ravel(), relation_ids.ravel()], 1)

    def _predictions(self, facts: Tensor, scores: Tensor, logits: Tensor) -> list[Prediction]:
        """Facts ``[n, 3]`` in ids in words; those of inverse relations are turned around."""
        heads, relation_ids, tails = facts.unbind(1)
        turned = relation_ids >= self.num_relations
        heads, tails = torch.where(turned, tails, heads), torch.where(turned, heads, tails)
        relation_ids = relation_ids % self.num_relations
        columns = (heads, relation_ids, tails, scores, torch.sigmoid(logits.double()))
        known = self.known.hold(heads, relation_ids, tails)
        entities, relations = self.entities, self.relations
        return [
            Prediction(
                head=entities.shown(head),
                relation=relations.shown(relation),
                tail=entities.shown(tail),
                score=score,
                probability=probability,
                known=is_known,
                head_label=entities.labels[head],
                relation_label=relations.labels[relation],
                tail_label=entities.labels[tail],
            )
            for head, relation, tail, score, probability, is_known in zip(
                *(column.tolist() for column in (*columns, known)), strict=True
            )
        ]


def few_of_each_relation(facts: Sequence[Prediction], count: int) -> list[Prediction]:
    """The best ``count`` facts with no relation crowding out the others: as even a share of each as there are facts."""
    share: dict[str, int] = {}
    turns = []
    for place, fact in enumerate(facts):
        share[fact.relation] = share.get(fact.relation, 0) + 1
        turns.append((share[fact.relation], place))
    chosen = sorted(place for _, place in sorted(turns)[:count])
    return [facts[place] for place in chosen]


def _queries_at_once(num_entities: int) -> int:
    """So many that a product is not bound by reading the entities, as long as their scores are no great memory."""
    few = min(PRODUCT_QUERIES, MOST_SCORES // max(num_entities, 1))
    return max(1, few, CHUNK_SCORES // max(num_entities, 1))


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

"""Questions in ids in, ranked answers in ids out, for any scorer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from tuckerkg.evaluation.ranking import questions_at_once, score_chunks
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.graph.type_constraints import open_questions
from tuckerkg.inference.answers.columns import Answers
from tuckerkg.inference.answers.search import ExactSearch, Search, SearchWeigher
from tuckerkg.kernels.topk import top_of_rows
from tuckerkg.nn.contracts import Scorer
from tuckerkg.probability.calibration import Calibration
from tuckerkg.probability.features import GraphFacts
from tuckerkg.probability.verdicts import VERDICTS
from tuckerkg.probability.weigher import Found, Weigher
from tuckerkg.types import ProgressFunction, Verdict

Searches: TypeAlias = Callable[[Scorer, GraphFacts], Search]
MEASURED = 0.5  # seconds of asking that tell how long the rest takes
CANDIDATES = 10  # least number of a question's answers, by score, that probabilities put in order
PER_QUESTION = 100  # answers of one question among the best facts of many, at most, unless there are few questions
SHORTLIST = 50  # facts beyond twice those wanted that are weighed from both of their questions


class AnswerFinder:
    """Finds answers to questions about one graph.

    Answers are chosen by score and put in the order of their probabilities, those of equal probability by score. The
    probability of a fact comes from both of its questions, so that it is the same whichever way it is asked.

    Args:
        scorer: scores every entity as the answer to a question.
        splits: all triples that count as known; the first ones are those that the scorer has seen.
        calibration: turns scores into probabilities.
        searches: makes what finds the best answers by score.
    """

    def __init__(
        self,
        scorer: Scorer,
        splits: Sequence[np.ndarray],
        calibration: Calibration | None = None,
        searches: Searches = ExactSearch,
    ) -> None:
        self.scorer, self.splits, self.searches = scorer, tuple(splits), searches
        self.calibration = calibration or Calibration()
        self.num_entities, self.num_relations = scorer.num_entities, scorer.num_relations
        self.triples = np.concatenate(self.splits)

    @cached_property
    def graph(self) -> GraphFacts:
        """What the known facts say of questions."""
        seen, *held_out = self.splits
        rest = np.concatenate(held_out) if held_out else seen[:0]
        return GraphFacts(seen, self.num_entities, self.num_relations, rest)

    @property
    def known(self) -> KnownTails:
        """All known facts, by question."""
        return self.graph.known

    @cached_property
    def weigher(self) -> Weigher:
        """Gives facts their probabilities."""
        return SearchWeigher(self.scorer, self.graph, self.calibration, self.search)

    @cached_property
    def search(self) -> Search:
        """Finds the best answers by score."""
        return self.searches(self.scorer, self.graph)

    def answers(
        self,
        queries: Tensor,
        k: Tensor,
        known: Tensor,
        typed: Tensor,
        *,
        joined: bool = True,
        progress: ProgressFunction | None = None,
    ) -> Answers:
        """The best answers to ``queries [Q, 2]`` of (head, relation below 2R).

        ``k [Q]``, ``known [Q]`` and ``typed [Q]`` are what ``predict`` takes, for each question. ``progress`` counts
        the questions, and then as many again where probabilities are ``joined``.
        """
        total = len(queries) * (2 if joined and self.calibration.fitted else 1)

        def tell(done: int, of: int, start: int = 0) -> None:
            if progress is not None:
                progress(start + done * len(queries) // max(of, 1), total)

        found = Found.joined(self.search.best(queries, known, typed, k.clamp(min=CANDIDATES), tell))
        logits = (
            self.weigher.logits(found, lambda done, of: tell(done, of, len(queries)))
            if joined
            else self.weigher.logits_of_question(found)
        )
        return by_question(self.columns(found, logits, joined), logits, k)

    def relation_answers(
        self,
        pairs: Tensor,
        k: int,
        known: bool,
        *,
        typed: bool = True,
        joined: bool = True,
        progress: ProgressFunction | None = None,
    ) -> Iterator[Answers]:
        """The best relations between the (head, tail) of ``pairs [Q, 2]``, some pairs at a time.

        With ``typed``, relations of which the two may be head and tail; where there is none, all of them.
        """
        at_once = max(1, questions_at_once(self.num_entities) // self.num_relations)
        for first in range(0, len(pairs), at_once):
            part = pairs[first : first + at_once]
            owners, relation_ids = self._relations_of(part, typed).nonzero().unbind(1)
            facts = torch.stack([part[owners, 0], relation_ids, part[owners, 1]], 1)
            found = self._weighed_facts(facts, owners)
            logits = self.weigher.logits(found) if joined else self.weigher.logits_of_question(found)
            answers = self.columns(found, logits, joined)
            if not known:
                logits, answers = logits[~answers.known], answers.rows(~answers.known)
            answers = by_question(answers, logits, torch.full((len(part),), k))
            yield Answers(first + answers.questions, *list(vars(answers).values())[1:])
            if progress is not None:
                progress(min(first + at_once, len(pairs)), len(pairs))

    def _relations_of(self, pairs: Tensor, typed: bool) -> Tensor:
        """Which relations to ask about between the entities of ``pairs [Q, 2]``, ``[Q, R]``."""
        if not typed:
            return torch.ones(len(pairs), self.num_relations, dtype=torch.bool)
        heads, tails = self.graph.plausible.split(self.num_relations, 1)
        makes_sense = heads[pairs[:, 0]] & tails[pairs[:, 1]]
        chosen: Tensor = makes_sense | ~makes_sense.any(1, keepdim=True)
        return chosen

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

    def best_logits(self, questions: Tensor, typed: bool = True, progress: ProgressFunction | None = None) -> Tensor:
        """The logit ``[Q]`` of the best answer to each of ``questions [Q, 2]`` that the graph does not hold.

        From the question alone; minus infinity where there is none.
        """
        best = torch.full((len(questions),), -torch.inf, dtype=torch.float64)
        shown, limited = (torch.full((len(questions),), flag) for flag in (False, typed))
        for found in self.search.best(questions, shown, limited, torch.ones(len(questions)).long(), progress):
            best[found.questions] = self.weigher.logits_of_question(found)
        return best

    def missing_questions(self, typed: bool = True) -> Tensor:
        """The questions (head, relation) that ``top_missing`` asks, ``[Q, 2]``."""
        pairs = open_questions(self.triples, self.num_entities, self.num_relations) if typed else self._all_pairs()
        return torch.from_numpy(np.ascontiguousarray(pairs))

    def seconds_for(self, questions: Tensor, typed: bool = True, k: int = 0) -> float:
        """About how long so many questions take here, and ``k`` facts of them, by asking the first few."""
        most = min(len(questions), 2 * questions_at_once(self.num_entities))
        if most == 0:
            return 0.0
        self.shortlist(questions[:1], 1, known=False, typed=typed)  # what is prepared once does not count
        count, took = 1, 0.0
        asked_again = self.shortlist_size(k) if k and self.calibration.fitted else 0
        while True:
            clock = time.perf_counter()
            self.shortlist(questions[:count], 1, known=False, typed=typed)
            took = time.perf_counter() - clock
            if count == most or took > MEASURED:
                return took * (len(questions) + asked_again) / count
            count = min(8 * count, most)

    def lists(self, head: int, relation_id: int, tail: int) -> bool:
        """Whether ``tail`` may be among the typed answers to (head, relation, ?)."""
        return self.graph.types.allow(head, relation_id, tail)

    def weigh(self, facts: Tensor) -> Answers:
        """Facts ``[n, 3]`` in ids with their scores as tails and their probabilities, in their order."""
        return self.judge(facts)[0]

    def judge(self, facts: Tensor) -> tuple[Answers, list[Verdict | None], list[float | None]]:
        """Facts ``[n, 3]`` in ids, in their order, whether they are true, and how often such a verdict was wrong."""
        found = self._weighed_facts(facts, torch.arange(len(facts)))
        logits = self.weigher.logits(found)
        answers = self.columns(found, logits, joined=True)
        judged = self.calibration.judge(logits, facts[:, 1])
        if judged is None:
            return answers, [None] * len(facts), [None] * len(facts)
        places, errors = judged
        return (
            answers,
            [VERDICTS[place] for place in places.tolist()],
            [None if math.isnan(error) else error for error in errors.tolist()],
        )

    def logits_of(self, facts: Tensor, calibration: Calibration) -> Tensor:
        """Logits ``[n]`` of facts ``[n, 3]`` by another calibration."""
        return SearchWeigher(self.scorer, self.graph, calibration, self.search).logits(
            self._weighed_facts(facts, torch.arange(len(facts)))
        )

    def _weighed_facts(self, facts: Tensor, questions: Tensor) -> Found:
        heads, relation_ids, tails = facts.unbind(1)
        scores, shares = self.search.log_shares(heads, relation_ids, tails)
        return Found(questions, heads, relation_ids, tails, scores, shares)

    def shortlist_size(self, k: int) -> int:
        """How many facts, by their own question alone, to weigh from both questions to find the ``k`` likeliest."""
        return 2 * k + SHORTLIST

    def shortlist(
        self,
        queries: Tensor,
        count: int,
        known: bool = False,
        typed: bool = True,
        progress: ProgressFunction | None = None,
    ) -> Found:
        """The ``count`` answers to ``queries [Q, 2]`` that are likeliest from the question asked alone, best first."""
        per_question = min(count, max(PER_QUESTION, 2 * -(-count // max(len(queries), 1))))
        best, best_logits = Found.joined([]), torch.empty(0, dtype=torch.float64)
        shown, limited = (torch.full((len(queries),), flag) for flag in (known, typed))
        counts = torch.full((len(queries),), per_question)
        for found in self.search.best(queries, shown, limited, counts, progress):
            logits = torch.cat([best_logits, self.weigher.logits_of_question(found)])
            order = torch.sort(logits, descending=True, stable=True).indices[:count]
            best, best_logits = Found.joined([best, found]).rows(order), logits[order]
        return best

    def _all_pairs(self) -> np.ndarray:
        heads, relation_ids = np.meshgrid(np.arange(self.num_entities), np.arange(self.num_relations), indexing="ij")
        return np.stack([heads.ravel(), relation_ids.ravel()], 1)

    def columns(self, found: Found, logits: Tensor, joined: bool) -> Answers:
        """With names' ids in place, in the order in which they were found; ranks are still 1."""
        facts = found.facts(self.num_relations)
        return Answers(
            found.questions,
            torch.ones(len(facts), dtype=torch.long),
            facts,
            found.scores,
            torch.sigmoid(logits),
            self.weigher.basis(found, joined),
            self.known.hold(*facts.unbind(1)),
        )


def by_question(answers: Answers, logits: Tensor, k: Tensor) -> Answers:
    """The ``k [Q]`` best of each question by ``logits``, those of equal logits by score, with their ranks."""
    order = torch.argsort(answers.scores, descending=True, stable=True)
    order = order[torch.argsort(logits[order], descending=True, stable=True)]
    order = order[torch.argsort(answers.questions[order], stable=True)]
    owners = answers.questions[order]
    sizes = torch.bincount(owners, minlength=len(k))
    ranks = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[owners] + 1
    shown = ranks <= k[owners]
    chosen = answers.rows(order[shown])
    return Answers(chosen.questions, ranks[shown], *list(vars(chosen).values())[2:])

"""The best missing facts of a run that is slow to ask: a fast run finds the questions that are worth asking.

The retriever, a run with embeddings, is asked every question of the graph, a matrix product for many at once. The
probability of its best answer that the graph does not hold gives the questions an order, and only the first ones are
asked of the slow run, whose probabilities rank the facts. What is not among these questions is not found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.answers.predictions import Predictions
from tuckerkg.inference.predictor import Predictor
from tuckerkg.nn.contracts import is_slow
from tuckerkg.probability.population import Guess
from tuckerkg.types import ProgressFunction

if TYPE_CHECKING:
    from tuckerkg.inference.run import Run

QUESTIONS = 2_000  # that the slow run is asked where nothing else is said


@dataclass(frozen=True)
class Cost:
    """What a search takes: of ``questions`` the slow run is asked ``asked``; seconds are measured on a few."""

    questions: int
    asked: int
    retriever_seconds: float
    seconds: float
    seconds_for_all: float

    def __str__(self) -> str:
        return (
            f"{self.asked:,} of {self.questions:,} questions are asked, the most promising ones: about "
            f"{self.retriever_seconds:,.0f} s to find and {self.seconds:,.0f} s to ask them here; all would take "
            f"{self.seconds_for_all:,.0f} s"
        )


class Retrieval:
    """A search over the whole graph with a budget.

    Args:
        predictor: answers of the slow run.
        retriever: answers of the fast one, over the same entities, relations and known facts.
        ask: how many questions the slow run is asked; None: ``QUESTIONS``, or what ``minutes`` allow.
        minutes: of the whole search, by a measurement on a few questions.
        typed: ask plausible heads only and take tails that have been seen there.
    """

    def __init__(
        self,
        predictor: Predictor,
        retriever: Predictor,
        *,
        ask: int | None = None,
        minutes: float | None = None,
        typed: bool = True,
    ) -> None:
        if ask is not None and ask < 1:
            raise TuckerkgError(f"the number of questions to ask is {ask}, expected a whole number from 1 on")
        if minutes is not None and not minutes > 0:
            raise TuckerkgError(f"minutes is {minutes}, expected a number above 0")
        if ask is not None and minutes is not None:
            raise TuckerkgError("give the number of questions to ask or the minutes, not both")
        self.predictor, self.retriever, self.typed = predictor, retriever, typed
        self._ask, self._minutes = ask, minutes

    @cached_property
    def cost(self) -> Cost:
        """How many questions are asked, and about how long it takes."""
        questions = self._questions
        finding, all_of_them = (each.seconds_for(questions, self.typed) for each in (self.retriever, self.predictor))
        each = all_of_them / max(len(questions), 1)
        asked = self._ask or QUESTIONS
        if self._minutes is not None:
            left = 60.0 * self._minutes - finding
            if left < each:
                raise TuckerkgError(
                    f"{self._minutes:g} minutes are too few: finding the questions takes about {finding:,.0f} s, and "
                    f"asking one {each:,.2f} s"
                )
            asked = int(left / each)
        asked = min(asked, len(questions))
        return Cost(len(questions), asked, finding, asked * each, all_of_them)

    def promising(self, progress: ProgressFunction | None = None) -> Tensor:
        """The questions that the slow run is asked ``[asked, 2]``, the most promising one first."""
        logits = self.retriever.best_logits(self._questions, self.typed, progress)
        order = torch.sort(logits, descending=True, stable=True).indices[: self.cost.asked]
        return self._questions[order[logits[order] > -torch.inf]]

    def top_missing(
        self, k: int, questions: Tensor | None = None, progress: ProgressFunction | None = None
    ) -> Predictions:
        """The ``k`` most probable missing facts by the slow run, among the answers to the promising ``questions``."""
        asked = self.promising() if questions is None else questions
        return self.predictor.top_missing(k, typed=self.typed, questions=asked, progress=progress)

    @cached_property
    def _questions(self) -> Tensor:
        return self.predictor.missing_questions(self.typed)


def retriever_of(run: Run, given: Run | None = None, slow: Predictor | None = None) -> Predictor:
    """Answers of the retriever of ``run``: the one that is ``given``, or a blend's first member with embeddings.

    Known facts are those of ``slow``, the predictor whose questions it finds; else all of the run's.

    Raises:
        TuckerkgError: there is none, or it knows other entities or relations.
    """
    found = embedding_member(run) if given is None else given
    if found is None:
        raise TuckerkgError(
            f"{run.path}: asking a part of the questions needs a run that finds them; give one with embeddings over "
            "the same entities: --retriever RUN"
        )
    for what, ours, theirs in (
        ("entities", run.entities.labels, found.entities.labels),
        ("relations", run.relations.labels, found.relations.labels),
    ):
        if list(ours) != list(theirs):
            raise TuckerkgError(
                f"{found.path}: knows {len(theirs):,} {what}, which are not the {len(ours):,} of {run.path}; a "
                "retriever is trained on the same graph"
            )
    splits = (slow or run.predictor).splits
    return Predictor(found.scorer, run.entities, run.relations, splits, found.calibration)


def promise_of(run: Run) -> Guess | None:
    """What finds the questions that are worth asking a run that is slow to ask, knowing training's facts alone.

    None where it is quick itself, or nothing is quicker.
    """
    found = embedding_member(run) if is_slow(run.scorer) else None
    if found is None:
        return None
    return Predictor(found.scorer, run.entities, run.relations, [run.split("train")], found.calibration).best_logits


def embedding_member(run: Run) -> Run | None:
    """The first member of a blend that has embeddings, or None."""
    for member in run.members:
        found = member if member.settings.kind == "embedding" else embedding_member(member)
        if found is not None:
            return found
    return None

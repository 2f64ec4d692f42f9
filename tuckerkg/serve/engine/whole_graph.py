"""The search for the most probable missing facts of the whole graph, in the background of the service.

A run that is slow to ask is asked as many questions as a few minutes allow: those that a blend's member with embeddings
finds promising, else random ones. Requests go first: a slow search asks few questions at a time and waits in between
while a request is computed.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import Literal

import torch
from torch import Tensor

from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import TuckerkgError
from tuckerkg.evaluation.ranking import questions_at_once
from tuckerkg.inference.answers.predictions import Prediction
from tuckerkg.inference.predictor import Predictor
from tuckerkg.inference.run import Run
from tuckerkg.nn.contracts import is_slow
from tuckerkg.probability.weigher import Found

_log = logging.getLogger("tuckerkg.serve")
KEPT = 2_000  # facts; of a run that is slow to ask
KEPT_SLOW = 200
MINUTES = 2.0  # that the search may take
PART = 0.25  # seconds of asking between two looks for requests
WAIT = 1.0  # seconds that a part waits for requests, at most: under constant load the search still ends

Chosen = Literal["all", "promising", "random"]


class Closed(Exception):
    """The service ends."""


class Requests:
    """Counts the requests that are being computed; ``with requests:`` around each."""

    def __init__(self) -> None:
        self._count, self._changed = 0, threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until none is computed, ``seconds`` at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0, seconds)


class MissingSearch:
    """Looks for missing facts in a thread of its own, once.

    Args:
        run: who is asked.
        requests: those of the service.
        minutes: how long it may take.
        hidden: ask where the facts of test count as missing.
        relation: look for facts of this one alone.

    Attributes:
        found: the most probable facts, best first; None while it works.
        progress: questions asked so far, and how many are asked in this pass.
        failure: why it ended without facts.
        questions: how many there are; ``asked`` of them are asked.
        chosen: how these were chosen.
    """

    def __init__(
        self,
        run: Run,
        requests: Requests,
        minutes: float = MINUTES,
        *,
        hidden: bool = False,
        relation: int | None = None,
    ) -> None:
        self.run, self.requests, self.minutes = run, requests, minutes
        self.hidden, self.relation = hidden, relation
        self.kept = KEPT_SLOW if is_slow(run.scorer) else KEPT
        self.found: list[Prediction] | None = None
        self.failure: str | None = None
        self.progress = (0, 0)
        self.questions = self.asked = 0
        self._since = 0.0
        self.chosen: Chosen = "all"
        self._starting, self._closing = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, where it has not begun, or has failed."""
        with self._starting:
            if self._thread is None or (self.found is None and not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()

    @property
    def seconds_left(self) -> float | None:
        """How long this pass still takes, at the pace so far; None where nobody knows."""
        (done, total), now = self.progress, time.monotonic()
        return (now - self._since) / done * (total - done) if done and self.found is None else None

    def take_failure(self) -> str | None:
        """Why it has failed, said once; the next ``start`` begins again."""
        failure, self.failure = self.failure, None
        return failure

    def close(self) -> None:
        """End it."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            self._search()
        except Closed:
            pass
        except Exception as error:
            _log.exception("the search for missing facts failed")
            words = {TuckerkgError: str(error), MemoryError: "the memory does not suffice"}
            self.failure = words.get(type(error), "something went wrong here; the log has it")  # no places of files

    def _search(self) -> None:
        self._since = time.monotonic()
        predictor = self._predictor
        questions = predictor.missing_questions()
        if self.relation is not None:
            questions = questions[questions[:, 1] == self.relation]
        each = predictor.seconds_for(questions) / max(len(questions), 1)
        self.questions = len(questions)
        if each * len(questions) > 60.0 * self.minutes:
            questions = self._some(questions, each)
        self.asked = len(questions)
        self.found = self._ask(questions, each)

    def _some(self, questions: Tensor, each: float) -> Tensor:
        """As many as the time allows: the promising ones, where a member of the run finds them quickly."""
        with suppress(TuckerkgError):  # nobody finds them, or not in time
            if self.relation is not None:
                raise TuckerkgError("a relation's questions are few")
            known = ("train", "valid") if self.hidden else SPLITS
            found = self.run.retrieval(minutes=self.minutes, missing_from=known).promising(self._tell)
            self.chosen = "promising"
            return found
        self.chosen = "random"
        order = torch.randperm(len(questions), generator=torch.Generator().manual_seed(0))
        return questions[order[: max(1, int(60.0 * self.minutes / each))]]

    @cached_property
    def _predictor(self) -> Predictor:
        return self.run.predictor_knowing(("train", "valid")) if self.hidden else self.run.predictor

    def _ask(self, questions: Tensor, each: float) -> list[Prediction]:
        """The best answers, part by part where asking is slow; a fast run is asked in whole products."""
        predictor = self._predictor
        part = max(1, int(PART / max(each, 1e-9)))
        if part >= questions_at_once(len(self.run.entities)):
            return predictor.top_missing(self.kept, questions=questions, progress=self._give_way)
        weigher, count = predictor.weigher, predictor.shortlist_size(self.kept)
        best = Found.joined([])
        for first in range(0, len(questions), part):
            self.requests.wait(WAIT)
            best = Found.joined([best, predictor.shortlist(questions[first : first + part], count)])
            best = best.rows(torch.argsort(weigher.logits_of_question(best), descending=True, stable=True)[:count])
            self._tell(min(first + part, len(questions)), len(questions))
        logits = []
        for first in range(0, len(best.answers), part):
            self.requests.wait(WAIT)
            logits.append(weigher.logits(best.rows(torch.arange(first, min(first + part, len(best.answers))))))
            self._tell(len(questions), len(questions))
        return predictor.most_probable(best, torch.cat([torch.empty(0, dtype=torch.float64), *logits]), self.kept)

    def _give_way(self, done: int, total: int) -> None:
        self._tell(done, total)
        self.requests.wait(WAIT)

    def _tell(self, done: int, total: int) -> None:
        self.progress = (done, total)
        if self._closing.is_set():
            raise Closed

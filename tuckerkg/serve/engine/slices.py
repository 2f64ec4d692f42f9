"""Questions answered in slices: between two of them others get their turn, and work that nobody waits for ends.

A slice is as many questions as take about ``SLICE`` seconds, and ``SLICE_BYTES`` for their scores. What a question's
answers need besides, each answer's own question in the other direction, is asked in slices too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from tuckerkg.inference.answers.columns import Answers
from tuckerkg.inference.answers.finder import CANDIDATES, by_question
from tuckerkg.inference.predictor import Predictor
from tuckerkg.probability.weigher import Found

SLICE = 0.05  # seconds
MOST_AT_ONCE = 1_024  # questions of a slice
SLICE_BYTES = 8 << 20  # of a slice's scores; what is made of them is several times as large
Pause = Callable[[], None]
"""Called between two slices; raises where the work is given up."""


def least_seconds(work: Callable[[], object], times: int = 3) -> float:
    """What something takes at best, by the clock or by the processor's time, whatever else this machine does."""
    found = math.inf
    for _ in range(times):
        clock, used = time.perf_counter(), time.process_time()
        work()
        found = min(found, time.perf_counter() - clock, time.process_time() - used)
    return found


def no_pause() -> None:
    """Go on."""


class Slices:
    """Asks a predictor, some questions at a time.

    Args:
        predictor: who is asked.
        seconds: what a question takes.
    """

    def __init__(self, predictor: Predictor, seconds: float) -> None:
        self.predictor, self.seconds = predictor, seconds
        most = min(MOST_AT_ONCE, SLICE_BYTES // (4 * max(1, predictor.num_entities)))
        self.part = max(1, min(most, int(SLICE / max(seconds, 1e-9))))

    def answers(
        self, queries: Tensor, k: Tensor, known: Tensor, typed: Tensor, joined: bool, pause: Pause = no_pause
    ) -> Answers:
        """The best answers to ``queries [Q, 2]``; the rest is ``[Q]`` each, as ``Predictor.answers`` takes it."""
        parts = []
        for first in range(0, len(queries), self.part):
            pause()
            span = slice(first, first + self.part)
            found = self._answers(queries[span], k[span], known[span], typed[span], joined, pause)
            parts.append(replace(found, questions=found.questions + first))
        return Answers.joined(parts)

    def _answers(self, queries: Tensor, k: Tensor, known: Tensor, typed: Tensor, joined: bool, pause: Pause) -> Answers:
        most = int(k.max()) * len(queries)
        if not joined or most <= self.part:
            return self.predictor.answers(queries, k, known, typed, joined=joined)
        # The answers themselves are found at once; their own questions are what takes long.
        found = Found.joined(self.predictor.search.best(queries, known, typed, k.clamp(min=CANDIDATES)))
        logits = self.logits(found, pause)
        return by_question(self.predictor.columns(found, logits, joined), logits, k)

    def logits(self, found: Found, pause: Pause = no_pause, part: int | None = None) -> Tensor:
        """Logits from both questions of each fact, ``part`` at a time."""
        parts = []
        step = part or self.part
        for first in range(0, len(found.answers), step):
            pause()
            rows = torch.arange(first, min(first + step, len(found.answers)))
            parts.append(self.predictor.weigher.logits(found.rows(rows)))
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.float64)

    def best(self, queries: Tensor, k: int, known: bool, typed: bool, joined: bool, pause: Pause = no_pause) -> Answers:
        """The ``k`` most probable answers to all of ``queries`` together."""
        predictor = self.predictor
        joined = joined and predictor.calibration.fitted
        count = predictor.shortlist_size(k) if joined else k
        best = Found.joined([])
        step = max(1, self.part // 2)  # several such questions are under way at once, each with its own memory
        for first in range(0, len(queries), step):
            pause()
            more = predictor.shortlist(queries[first : first + step], count, known, typed)
            best = Found.joined([best, more])
            best = best.rows(
                torch.argsort(predictor.weigher.logits_of_question(best), descending=True, stable=True)[:count]
            )
        logits = self.logits(best, pause, step) if joined else predictor.weigher.logits_of_question(best)
        order = torch.sort(logits, descending=True, stable=True).indices[:k]
        return predictor.columns(best, logits, joined).rows(order)

    def relations(
        self, head: int, tail: int, k: int, known: bool, typed: bool, joined: bool, pause: Pause = no_pause
    ) -> Answers:
        """The best relations between two entities."""
        pause()
        pairs = torch.tensor([[head, tail]])
        return Answers.joined(
            self.predictor.relation_answers(
                pairs, k, known, typed=typed, joined=joined, progress=lambda done, of: pause()
            )
        )

    def judged(self, facts: Tensor, pause: Pause = no_pause) -> tuple[Answers, list[str | None], list[float | None]]:
        """Facts ``[n, 3]`` with verdicts, in their order."""
        parts, verdicts, errors = [], [], []
        step = max(1, self.part // 2)
        for first in range(0, len(facts), step):
            pause()
            found, some, rates = self.predictor.judge(facts[first : first + step])
            parts.append(found)
            verdicts += some
            errors += rates
        return Answers.joined(parts), list(verdicts), errors


def columns_of(questions: Sequence[tuple[int, int, int, bool, bool]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(anchor, relation, k, known, typed) of each as ``queries [Q, 2]``, ``k``, ``known`` and ``typed [Q]``."""
    numbers = torch.tensor([each[:3] for each in questions], dtype=torch.long).view(-1, 3)
    flags = torch.tensor([each[3:] for each in questions], dtype=torch.bool).view(-1, 2)
    return numbers[:, :2], numbers[:, 2], flags[:, 0], flags[:, 1]

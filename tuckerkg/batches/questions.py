"""Training questions for messages that start from the head: one fact of the graph each, asked in one direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tuckerkg.batches.phases import Schedule
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.graph.in_edges import in_edges
from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.kernels.questions.graph import QuestionGraph, Questions


@dataclass(frozen=True)
class QuestionBatch:
    """Questions of a step, and the graph that they are asked of."""

    graph: QuestionGraph
    questions: Questions

    @property
    def heads(self) -> Tensor:
        """Heads, ``[B]``."""
        return torch.from_numpy(self.questions.heads)

    def to(self, device: torch.device | str) -> QuestionBatch:
        """The same batch: the model moves what it needs."""
        return self


class QuestionBatches:
    """Walks all facts and their inverses in a shuffled order, a new one each epoch.

    Args:
        train: training triples ``[n, 3]``.
        questions: questions of a step.
        answers: share of a question's other answers that are asked for, and so hidden, together with its own.
    """

    def __init__(
        self, train: np.ndarray, num_entities: int, num_relations: int, seed: int, *, questions: int, answers: float
    ) -> None:
        self.facts = add_inverses(train, num_relations)  # [2n, 3]
        self.known = KnownTails.of(torch.from_numpy(self.facts), 2 * num_relations)
        self.graph = QuestionGraph(in_edges(train, num_entities, num_relations))
        self.seed, self.answers, self.size = seed, answers, min(questions, len(self.facts))
        self.steps_per_epoch = -(-len(self.facts) // self.size)
        self.schedule = Schedule((), self.steps_per_epoch)
        self._order: tuple[int, np.ndarray] | None = None

    def batch(self, step: int) -> QuestionBatch:
        """The batch of ``step``, a function of (seed, step)."""
        epoch, part = divmod(step, self.steps_per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, np.random.default_rng([self.seed, 1, epoch]).permutation(len(self.facts)))
        heads, relations, tails = self.facts[self._order[1][part * self.size : (part + 1) * self.size]].T
        offsets, known = self.known.find(torch.from_numpy(heads.copy()), torch.from_numpy(relations.copy()))
        rows, known_tails = rows_of(offsets).numpy(), known.numpy()
        random = np.random.default_rng([self.seed, 2, step])
        seed = int(random.integers(2**62))
        asked = (known_tails == tails[rows]) | (random.random(len(rows)) < self.answers)
        return QuestionBatch(
            self.graph,
            Questions(
                heads.copy(),
                relations.copy(),
                starts_of(rows[asked], len(heads)),
                known_tails[asked],
                starts_of(rows[~asked], len(heads)),
                known_tails[~asked],
                seed,
            ),
        )


def starts_of(rows: np.ndarray, count: int) -> np.ndarray:
    """Where the values of each row begin, ``[count + 1]``; ``rows`` ascend."""
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=count), out=starts[1:])
    return starts

"""A graph that questions are asked of, one question per thread at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import torch

from tuckerkg.graph.in_edges import InEdges
from tuckerkg.kernels.questions.arrays import Shape, Space, Weights, new_space
from tuckerkg.kernels.questions.passes import (
    answer_questions,
    measure_distances,
    trace_question,
    train_questions,
)
from tuckerkg.kernels.questions.vector_rows import Width

SLOTS = 16  # gradients are summed per slot, then over slots in order: the same bits for any number of threads
ROOM = 4_096  # rows that a thread begins with
NO_FACTS = np.empty((0, 3), np.int64)


@dataclass(frozen=True)
class Questions:
    """Training questions: ``tails`` are the answers whose edges are hidden, ``known`` other answers, not candidates."""

    heads: np.ndarray  # [B] int64
    relations: np.ndarray  # [B] int64, below 2R
    tail_starts: np.ndarray  # [B + 1] int64
    tails: np.ndarray  # [K] int64
    known_starts: np.ndarray  # [B + 1] int64
    known: np.ndarray  # [M] int64
    seed: int = 0  # of the rounding of small gradients

    def hidden(self, whole_pair: bool) -> np.ndarray:
        """The facts that questions must not use, one per answer, ``[K, 3]``; relation -1 is any."""
        counts = np.diff(self.tail_starts)
        relations = np.full_like(self.relations, -1) if whole_pair else self.relations
        return np.stack([np.repeat(self.heads, counts), np.repeat(relations, counts), self.tails], 1)

    def answers(self, row: int) -> np.ndarray:
        """The answers of one question whose edges are hidden."""
        return self.tails[self.tail_starts[row] : self.tail_starts[row + 1]]

    def other_answers(self, row: int) -> np.ndarray:
        """Its other known answers."""
        return self.known[self.known_starts[row] : self.known_starts[row + 1]]


@dataclass(frozen=True)
class Trace:
    """The local graph of a question: its edges, those of one target side by side, and what each did for a score.

    By layer, the gradient of a factor 1 of each edge's message.
    """

    sources: np.ndarray  # [E] entities
    relations: np.ndarray  # [E] below 2R
    targets: np.ndarray  # [E]
    gradients: np.ndarray  # [L, E]
    entities: np.ndarray  # [n] in the order of their distance
    own: np.ndarray  # [L, n] the gradient of a factor 1 of an entity's own state before a layer


class QuestionGraph:
    """A graph that questions are asked of, with the memory that threads use again from one question to the next.

    Args:
        edges: the graph.
    """

    def __init__(self, edges: InEdges) -> None:
        self.edges = edges
        self._free: dict[tuple[int, int, np.dtype[Any]], SimpleQueue[Space]] = {}

    def train(
        self, shape: Shape, weights: Weights, questions: Questions, *, whole_pair: bool, least: float = 0.0
    ) -> tuple[float, list[np.ndarray]]:
        """The mean loss, and its gradients in the order of ``Weights``.

        Args:
            whole_pair: hide all edges between the head and an answer, not only the question's own.
            least: gradients of scores below this are rounded to it or to 0 at random, without bias; 0 leaves them.
        """
        count = len(questions.heads)
        slots = min(SLOTS, count)
        stride = _table_stride(shape, weights)
        # Tables of their own have gradients of their own: no slot writes to another's.
        own = np.zeros(weights.relations.size if stride else 0, weights.queries.dtype)
        ends = np.cumsum([0 if stride and array is weights.relations else array.size for array in weights])
        sums = np.zeros((slots, ends[-1]), weights.queries.dtype)
        values = np.empty(count, np.float64)
        hidden = questions.hidden(whole_pair)
        tables = stride * np.arange(count)

        def as_weights(flat: np.ndarray) -> Weights:
            grads = Weights(*np.split(flat, ends[:-1]))
            return grads._replace(relations=own) if stride else grads

        def ask(slot: int, space: Space, begin: int) -> tuple[int, int]:
            grads = as_weights(sums[slot])
            found: tuple[int, int] = train_questions(
                Width(shape.width), self.edges, weights, grads, space, questions.heads, questions.relations, tables,
                questions.tail_starts, questions.tails, questions.known_starts, questions.known, hidden,
                begin, slots, shape.power, 1.0 / count, least, questions.seed, values,
            )  # fmt: skip
            return found

        self._run(shape, weights, ask, slots)
        summed = sums[0]
        for slot in range(1, slots):
            summed += sums[slot]
        return float(values.sum()), list(as_weights(summed))

    def answer(
        self,
        shape: Shape,
        weights: Weights,
        heads: np.ndarray,
        relations: np.ndarray,
        without: Sequence[np.ndarray] | None = None,
        tables: np.ndarray | None = None,
    ) -> np.ndarray:
        """Scores of every entity, ``[B, N]``.

        Args:
            without: facts ``[k, 3]`` that each question must not use.
            tables: which table of relations each question uses ``[B]``, where there are several.
        """
        out = np.empty((len(heads), self.edges.num_entities), weights.queries.dtype)
        slots = min(SLOTS, len(heads))
        tables = np.zeros(len(heads), np.int64) if tables is None else _table_stride(shape, weights) * tables
        hidden = np.concatenate([NO_FACTS] if without is None else [NO_FACTS, *without])
        starts = np.zeros(len(heads) + 1, np.int64)
        if without is not None:
            np.cumsum([len(facts) for facts in without], out=starts[1:])

        def ask(slot: int, space: Space, begin: int) -> tuple[int, int]:
            found: tuple[int, int] = answer_questions(
                Width(shape.width), self.edges, weights, space, heads, relations, tables, starts, hidden,
                begin, slots, shape.power, out,
            )  # fmt: skip
            return found

        self._run(shape, weights, ask, slots)
        return out

    def trace(
        self, shape: Shape, weights: Weights, question: tuple[int, int, int], without: np.ndarray = NO_FACTS
    ) -> Trace:
        """What each edge did for the score of ``question``, a head, a relation below 2R and an answer."""
        grads = Weights(*(np.zeros_like(array) for array in weights))
        edge_grads = np.zeros((shape.layers, len(self.edges.sources) + 1), weights.queries.dtype)
        own_grads = np.zeros((shape.layers, self.edges.num_entities), weights.queries.dtype)
        size = np.zeros(2, np.int64)
        rows = ROOM
        while True:
            space = new_space(self.edges, shape, rows, weights.queries.dtype)
            rows = trace_question(
                Width(shape.width),
                self.edges,
                weights,
                grads,
                space,
                *question,
                without,
                shape.power,
                edge_grads,
                own_grads,
                size,
            )
            if not rows:
                break
        entities, runs = (int(number) for number in size)
        ends = space.run_ends[:runs]
        num_edges = int(ends[-1]) if runs else 0
        firsts = np.append(0, ends)[space.run_starts[: entities + 1]]
        return Trace(
            sources=space.order[space.sources[:num_edges]].astype(np.int64),
            relations=np.repeat(space.relations[:runs], np.diff(ends, prepend=0)).astype(np.int64),
            targets=np.repeat(space.order[:entities], np.diff(firsts)).astype(np.int64),
            gradients=edge_grads[:, :num_edges],
            entities=space.order[:entities].astype(np.int64),
            own=own_grads[:, :entities],
        )

    def distances(self, heads: np.ndarray, tails: np.ndarray, most: int) -> np.ndarray:
        """How many edges lie between each head and tail, ``[n]``; -1 where more than ``most``."""
        found = np.empty(len(heads), np.int64)
        space = new_space(self.edges, Shape(4, most, 0.0), 1, np.dtype(np.float32))
        measure_distances(self.edges, space, heads.astype(np.int64), tails.astype(np.int64), found)
        return found

    def _run(
        self, shape: Shape, weights: Weights, ask: Callable[[int, Space, int], tuple[int, int]], slots: int
    ) -> None:
        """Call ``ask`` for every slot, on as many threads as PyTorch has."""
        dtype = weights.queries.dtype
        free = self._free.setdefault((shape.width, shape.layers, dtype), SimpleQueue())

        def work(slot: int) -> None:
            try:
                space = free.get_nowait()
            except Empty:
                space = new_space(self.edges, shape, ROOM, dtype)
            begin = slot
            while True:
                begin, needed = ask(slot, space, begin)
                if begin < 0:
                    break
                space = new_space(self.edges, shape, needed + needed // 4, dtype)
            free.put(space)

        threads = min(torch.get_num_threads(), slots)
        if threads <= 1:
            for slot in range(slots):
                work(slot)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(slots)))


def _table_stride(shape: Shape, weights: Weights) -> int:
    """How far the tables of relations of two questions lie apart: 0 where all share one."""
    shared = shape.layers * weights.queries.size
    return 0 if weights.relations.size == shared else shared

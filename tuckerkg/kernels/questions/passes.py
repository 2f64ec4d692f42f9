"""Training and answering for a list of questions, one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from tuckerkg.kernels.questions.backward import backward
from tuckerkg.kernels.questions.forward import forward, score
from tuckerkg.kernels.questions.loss import loss
from tuckerkg.kernels.questions.search import forget, localize, reach
from tuckerkg.kernels.sealed_cache import sealed


@njit(nogil=True)
def _states(width, edges, weights, space, head, asked, table, hidden, layers, power):
    """Compute all states of a question; returns the rows that ``space`` would need if it has too few, else 0."""
    reach(edges, space, head, hidden, layers)
    needed = space.bases[layers + 1]
    if needed > len(space.deviation):
        forget(space, hidden, layers)
        return needed
    localize(edges, space, hidden, layers, power)
    forward(width, weights, space, asked, table, layers)
    return 0


def _compile(sources: str) -> tuple[Callable[..., Any], ...]:
    """What is called from Python, kept compiled on disk for these ``sources``.

    Numba compiles a function again where its own file has changed, but not where one that it calls has: so the text of
    all files of this folder is a variable of the functions, which is a part of the cache's key.
    """

    @njit(nogil=True, cache=True)
    def train_questions(
        width, edges, weights, grads, space, heads, relations, tables, tail_starts, tails, known_starts, known, hidden,
        start, stride, power, weight, least, seed, values,
    ):  # fmt: skip
        """Write the losses of the questions ``start, start + stride, ...`` and add their gradients to ``grads``.

        ``tables [B]`` is where each question's table of relations begins in ``weights.relations``, and its gradient in
        ``grads.relations``. ``hidden [K, 3]`` are the facts that a question must not use, as many as it has answers in
        ``tails [K]``.

        Returns:
            The first question that needs more rows than ``space`` has, with that number of rows; else -1 and 0.
            Questions before it are done, nothing of it or of later ones is.
        """
        sources  # noqa: B018
        layers = len(space.counts) - 1
        nowhere = np.empty((0, 0), space.states.dtype)
        for question in range(start, len(heads), stride):
            asked = relations[question]
            answers = tails[tail_starts[question] : tail_starts[question + 1]]
            others = known[known_starts[question] : known_starts[question + 1]]
            own = hidden[tail_starts[question] : tail_starts[question + 1]]
            needed = _states(width, edges, weights, space, heads[question], asked, tables[question], own, layers, power)
            if needed:
                return question, needed
            unreached = score(width, weights, space, asked, layers)
            own_seed = np.uint64(seed) + np.uint64(question + 1) * np.uint64(0xD1B54A32D192ED03)
            values[question], shared = loss(space, unreached, answers, others, layers, weight, least, own_seed)
            backward(width, weights, grads, nowhere, nowhere, space, asked, tables[question], layers, shared)
            forget(space, own, layers)
        return -1, 0

    @njit(nogil=True, cache=True)
    def answer_questions(
        width, edges, weights, space, heads, relations, tables, hidden_starts, hidden, start, stride, power, out
    ):
        """Write the scores of all entities as answers to questions ``start, start + stride, ...`` to ``out [B, N]``.

        Returns as ``train_questions`` does.
        """
        sources  # noqa: B018
        layers = len(space.counts) - 1
        for question in range(start, len(heads), stride):
            asked = relations[question]
            own = hidden[hidden_starts[question] : hidden_starts[question + 1]]
            needed = _states(width, edges, weights, space, heads[question], asked, tables[question], own, layers, power)
            if needed:
                return question, needed
            out[question] = score(width, weights, space, asked, layers)
            for position in range(space.counts[layers]):
                out[question, space.order[position]] = space.scores[position]
            forget(space, own, layers)
        return -1, 0

    @njit(nogil=True, cache=True)
    def trace_question(
        width, edges, weights, grads, space, head, asked, tail, hidden, power, edge_grads, own_grads, shape
    ):
        """Write the gradient of a score to ``edge_grads [L, E]`` and ``own_grads [L, N]``, in the local graph's order.

        ``shape`` receives how many entities and runs the local graph has, which stays in ``space`` with the scores of
        all reached entities: forget it afterwards. Returns the rows that are missing, else 0.
        """
        sources  # noqa: B018
        layers = len(space.counts) - 1
        needed = _states(width, edges, weights, space, head, asked, 0, hidden, layers, power)
        if needed:
            return needed
        score(width, weights, space, asked, layers)
        shape[0], shape[1] = space.counts[layers], space.run_starts[space.counts[layers]]
        if space.place[tail] >= 0:
            space.score_grads[: shape[0]] = 0.0
            space.score_grads[space.place[tail]] = 1.0
            backward(width, weights, grads, edge_grads, own_grads, space, asked, 0, layers, 0.0)
        return 0

    @njit(nogil=True, cache=True)
    def measure_distances(edges, space, heads, tails, out):
        """Write how many edges lie between each head and tail, -1 where more than the layers of ``space``."""
        sources  # noqa: B018
        layers = len(space.counts) - 1
        nothing = np.empty((0, 3), np.int64)
        for pair in range(len(heads)):
            reach(edges, space, heads[pair], nothing, layers)
            place = space.place[tails[pair]]
            out[pair] = -1
            for level in range(layers, -1, -1):
                if 0 <= place < space.counts[level]:
                    out[pair] = level
            forget(space, nothing, layers)

    return train_questions, answer_questions, trace_question, measure_distances


def _sources() -> str:
    """A hash of the text of every file that the compiled code comes from."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


train_questions, answer_questions, trace_question, measure_distances = sealed(*_compile(_sources()))

"""Training and answering for a list of questions, one after the other."""

from __future__ import annotations

import numpy as np
from numba import njit

from tuckerkg.kernels.questions.backward import backward
from tuckerkg.kernels.questions.forward import forward, score
from tuckerkg.kernels.questions.loss import loss
from tuckerkg.kernels.questions.search import forget, localize, reach


@njit(nogil=True, cache=True)
def train_questions(
    width, edges, weights, grads, space, heads, relations, tail_starts, tails, known_starts, known,
    start, stride, whole_pair, power, weight, least, seed, values,
):  # fmt: skip
    """Write the losses of the questions ``start, start + stride, ...`` and add their gradients to ``grads``.

    Returns:
        The first question that needs more rows than ``space`` has, with that number of rows; else -1 and 0. Questions
        before it are done, nothing of it or of later ones is.
    """
    layers = len(space.counts) - 1
    for question in range(start, len(heads), stride):
        head, asked = heads[question], relations[question]
        answers = tails[tail_starts[question] : tail_starts[question + 1]]
        others = known[known_starts[question] : known_starts[question + 1]]
        reach(edges, space, head, asked, answers, whole_pair, layers)
        needed = space.bases[layers + 1]
        if needed > len(space.deviation):
            forget(space, answers, layers)
            return question, needed
        localize(edges, space, head, asked, answers, whole_pair, layers, power)
        forward(width, weights, space, asked, layers)
        unreached = score(width, weights, space, asked, layers)
        own_seed = np.uint64(seed) + np.uint64(question + 1) * np.uint64(0xD1B54A32D192ED03)
        values[question], shared = loss(space, unreached, answers, others, layers, weight, least, own_seed)
        backward(width, weights, grads, space, asked, layers, shared)
        forget(space, answers, layers)
    return -1, 0


@njit(nogil=True, cache=True)
def answer_questions(width, edges, weights, space, heads, relations, start, stride, power, out):
    """Write the scores of all entities as answers to questions ``start, start + stride, ...`` to ``out [B, N]``.

    Returns as ``train_questions`` does.
    """
    layers = len(space.counts) - 1
    nobody = space.order[:0]
    for question in range(start, len(heads), stride):
        head, asked = heads[question], relations[question]
        reach(edges, space, head, asked, nobody, False, layers)
        needed = space.bases[layers + 1]
        if needed > len(space.deviation):
            forget(space, nobody, layers)
            return question, needed
        localize(edges, space, head, asked, nobody, False, layers, power)
        forward(width, weights, space, asked, layers)
        out[question] = score(width, weights, space, asked, layers)
        for position in range(space.counts[layers]):
            out[question, space.order[position]] = space.scores[position]
        forget(space, nobody, layers)
    return -1, 0

"""The loss of a question, and the gradients of its scores."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True)
def _random(state):
    """One step of the SplitMix64 generator: a share in [0, 1) from a counter."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((state ^ (state >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


@njit(nogil=True)
def loss(space, unreached, tails, known, layers, weight, least, seed):
    """Softmax cross entropy of each answer among all entities but the other known ones, mean over ``tails``.

    Writes the gradient of every reached score, times ``weight``. A negative's gradient below ``least * weight`` becomes
    0 or ``least * weight`` at random, with the same mean.

    Returns:
        The loss and the gradient of the score that unreached entities share.
    """
    count, place, scores, grads = space.counts[layers], space.place, space.scores, space.score_grads
    others = len(place) - count  # unreached entities that compete
    highest = unreached if others else -np.inf
    for position in range(count):
        grads[position] = 1.0
        highest = max(highest, scores[position])
    for entity in known:
        if place[entity] >= 0:
            grads[place[entity]] = 0.0
        else:
            others -= 1
    for entity in tails:
        if place[entity] >= 0:
            grads[place[entity]] = 0.0
        else:
            others -= 1
    mass = others * np.exp(float(unreached) - highest)
    for position in range(count):
        if grads[position] > 0:
            share = np.exp(float(scores[position]) - highest)
            grads[position] = share
            mass += share
    value, pull, shared = 0.0, 0.0, 0.0
    each = weight / len(tails)
    for entity in tails:
        answer = float(scores[place[entity]] if place[entity] >= 0 else unreached) - highest
        everything = mass + np.exp(answer)
        value += np.log(everything) - answer
        pull += each / everything
        if place[entity] < 0:
            shared -= each * mass / everything
    shared += pull * others * np.exp(float(unreached) - highest)
    least = least * weight
    for position in range(count):
        gradient = grads[position] * pull
        if 0.0 < gradient < least:
            counter = np.uint64(seed) + np.uint64(position + 1) * np.uint64(0x9E3779B97F4A7C15)
            gradient = least if _random(counter) * least < gradient else 0.0
        grads[position] = gradient
    for entity in tails:
        if place[entity] >= 0:
            answer = np.exp(float(scores[place[entity]]) - highest)
            grads[place[entity]] -= each * mass / (mass + answer)
    return value / len(tails) * weight, shared

"""States of the entities that a question's messages reach, and their scores."""

from __future__ import annotations

import numpy as np
from numba import njit

from tuckerkg.kernels.questions.vector_rows import fill, lanes, larger, load, scaled, smaller, store, total

EPSILON = 1e-5  # of LayerNorm


@njit(nogil=True, inline="always")
def _aggregate(width, space, relations, layer_base, states_base, position, sent):
    """Sum, largest and smallest message of one entity. ``sent``: how many entities send in this layer."""
    d = lanes(width)
    like = space.states
    summed, top, bottom = fill(width, like, 0), fill(width, like, -np.inf), fill(width, like, np.inf)
    arrived = False
    run = space.run_starts[position]
    edge = 0 if run == 0 else space.run_ends[run - 1]
    while run < space.run_starts[position + 1]:
        end = space.run_ends[run]
        part, high, low = fill(width, like, 0), fill(width, like, -np.inf), fill(width, like, np.inf)
        some = False
        while edge < end:
            source = space.sources[edge]
            if source < sent:
                row = load(width, space.states, (states_base + source) * d)
                part, high, low = part + row, larger(row, high), smaller(row, low)
                some = True
            edge += 1
        if some:
            # A factor of either sign: the largest product is that of the largest or of the smallest state.
            weight = load(width, relations, layer_base + space.relations[run] * d)
            summed = summed + weight * part  # Eq. (7)
            high, low = weight * high, weight * low
            top, bottom = larger(top, larger(high, low)), smaller(bottom, smaller(high, low))
            arrived = True
        run += 1
    if not arrived:
        top, bottom = fill(width, like, 0), fill(width, like, 0)
    return summed, top, bottom


@njit(nogil=True)
def mix_weights(width, weights, space, layer, asked):
    """The layer's matrix with the rows of W_a multiplied by the question's gate, ``g = 1 + G e_q``."""
    d = lanes(width)
    query = load(width, weights.queries, asked * d)
    for row in range(4 * d):
        value = load(width, weights.mix, (layer * 4 * d + row) * d)
        if row < d:
            value = scaled(value, 1 + total(load(width, weights.gate, (layer * d + row) * d) * query))
        store(space.mixed, row * d, value)


@njit(nogil=True)
def forward(width, weights, space, asked, table, layers):
    """Fill the states of every level. ``table``: where the question's table of relations begins."""
    d = lanes(width)
    like = weights.queries
    query = load(width, weights.queries, asked * d)
    store(space.states, 0, query)
    for layer in range(layers):
        mix_weights(width, weights, space, layer, asked)
        sent, received = space.counts[layer], space.counts[layer + 1]
        below, above = space.bases[layer], space.bases[layer + 1]
        for position in range(received):
            summed, top, bottom = _aggregate(
                width, space, weights.relations, table + layer * len(weights.queries), below, position, sent
            )
            summed = scaled(summed, space.scale[position])
            if position == 0:
                summed = summed + query
            at = (above + position) * 3 * d
            store(space.inputs, at, summed)
            store(space.inputs, at + d, top)
            store(space.inputs, at + 2 * d, bottom)
        bias, gain = load(width, weights.bias, layer * d), load(width, weights.gain, layer * d)
        shift, nothing = load(width, weights.shift, layer * d), fill(width, like, 0)
        position = 0
        while position < received:  # two rows at a time: each row of the matrix is loaded once for both
            other = min(position + 1, received - 1)
            left, right = bias, bias
            at, beside = (above + position) * 3 * d, (above + other) * 3 * d
            for k in range(3 * d):
                row = load(width, space.mixed, k * d)
                left, right = left + scaled(row, space.inputs[at + k]), right + scaled(row, space.inputs[beside + k])
            if position < sent:
                at, beside = (below + position) * d, (below + other) * d
                for k in range(d):
                    row = load(width, space.mixed, (3 * d + k) * d)
                    left = left + scaled(row, space.states[at + k])
                    if other < sent:
                        right = right + scaled(row, space.states[beside + k])
            for which in range(2 if other > position else 1):
                place = other if which else position
                value = right if which else left
                value = value - fill(width, like, total(value) / d)
                deviation = 1 / np.sqrt(total(value * value) / d + EPSILON)
                value = scaled(value, deviation)
                store(space.normal, (above + place) * d, value)
                space.deviation[above + place] = deviation
                value = larger(value * gain + shift, nothing)
                if place < sent:
                    value = value + load(width, space.states, (below + place) * d)
                store(space.states, (above + place) * d, value)
            position += 2


@njit(nogil=True)
def score(width, weights, space, asked, layers):
    """Scores of the reached entities, in their order; returns that of the others."""
    d = lanes(width)
    like = weights.queries
    left, right = load(width, weights.up_bias, 0), load(width, weights.up_bias, d)
    for k in range(d):
        number = weights.queries[asked * d + k]
        left = left + scaled(load(width, weights.up_query, 2 * k * d), number)
        right = right + scaled(load(width, weights.up_query, (2 * k + 1) * d), number)
    store(space.asked, 0, left)
    store(space.asked, d, right)
    down_left, down_right, nothing = load(width, weights.down, 0), load(width, weights.down, d), fill(width, like, 0)
    base, count = space.bases[layers], space.counts[layers]
    for position in range(0, count, 2):
        other = min(position + 1, count - 1)
        first, second, third, fourth = left, right, left, right
        at, beside = (base + position) * d, (base + other) * d
        for k in range(d):
            up_left, up_right = load(width, weights.up, 2 * k * d), load(width, weights.up, (2 * k + 1) * d)
            first, second = (
                first + scaled(up_left, space.states[at + k]),
                second + scaled(up_right, space.states[at + k]),
            )
            third = third + scaled(up_left, space.states[beside + k])
            fourth = fourth + scaled(up_right, space.states[beside + k])
        space.scores[position] = total(larger(first, nothing) * down_left + larger(second, nothing) * down_right)
        space.scores[other] = total(larger(third, nothing) * down_left + larger(fourth, nothing) * down_right)
    return total(larger(left, nothing) * down_left + larger(right, nothing) * down_right)

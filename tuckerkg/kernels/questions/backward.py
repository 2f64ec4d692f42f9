"""Gradients of a question's loss."""

from __future__ import annotations

from numba import njit

from tuckerkg.kernels.questions.forward import mix_weights
from tuckerkg.kernels.questions.vector_rows import (
    divided,
    fill,
    lanes,
    larger,
    load,
    scaled,
    store,
    total,
    where_equal,
    where_larger,
)


@njit(nogil=True)
def _score_backward(width, weights, grads, space, layers, shared):
    """Gradients of the MLP and of the last states."""
    d = lanes(width)
    like = weights.queries
    nothing = fill(width, like, 0)
    for k in range(d):
        for j in range(2 * d):
            space.turned[j * d + k] = weights.up[k * 2 * d + j]
    left, right = load(width, space.asked, 0), load(width, space.asked, d)
    down_left, down_right = load(width, weights.down, 0), load(width, weights.down, d)
    asked_left = scaled(where_larger(left, nothing, down_left), shared)
    asked_right = scaled(where_larger(right, nothing, down_right), shared)
    grad_left = load(width, grads.down, 0) + scaled(larger(left, nothing), shared)
    grad_right = load(width, grads.down, d) + scaled(larger(right, nothing), shared)
    base = space.bases[layers]
    for position in range(space.counts[layers]):
        gradient = space.score_grads[position]
        if gradient == 0.0:
            continue
        at = (base + position) * d
        first, second = left, right
        for k in range(d):
            number = space.states[at + k]
            first = first + scaled(load(width, weights.up, 2 * k * d), number)
            second = second + scaled(load(width, weights.up, (2 * k + 1) * d), number)
        grad_left = grad_left + scaled(larger(first, nothing), gradient)
        grad_right = grad_right + scaled(larger(second, nothing), gradient)
        first = scaled(where_larger(first, nothing, down_left), gradient)
        second = scaled(where_larger(second, nothing, down_right), gradient)
        asked_left, asked_right = asked_left + first, asked_right + second
        store(space.small, 0, first)
        store(space.small, d, second)
        below, beside = nothing, nothing
        for k in range(d):
            number = space.states[at + k]
            at_left, at_right = 2 * k * d, (2 * k + 1) * d
            store(grads.up, at_left, load(width, grads.up, at_left) + scaled(first, number))
            store(grads.up, at_right, load(width, grads.up, at_right) + scaled(second, number))
            below = below + scaled(load(width, space.turned, k * d), space.small[k])
            beside = beside + scaled(load(width, space.turned, (d + k) * d), space.small[d + k])
        store(space.grads, at, below + beside)
        space.touched[base + position] = 1
    store(grads.down, 0, grad_left)
    store(grads.down, d, grad_right)
    store(space.asked_grads, 0, asked_left)
    store(space.asked_grads, d, asked_right)
    store(grads.up_bias, 0, load(width, grads.up_bias, 0) + asked_left)
    store(grads.up_bias, d, load(width, grads.up_bias, d) + asked_right)


@njit(nogil=True, inline="always")
def _edges_backward(width, space, relations, relation_grads, edge_grads, layer, layer_base, below, position, at, sent):
    """Carry the gradients of one entity's sum, largest and smallest message to their sources and relations.

    ``space.small`` holds the three gradients; equal messages share that of a maximum or minimum.
    """
    d, like = lanes(width), space.states
    summed = load(width, space.small, 0)
    top, bottom = load(width, space.inputs, at + d), load(width, space.inputs, at + 2 * d)
    one, highest, lowest = fill(width, like, 1), fill(width, like, 0), fill(width, like, 0)
    first_run, end_run = space.run_starts[position], space.run_starts[position + 1]
    first_edge = 0 if first_run == 0 else space.run_ends[first_run - 1]
    edge = first_edge
    for run in range(first_run, end_run):
        weight = load(width, relations, layer_base + space.relations[run] * d)
        while edge < space.run_ends[run]:
            source = space.sources[edge]
            if source < sent:
                message = weight * load(width, space.states, (below + source) * d)
                highest = highest + where_equal(message, top, one)
                lowest = lowest + where_equal(message, bottom, one)
            edge += 1
    # Where a message arrived, at least one is equal to the largest.
    of_top = divided(load(width, space.small, d), larger(highest, one))
    of_bottom = divided(load(width, space.small, 2 * d), larger(lowest, one))
    edge = first_edge
    for run in range(first_run, end_run):
        at_relation = layer_base + space.relations[run] * d
        weight, gradient, some = load(width, relations, at_relation), fill(width, like, 0), False
        while edge < space.run_ends[run]:
            source = space.sources[edge]
            if source < sent:
                row = load(width, space.states, (below + source) * d)
                message = weight * row
                pull = summed + where_equal(message, top, of_top) + where_equal(message, bottom, of_bottom)
                at_source = (below + source) * d
                store(space.grads, at_source, load(width, space.grads, at_source) + pull * weight)
                gradient = gradient + pull * row
                space.touched[below + source] = 1
                some = True
                if len(edge_grads):
                    edge_grads[layer, edge] = total(pull * message)
            edge += 1
        if some:
            store(relation_grads, at_relation, load(width, relation_grads, at_relation) + gradient)


@njit(nogil=True)
def _layer_backward(width, weights, grads, edge_grads, own_grads, space, table, layer):
    """Gradients of one layer, from those of the states above it; returns the gradient of the question's own message."""
    d = lanes(width)
    like = weights.queries
    nothing, message_grad = fill(width, like, 0), fill(width, like, 0)
    sent, received = space.counts[layer], space.counts[layer + 1]
    below, above = space.bases[layer], space.bases[layer + 1]
    for k in range(4 * d):
        store(space.mixed_grads, k * d, nothing)
        for j in range(d):
            space.turned[j * 4 * d + k] = space.mixed[k * d + j]
    gain, shift = load(width, weights.gain, layer * d), load(width, weights.shift, layer * d)
    of_bias, of_gain, of_shift = nothing, nothing, nothing
    layer_base = table + layer * len(weights.queries)
    position, pending = 0, -1
    while position <= received:
        if position < received and not space.touched[above + position]:
            position += 1
            continue
        if position < received:
            upper = load(width, space.grads, (above + position) * d)
            normal = load(width, space.normal, (above + position) * d)
            value = where_larger(normal * gain + shift, nothing, upper)
            of_gain, of_shift = of_gain + value * normal, of_shift + value
            value = value * gain
            value = value - fill(width, like, total(value) / d) - scaled(normal, total(value * normal) / d)
            value = scaled(value, space.deviation[above + position])
            of_bias = of_bias + value
            slot = 4 * d if pending < 0 else 5 * d
            store(space.small, slot, value)
            first, second, third, fourth = nothing, nothing, nothing, nothing
            for j in range(d):
                number = space.small[slot + j]
                first = first + scaled(load(width, space.turned, j * 4 * d), number)
                second = second + scaled(load(width, space.turned, (j * 4 + 1) * d), number)
            for j in range(d):
                number = space.small[slot + j]
                third = third + scaled(load(width, space.turned, (j * 4 + 2) * d), number)
                fourth = fourth + scaled(load(width, space.turned, (j * 4 + 3) * d), number)
            if position == 0:
                message_grad = first
            if position < sent:
                at = (below + position) * d
                store(space.grads, at, load(width, space.grads, at) + upper + fourth)
                if len(own_grads):
                    own_grads[layer, position] = total((upper + fourth) * load(width, space.states, at))
                space.touched[below + position] = 1
            store(space.small, 0, scaled(first, space.scale[position]))
            store(space.small, d, second)
            store(space.small, 2 * d, third)
            _edges_backward(
                width, space, weights.relations, grads.relations, edge_grads, layer, layer_base, below, position,
                (above + position) * 3 * d, sent,
            )  # fmt: skip
        if pending >= 0:  # two rows at a time: each row of the gradient is loaded and stored once for both
            _outer(width, space, pending, position if position < received else -1, below, above, sent)
            pending = -1
        else:
            pending = position
        position += 1
    store(grads.bias, layer * d, load(width, grads.bias, layer * d) + of_bias)
    store(grads.gain, layer * d, load(width, grads.gain, layer * d) + of_gain)
    store(grads.shift, layer * d, load(width, grads.shift, layer * d) + of_shift)
    return message_grad


@njit(nogil=True, inline="always")
def _outer(width, space, left, right, below, above, sent):
    """Add inputs times gradients of the rows ``left`` and, unless negative, ``right`` to the gradient of the matrix."""
    d, like = lanes(width), space.states
    left_grad, right_grad = load(width, space.small, 4 * d), load(width, space.small, 5 * d)
    if right < 0:
        right, right_grad = left, fill(width, like, 0)
    at, beside = (above + left) * 3 * d, (above + right) * 3 * d
    for k in range(3 * d):
        row = load(width, space.mixed_grads, k * d)
        row = row + scaled(left_grad, space.inputs[at + k]) + scaled(right_grad, space.inputs[beside + k])
        store(space.mixed_grads, k * d, row)
    at, beside = (below + left) * d, (below + right) * d
    for k in range(d):
        row = load(width, space.mixed_grads, (3 * d + k) * d)
        if left < sent:
            row = row + scaled(left_grad, space.states[at + k])
        if right < sent:
            row = row + scaled(right_grad, space.states[beside + k])
        store(space.mixed_grads, (3 * d + k) * d, row)


@njit(nogil=True)
def backward(width, weights, grads, edge_grads, own_grads, space, asked, table, layers, shared):
    """Add the gradients of a question's loss to ``grads``; ``space.score_grads`` and ``shared`` are those of scores.

    Unless they are empty, ``edge_grads [L, edges]`` receives the gradient of a factor 1 of each edge's message, by
    layer, and ``own_grads [L, entities]`` that of a factor 1 of each entity's own state.
    """
    d = lanes(width)
    like = weights.queries
    rows = space.bases[layers + 1]
    space.grads[: rows * d] = 0
    space.touched[:rows] = 0
    _score_backward(width, weights, grads, space, layers, shared)
    query, query_grad = load(width, weights.queries, asked * d), fill(width, like, 0)
    for layer in range(layers - 1, -1, -1):
        mix_weights(width, weights, space, layer, asked)
        query_grad = query_grad + _layer_backward(width, weights, grads, edge_grads, own_grads, space, table, layer)
        for k in range(4 * d):
            at = (layer * 4 * d + k) * d
            gradient = load(width, space.mixed_grads, k * d)
            if k < d:
                gate = load(width, weights.gate, (layer * d + k) * d)
                gate_grad = total(gradient * load(width, weights.mix, at))
                query_grad = query_grad + scaled(gate, gate_grad)
                at_gate = (layer * d + k) * d
                store(grads.gate, at_gate, load(width, grads.gate, at_gate) + scaled(query, gate_grad))
                gradient = scaled(gradient, 1 + total(gate * query))
            store(grads.mix, at, load(width, grads.mix, at) + gradient)
    query_grad = query_grad + load(width, space.grads, 0)
    left, right = load(width, space.asked_grads, 0), load(width, space.asked_grads, d)
    for k in range(d):
        number = weights.queries[asked * d + k]
        at_left, at_right = 2 * k * d, (2 * k + 1) * d
        up_left, up_right = load(width, weights.up_query, at_left), load(width, weights.up_query, at_right)
        space.small[k] = total(up_left * left) + total(up_right * right)
        store(grads.up_query, at_left, load(width, grads.up_query, at_left) + scaled(left, number))
        store(grads.up_query, at_right, load(width, grads.up_query, at_right) + scaled(right, number))
    query_grad = query_grad + load(width, space.small, 0)
    store(grads.queries, asked * d, load(width, grads.queries, asked * d) + query_grad)

"""What compiled code works on: weights, and the memory of one thread."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tuckerkg.graph.in_edges import InEdges

Array = np.ndarray


class Shape(NamedTuple):
    """What the compiled code must know of a model besides its weights."""

    width: int  # features d, a power of two from 4 on
    layers: int  # how many steps messages go
    power: float  # the sum over an entity's in-edges is multiplied by ``degree ** -power``


class Weights(NamedTuple):
    """Parameters, or their gradients, each as a flat array. d features, L layers, hidden width 2d."""

    queries: Array  # [2R, d] e_q
    relations: Array  # [L, 2R, d] w_r, or [T, L, 2R, d] where questions have tables of their own
    mix: Array  # [L, 4d, d] W_a, W_x, W_n, W_0
    bias: Array  # [L, d]
    gain: Array  # [L, d] of LayerNorm
    shift: Array  # [L, d]
    gate: Array  # [L, d, d]
    up: Array  # [d, 2d]
    up_query: Array  # [d, 2d]
    up_bias: Array  # [2d]
    down: Array  # [2d]


class Space(NamedTuple):
    """Memory of one thread, used again for every question; a level is the states before a layer or after the last."""

    place: Array  # [N] int32, position of an entity in the order of the search, -1 where it was not reached
    watched: Array  # [N] uint8, targets with hidden in-edges
    order: Array  # [N] int32
    counts: Array  # [L + 1] int64, entities reached within so many steps
    bases: Array  # [L + 2] int64, first row of each level
    scale: Array  # [N] what sums are multiplied by
    run_starts: Array  # [N + 1] int64, local
    relations: Array  # [K] int32
    run_ends: Array  # [K] int64
    sources: Array  # [E] int32, local
    states: Array  # [rows, d]
    inputs: Array  # [rows, 3d] sum, largest, smallest message
    normal: Array  # [rows, d] normalized
    deviation: Array  # [rows] one over the standard deviation
    grads: Array  # [rows, d] of the states
    touched: Array  # [rows] uint8, rows with a gradient
    mixed: Array  # [4d, d] W_a gated, W_x, W_n, W_0 of a layer
    turned: Array  # [d, 4d] the same transposed, or [2d, d] of the MLP
    mixed_grads: Array  # [4d, d]
    asked: Array  # [2d] the question's part of the MLP
    asked_grads: Array  # [2d]
    small: Array  # [8, d]
    scores: Array  # [N]
    score_grads: Array  # [N]


def new_space(edges: InEdges, shape: Shape, rows: int, dtype: np.dtype[Any]) -> Space:
    """Memory for questions that reach up to ``rows`` entities, those of every level counted."""
    d, layers, entities = shape.width, shape.layers, edges.num_entities
    num_edges, runs = len(edges.sources), len(edges.run_relations)

    def numbers(size: int) -> np.ndarray:
        return np.empty(size, dtype)

    return Space(
        place=np.full(entities, -1, np.int32),
        watched=np.zeros(entities, np.uint8),
        order=np.empty(entities, np.int32),
        counts=np.zeros(layers + 1, np.int64),
        bases=np.zeros(layers + 2, np.int64),
        scale=numbers(entities),
        run_starts=np.empty(entities + 1, np.int64),
        relations=np.empty(runs, np.int32),
        run_ends=np.empty(runs, np.int64),
        sources=np.empty(num_edges + 1, np.int32),
        states=numbers(rows * d),
        inputs=numbers(rows * 3 * d),
        normal=numbers(rows * d),
        deviation=numbers(rows),
        grads=numbers(rows * d),
        touched=np.empty(rows, np.uint8),
        mixed=numbers(4 * d * d),
        turned=numbers(4 * d * d),
        mixed_grads=numbers(4 * d * d),
        asked=numbers(2 * d),
        asked_grads=numbers(2 * d),
        small=numbers(6 * d),
        scores=numbers(entities),
        score_grads=np.empty(entities, np.float64),
    )

"""Numbers that look random and depend on nothing but what is hashed, and random orders that take no memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# Odd constants of SplitMix64 (Steele, Lea and Flood, 2014).
GAMMA, MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
ROUNDS = 6  # of the Feistel network

Numbers = npt.NDArray[np.uint64]


def mixed(state: Numbers) -> Numbers:
    """Numbers of 64 bits, each to one that tells nothing of its neighbours'."""
    state = (state ^ (state >> np.uint64(30))) * MIX_1
    state = (state ^ (state >> np.uint64(27))) * MIX_2
    return np.asarray(state ^ (state >> np.uint64(31)))


def key_of(*numbers: int) -> np.uint64:
    """One number for several that are not negative, such as a seed and a step."""
    state = np.zeros(1, np.uint64)
    for number in numbers:
        state = mixed(state + GAMMA + np.uint64(number))
    return np.uint64(state[0])


def permuted(
    places: npt.NDArray[np.integer[Any]], sizes: int | npt.NDArray[np.integer[Any]], keys: np.uint64 | Numbers
) -> npt.NDArray[np.int64]:
    """What stands at ``places`` of a random order of ``0 ... size - 1``, without making the order.

    A Feistel network permutes the next power of four; what falls outside goes through it again, four times at most on
    average. Each place may have a size and a key of its own.

    Args:
        places: ``[n]``, each below its size.
        sizes: of the orders.
        keys: one order for each key.
    """
    count = len(places)
    value = places.astype(np.uint64)
    limits = np.broadcast_to(np.asarray(sizes, np.uint64), count)
    key = np.broadcast_to(np.asarray(keys, np.uint64), count)
    bits = np.ceil(np.log2(np.maximum(limits, 2).astype(np.float64)))
    half = np.ceil(bits / 2).astype(np.uint64)
    left_over = np.arange(count)
    while len(left_over):
        found = _feistel(value[left_over], half[left_over], key[left_over])
        value[left_over] = found
        left_over = left_over[found >= limits[left_over]]
    return value.astype(np.int64)


def _feistel(value: Numbers, half: Numbers, key: Numbers) -> Numbers:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = value >> half, value & mask
    for number in np.arange(1, ROUNDS + 1, dtype=np.uint64) * GAMMA:
        turned = mixed(right + key + number) & mask
        left, right = right, left ^ turned
    return np.asarray(left << half | right)

"""Batches from the worker are those of the plain call, in whatever order they are asked for."""

from __future__ import annotations

import pytest
import torch
from graphs import random_triples

from tuckerkg.ahead import Ahead
from tuckerkg.batches import BATCHES, TrainingGraph

GRAPH = TrainingGraph(random_triples(0, 30, 4, 200), 30, 4, seed=7)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("steps", [[0, 1, 2], [5, 6, 2, 3]], ids=["through", "resumed"])
def test_the_worker_makes_the_same_batches(name, steps):
    options = {"subgraph": {"triples": 80, "positives": 20}, "whole": {"queries": 16, "remove_own_edges": True}}[name]
    plain = BATCHES[name](GRAPH, **options)
    with Ahead(BATCHES[name](GRAPH, **options), total_steps=8) as ahead:
        for step in steps:
            mine, other = ahead.batch(step), plain.batch(step)
            assert torch.equal(mine.heads, other.heads)
            assert torch.equal(mine.positives, other.positives)
            assert torch.equal(mine.graph.scatter.forward.weights, other.graph.scatter.forward.weights)


def test_threads_of_the_caller_stay_as_they_were():
    before = torch.get_num_threads()
    with Ahead(BATCHES["whole"](GRAPH), 2) as ahead:
        ahead.batch(0)
        assert torch.get_num_threads() == before
    assert torch.get_num_threads() == before


def test_an_error_in_the_worker_reaches_the_caller():
    class Broken:
        steps_per_epoch = 1

        def batch(self, step):
            raise ValueError(f"step {step}")

    with Ahead(Broken(), 3) as ahead, pytest.raises(ValueError, match="step 1"):
        ahead.batch(1)


def test_nothing_is_prepared_beyond_the_last_step():
    asked = []

    class Counting:
        steps_per_epoch = 1

        def batch(self, step):
            asked.append(step)

    with Ahead(Counting(), 2) as ahead:
        ahead.batch(0)
        ahead.batch(1)
    assert asked == [0, 1]

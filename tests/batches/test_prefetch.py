"""Batches from the worker are those of the plain call, in whatever order they are asked for."""

from __future__ import annotations

import os

import pytest
import torch
from graphs import random_triples

from tuckerkg.batches import BATCHES
from tuckerkg.batches.batch import TrainingGraph
from tuckerkg.batches.prefetch import Prefetch

GRAPH = TrainingGraph(random_triples(0, 30, 4, 200), 30, 4, seed=7)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("steps", [[0, 1, 2], [5, 6, 2, 3]], ids=["through", "resumed"])
def test_the_worker_makes_the_same_batches(name, steps):
    options = {"subgraph": {"triples": 80, "positives": 20}, "whole": {"queries": 16, "remove_own_edges": True}}[name]
    plain = BATCHES[name](GRAPH, **options)
    with Prefetch(BATCHES[name](GRAPH, **options), 8, "on") as ahead, Prefetch(plain, 8, "off") as inline:
        for step in steps:
            mine, other = ahead.batch(step), inline.batch(step)
            assert torch.equal(mine.heads, other.heads)
            assert torch.equal(mine.positives, other.positives)
            assert torch.equal(mine.graph.scatter.forward.weights, other.graph.scatter.forward.weights)
            assert torch.equal(mine.graph.in_weight, other.graph.in_weight)


def test_threads_of_the_caller_stay_as_they_were():
    before = torch.get_num_threads()
    with Prefetch(BATCHES["whole"](GRAPH), 2, "on") as ahead:
        ahead.batch(0)
        assert torch.get_num_threads() == before
    assert torch.get_num_threads() == before


def test_f21_an_error_in_the_worker_reaches_the_caller():
    class Broken:
        steps_per_epoch = 1

        def batch(self, step):
            raise ValueError(f"step {step}")

    with Prefetch(Broken(), 3, "on") as ahead, pytest.raises(ValueError, match="step 1"):
        ahead.batch(1)


def test_nothing_is_prepared_beyond_the_last_step():
    asked = []

    class Counting:
        steps_per_epoch = 1

        def batch(self, step):
            asked.append(step)

    with Prefetch(Counting(), 2, "on") as ahead:
        ahead.batch(0)
        ahead.batch(1)
    assert asked == [0, 1]


def test_the_number_of_threads_does_not_change_a_batch():
    """So a run may be resumed with or without the worker."""
    large = TrainingGraph(random_triples(1, 3_000, 9, 60_000), 3_000, 9, seed=1)
    batches, before = BATCHES["subgraph"](large, triples=40_000), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(batches.batch(3))
    finally:
        torch.set_num_threads(before)
    one, two = found
    for name in ("in_weight", "out_degree", "multiplicity"):
        assert torch.equal(getattr(one.graph, name), getattr(two.graph, name))
    for mine, other in ((one.graph.scatter, two.graph.scatter), (one.graph.gather, two.graph.gather)):
        assert torch.equal(mine.transposed.columns, other.transposed.columns)
        assert torch.equal(mine.forward.columns, other.forward.columns)
    assert torch.equal(one.graph.scatter.forward.weights, two.graph.scatter.forward.weights)
    assert torch.equal(one.groups.position, two.groups.position)


def test_auto_uses_a_worker_only_where_a_core_is_free(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    for threads, expected in ((1, True), (2, torch.cuda.is_available())):
        monkeypatch.setattr(torch, "get_num_threads", lambda count=threads: count)
        with Prefetch(BATCHES["whole"](GRAPH), 2) as ahead:
            assert (ahead._worker is not None) == expected
        monkeypatch.undo()
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)

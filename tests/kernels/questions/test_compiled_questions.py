"""Compiled questions: distances, traces, rounded gradients, the same bits on any threads, memory used again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graphs import random_triples
from path_questions import (
    GRAPHS,
    N,
    R,
    asking,
    assert_same,
    edges_of,
    every_question,
    gradients,
    naive_scores,
    path_model,
    questions_about,
)

from tuckerkg.kernels.questions import graph as question_graph


@pytest.fixture
def threads():
    """Sets how many threads there are, for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_distances_count_edges():
    chain = np.array([[i, 0, i + 1] for i in range(5)])
    graph = path_model(N, R).message_graph(chain)
    heads, tails = np.array([0, 0, 4, 2, 0, 5]), np.array([0, 3, 1, 8, 5, 0])
    assert graph.distances(heads, tails, 4).tolist() == [0, 3, 3, -1, -1, -1]


def test_a_trace_has_the_gradient_of_every_message():
    """Each edge's message is multiplied by a factor near 1, which changes the score of the loop."""
    triples, model = random_triples(4, 6, R, 14), path_model(N, R, layers=2)
    head, asked, tail = int(triples[0, 0]), 1, int(triples[0, 2])
    trace = model.message_graph(triples).trace(model.shape, model.arrays(torch.tensor([asked])), (head, asked, tail))
    edges, step, some = edges_of(triples, R), 1e-6, 0
    columns = trace.sources.tolist(), trace.relations.tolist(), trace.targets.tolist()
    found = dict(zip(zip(*columns, strict=True), trace.gradients.T, strict=True))
    assert set(found) <= set(edges)
    for edge in edges:
        for layer in range(2):
            more, less = (
                naive_scores(model, edges, head, asked, N, {(layer, edge): factor})[tail]
                for factor in (1 + step, 1 - step)
            )
            expected = (more - less) / (2 * step)
            gradient = found[edge][layer] if edge in found else 0.0
            assert gradient == pytest.approx(expected, rel=1e-5, abs=1e-8)
            some += abs(expected) > 1e-6
    assert some > 5


# ---------------------------------------------------------------------------------------------------- rounding


def test_small_gradients_are_rounded_without_bias():
    triples = random_triples(5, 30, R, 90)
    model = path_model(30, R, layers=2)
    graph, rows = model.message_graph(triples), [(0, 1, [4], [7]), (3, 4, [9, 11], [])]
    exact = _joined(gradients(model, model.loss(graph, asking(rows), hide="own")))
    drawn = torch.stack(
        [
            _joined(gradients(model, model.loss(graph, asking(rows, seed), hide="own", least_gradient=0.2)))
            for seed in range(600)
        ]
    )
    directions = torch.from_numpy(np.random.default_rng(0).standard_normal((len(exact), 12))) / len(exact) ** 0.5
    found = drawn @ directions  # [600, 12]
    error = (found.mean(0) - exact @ directions).abs() / (found.std(0) / len(found) ** 0.5)
    assert found.std(0).min() > 0
    assert error.max() < 4.0
    value = model.loss(graph, asking(rows), hide="own")
    assert model.loss(graph, asking(rows, 3), hide="own", least_gradient=0.2).item() == value.item()


def test_gradients_above_the_least_are_exact():
    triples = GRAPHS["dense"]
    model, questions = path_model(N, R), questions_about(triples, R)
    graph = model.message_graph(triples)
    plain = gradients(model, model.plain_loss(graph.edges, questions, False))
    for least in (0.0, 1e-12):
        assert_same(gradients(model, model.loss(graph, questions, hide="own", least_gradient=least)), plain)


def test_rounding_depends_on_the_seed_of_the_questions_alone():
    triples = GRAPHS["dense"]
    model = path_model(N, R)
    graph = model.message_graph(triples)
    first, again, other = (
        _joined(
            gradients(
                model, model.loss(graph, questions_about(triples, R, 6, seed=0), hide="own", least_gradient=least)
            )
        )
        for least in (0.5, 0.5, 0.4)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def _joined(found: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([gradient.flatten() for gradient in found.values()])


# ---------------------------------------------------------------------------------------------------- threads, memory


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("core", "counts"), [("cp", (1, 2, 3)), ("question", (2, 2)), ("question", (3, 3))])
def test_the_same_bits_for_the_same_threads_and_compiled_whatever_the_threads(threads, dtype, core, counts):
    triples = random_triples(6, 40, R, 150)
    model, questions = path_model(40, R, dtype=dtype, core=core), questions_about(triples, R, 37)
    graph, found = model.message_graph(triples), []
    for count in counts:
        threads(count)
        value = model.loss(graph, questions, hide="own", least_gradient=0.01)
        found.append([model.scores(graph, *every_question(40)), value.detach(), *gradients(model, value).values()])
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))


@pytest.mark.parametrize("room", [1, 9, 30])
def test_questions_that_need_more_memory_than_there_is_get_it(monkeypatch, threads, room):
    triples = random_triples(6, 40, R, 60)
    model, questions = path_model(40, R, core="cp"), questions_about(triples, R, 37)
    found = []
    for number in (question_graph.ROOM, room):
        monkeypatch.setattr(question_graph, "ROOM", number)
        threads(1 if number == room else 2)
        graph = model.message_graph(triples)
        value = model.loss(graph, questions, hide="own")
        found.append([model.scores(graph, *every_question(40)), value.detach(), *gradients(model, value).values()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_memory_that_was_used_before_changes_nothing():
    """Training and answering share it, and questions of all sizes follow one another."""
    triples = random_triples(7, 40, R, 70)
    model, questions = path_model(40, R), questions_about(triples, R, 20)
    used = model.message_graph(triples)
    for hide in ("pair", "own"):
        model.loss(used, questions, hide=hide)
        model.scores(used, *every_question(40))
    fresh = model.message_graph(triples)
    value, expected = (model.loss(graph, questions, hide="own") for graph in (used, fresh))
    assert torch.equal(value, expected)
    assert torch.equal(model.scores(used, *every_question(40)), model.scores(fresh, *every_question(40)))

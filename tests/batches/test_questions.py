"""Training questions: every fact once an epoch in each direction, the same for the same (seed, step)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from graphs import random_triples
from path_questions import edges_of

from tuckerkg.batches.questions import QuestionBatches

N, R = 12, 3
TRIPLES = random_triples(0, N, R, 60)
EDGES = edges_of(TRIPLES, R)


def batches(questions: int = 16, seed: int = 5, answers: float = 0.0) -> QuestionBatches:
    return QuestionBatches(TRIPLES, N, R, seed, questions=questions, answers=answers)


def asked_in(batch) -> list[tuple[int, int, int]]:
    """Head, relation and answer of questions with one answer each."""
    questions = batch.questions
    assert all(len(questions.answers(row)) == 1 for row in range(len(questions.heads)))
    columns = questions.heads, questions.relations, questions.tails
    return list(zip(*(column.tolist() for column in columns), strict=True))


def known_to(head: int, relation: int) -> set[int]:
    return {t for h, r, t in EDGES if (h, r) == (head, relation)}


@pytest.mark.parametrize("size", [1, 16, len(EDGES), 10_000])
def test_an_epoch_asks_for_every_fact_once_in_each_direction(size):
    made = batches(size)
    steps = made.steps_per_epoch
    assert steps == -(-len(EDGES) // size)
    for epoch in (0, 2):
        asked = [fact for step in range(steps) for fact in asked_in(made.batch(epoch * steps + step))]
        assert Counter(asked) == Counter(EDGES)
    assert len(asked_in(made.batch(0))) == min(size, len(EDGES))


def test_a_batch_is_a_function_of_seed_and_step():
    one, other = batches(answers=0.3), batches(answers=0.3)
    for step in (9, 0, 30, 1):  # in any order
        mine = one.batch(step).questions
        for theirs in (other.batch(step).questions, one.batch(step).questions):
            assert mine.seed == theirs.seed
            for name in ("heads", "relations", "tail_starts", "tails", "known_starts", "known"):
                assert np.array_equal(getattr(mine, name), getattr(theirs, name)), name
    plain = batches()
    assert asked_in(batches(seed=6).batch(0)) != asked_in(plain.batch(0))
    assert asked_in(plain.batch(plain.steps_per_epoch)) != asked_in(plain.batch(0))  # shuffled again


def test_rounding_is_seeded_by_seed_and_step():
    seeds = [batches(seed=seed).batch(step).questions.seed for seed in (5, 6) for step in range(20)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_other_answers_are_those_that_training_knows():
    made, some = batches(), 0
    for step in range(made.steps_per_epoch):
        questions = made.batch(step).questions
        for row, (head, relation, tail) in enumerate(asked_in(made.batch(step))):
            known = known_to(head, relation)
            assert sorted(questions.other_answers(row).tolist()) == sorted(known - {tail})
            some += len(known) > 1
    assert some > 10


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_a_share_of_the_other_answers_is_asked_for_too(share):
    made, asked, others = batches(answers=share), 0, 0
    for step in range(4 * made.steps_per_epoch):
        questions, own = made.batch(step).questions, batches().batch(step).questions
        assert np.array_equal(questions.heads, own.heads)
        for row, (head, relation) in enumerate(
            zip(questions.heads.tolist(), questions.relations.tolist(), strict=True)
        ):
            answers, left = questions.answers(row).tolist(), questions.other_answers(row).tolist()
            assert sorted(answers + left) == sorted(known_to(head, relation))
            assert own.answers(row)[0] in answers
            asked += len(answers) - 1
            others += len(answers) + len(left) - 1
    assert others > 400
    assert asked / others == pytest.approx(share, abs=0.08)


def test_what_the_loop_asks_of_a_batch():
    made = batches()
    batch = made.batch(3)
    assert torch.equal(batch.heads, torch.from_numpy(batch.questions.heads))
    assert batch.to("cpu") is batch
    assert batch.graph is made.graph
    assert sorted(map(tuple, batch.graph.edges.triples().tolist())) == sorted(EDGES)

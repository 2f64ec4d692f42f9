"""What the graph says of a question, against counting by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from graphs import random_triples

from tuckerkg.graph.type_constraints import plausible_questions
from tuckerkg.probability.features import BINS, GraphFacts, of_share, share_columns

N, R = 12, 3
TRIPLES = random_triples(1, N, R, 60)
SEEN, HELD = TRIPLES[:35], TRIPLES[35:45]


def by_hand(seen, held, fact, single, plausible, expected):
    """The graph's features of the tail and of the head question of ``fact``."""
    h, r, t = fact
    rows = []
    for anchor, relation, answer in ((h, r, t), (t, r + R, h)):

        def answers(triples, anchor=anchor, relation=relation):
            if relation < R:
                return {c for a, b, c in triples.tolist() if (a, b) == (anchor, relation)}
            return {a for a, b, c in triples.tolist() if (c, b) == (anchor, relation - R)}

        known = len(answers(seen) - {answer})
        has, has_held = float(known > 0), float(len(answers(held) - {answer}) > 0)
        s = single[relation]
        rows += [math.log1p(known), has, s, s * has, has_held, s * has_held, float(not plausible[anchor, relation])]
        rows.append(math.log(expected[relation][bin_of(known)]))
    others = [other for other in seen.tolist() if {other[0], other[2]} == {h, t} and other != list(fact)]
    return [*rows, float(len(others) > 0)]


def bin_of(count):
    return count if count <= 2 else 2 + math.ceil(math.log2(count / 2))


def expected_missing(seen, plausible):
    """(j + 1) m_(j+1) / m_j in bins of j, each cell drawn towards that of all relations by one question."""
    facts, asked = (np.zeros((2 * R, BINS)) for _ in range(2))
    for relation in range(2 * R):
        for anchor in range(N):
            pairs = {(h, r, t) if relation < R else (t, r + R, h) for h, r, t in seen.tolist()}
            count = sum((a, r) == (anchor, relation) for a, r, _ in pairs)
            if count:
                facts[relation, bin_of(count - 1)] += count
            if count or plausible[anchor, relation]:
                asked[relation, bin_of(count)] += 1
    every = (facts.sum(0) + 1.0) / (asked.sum(0) + 1.0)
    return (facts + every) / (asked + 1.0)


def test_how_many_facts_are_missing_is_told_from_how_many_are_there():
    random = np.random.default_rng(0)
    sizes = np.where(np.arange(2000) % 2 == 0, 1, random.integers(8, 13, 2000))  # some have one, others about ten
    heads = np.repeat(np.arange(2000), sizes)
    world = np.stack([heads, np.zeros_like(heads), 2000 + random.integers(0, 10**6, len(heads)) % 3000], 1)
    world = np.unique(world, axis=0)
    hide = 0.1
    hidden = random.random(len(world)) < hide
    graph = GraphFacts(world[~hidden], 5000, 1)
    left = np.bincount(world[~hidden, 0], minlength=2000)
    gone = np.bincount(world[hidden, 0], minlength=2000)
    said = torch.exp(graph.expected[0]) * hide / (1.0 - hide)
    for counts, number in (((1,), 1), ((5, 6, 7, 8), 4), ((9, 10, 11, 12), 5)):
        true = gone[np.isin(left, counts)].mean()
        assert said[number].item() == pytest.approx(true, rel=0.25, abs=0.02), counts
    assert said[1] < 0.05  # whoever has one has no more
    assert said[4] > 0.5


def singles(triples):
    found = []
    for relation in range(2 * R):
        pairs = [(h, t) if relation < R else (t, h) for h, r, t in triples.tolist() if r == relation % R]
        heads = [h for h, _ in set(pairs)]
        ones = sum(heads.count(head) == 1 for head in set(heads))
        share = min(max((ones + 0.5) / (len(set(heads)) + 1.0), 0.01), 0.99)
        found.append(math.log(share / (1 - share)))
    return found


@pytest.mark.parametrize("held", [HELD, HELD[:0]])
def test_counts_are_those_of_a_loop_and_a_fact_does_not_count_itself(held):
    graph = GraphFacts(SEEN, N, R, held)
    known = np.concatenate([SEEN, held])
    facts = torch.from_numpy(TRIPLES)
    shares = -torch.rand(len(facts), 2, dtype=torch.double)
    found = graph.features(facts, shares, "both")
    plausible = plausible_questions(known, N, R)
    expected = expected_missing(SEEN, plausible)
    for row, fact in enumerate(TRIPLES.tolist()):
        assert found[row, 4:].tolist() == pytest.approx(by_hand(SEEN, held, fact, singles(known), plausible, expected))
    assert torch.equal(found[:, share_columns("both")], shares)
    for side, basis in enumerate(("tail", "head")):
        one = graph.features(facts, torch.where(torch.arange(2) == side, shares, torch.nan), basis)
        assert torch.equal(one[:, 2:], found[:, 4:])
        assert torch.equal(one[:, :2], found[:, 2 * side : 2 * side + 2])


def test_facts_that_become_known_change_the_counts_and_not_the_types():
    graph = GraphFacts(SEEN, N, R)
    more = graph.with_held_out(HELD)
    assert torch.equal(more.known.tails, GraphFacts(SEEN, N, R, HELD).known.tails)
    assert more.plausible is graph.plausible
    assert graph.known is graph.seen  # the first one is as it was


def test_a_candidate_that_has_everything_is_finite():
    found = of_share(torch.tensor([0.0, -1e-9, -0.5, -40.0], dtype=torch.double))
    assert torch.isfinite(found).all()
    assert found[2, 1].item() == pytest.approx(-math.log(1 - math.exp(-0.5)))


def test_which_questions_make_sense_is_the_same_for_tails_as_for_heads_of_the_inverse():
    turned = TRIPLES[:, [2, 1, 0]]
    assert torch.equal(
        plausible_questions(np.ascontiguousarray(turned), N, R), plausible_questions(TRIPLES, N, R).roll(R, 1)
    )

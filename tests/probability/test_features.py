"""What the graph says of a question, against counting by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from graphs import random_triples

from tuckerkg.graph.type_constraints import plausible_questions
from tuckerkg.probability.features import GraphFacts, of_share, share_columns

N, R = 12, 3
TRIPLES = random_triples(1, N, R, 60)
SEEN, HELD = TRIPLES[:35], TRIPLES[35:45]


def by_hand(seen, held, fact, single, plausible):
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
    others = [other for other in seen.tolist() if {other[0], other[2]} == {h, t} and other != list(fact)]
    return [*rows, float(len(others) > 0)]


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
    for row, fact in enumerate(TRIPLES.tolist()):
        assert found[row, 4:].tolist() == pytest.approx(by_hand(SEEN, held, fact, singles(known), plausible))
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

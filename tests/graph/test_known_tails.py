"""(head, relation) -> tails, against dictionaries."""

from __future__ import annotations

from collections import defaultdict

import torch
from hypothesis import given
from hypothesis import strategies as st

from tuckerkg.graph.known_tails import KnownTails, rows_of

triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 5)), max_size=40)


def as_dict(rows):
    tails = defaultdict(set)
    for head, relation, tail in rows:
        tails[head, relation].add(tail)
    return tails


@given(triples)
def test_find_gives_the_distinct_tails_of_any_query(rows):
    answers = KnownTails.of(torch.tensor(rows, dtype=torch.long).view(-1, 3), 4)
    known = as_dict(rows)
    heads = torch.arange(6).repeat_interleave(4)
    relation_ids = torch.arange(4).repeat(6)
    offsets, tails = answers.find(heads, relation_ids)
    for query in range(24):
        found = tails[offsets[query] : offsets[query + 1]].tolist()
        assert found == sorted(known[query // 4, query % 4])


@given(triples, triples)
def test_hold_tells_for_every_fact_whether_it_is_among_them(rows, asked):
    answers = KnownTails.of(torch.tensor(rows, dtype=torch.long).view(-1, 3), 4)
    facts = torch.tensor(rows + asked, dtype=torch.long).view(-1, 3)
    assert answers.hold(*facts.unbind(1)).tolist() == [fact in rows for fact in rows + asked]


@given(triples)
def test_select_follows_the_order_of_the_queries(rows):
    answers = KnownTails.of(torch.tensor(rows, dtype=torch.long).view(-1, 3), 4)
    known = as_dict(rows)
    assert len(answers) == len(known)
    order = torch.arange(len(answers)).flip(0)
    offsets, tails = answers.select(order)
    for place, query in enumerate(order.tolist()):
        key = int(answers.heads[query]), int(answers.relation_ids[query])
        assert tails[offsets[place] : offsets[place + 1]].tolist() == sorted(known[key])


def test_rows_of_repeats_each_row_once_per_value():
    assert rows_of(torch.tensor([0, 2, 3, 3, 4])).tolist() == [0, 0, 1, 3]


def test_ids_too_large_for_one_number_give_the_same_answers():
    rows = [(5, 1, 2), (5, 1, 0), (5, 1, 2), (0, 3, 4)]
    small = KnownTails.of(torch.tensor(rows), 4)
    huge = 2**40
    large = KnownTails.of(torch.tensor([(h * huge, r, t * huge) for h, r, t in rows]), 4)
    assert torch.equal(large.offsets, small.offsets)
    assert torch.equal(large.tails, small.tails * huge)
    assert torch.equal(large.relation_ids, small.relation_ids)

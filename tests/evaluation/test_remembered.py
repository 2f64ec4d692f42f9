"""Scores that are kept: those of the scorer, asked once."""

from __future__ import annotations

import torch
from torch import Tensor

from tuckerkg.evaluation.remembered import RememberedScores
from tuckerkg.nn.contracts import Scorer


class Counting(Scorer):
    num_entities, num_relations = 6, 2

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        self.asked += list(zip(heads.tolist(), relation_ids.tolist(), strict=True))
        return heads[:, None] * 10.0 + relation_ids[:, None] + torch.arange(6) / 10


def test_a_question_is_asked_once_and_answered_in_its_place():
    plain, counting = Counting(), Counting()
    kept = RememberedScores(counting)
    for heads, relations in (([3, 1], [0, 2]), ([1, 5, 3, 3], [2, 1, 0, 3]), ([5], [1])):
        asked = torch.tensor(heads), torch.tensor(relations)
        assert kept.scores(*asked).equal(plain.scores(*asked))
    assert sorted(counting.asked) == [(1, 2), (3, 0), (3, 3), (5, 1)]


def test_what_has_no_room_is_asked_again():
    counting = Counting()
    kept = RememberedScores(counting, most_bytes=2 * 6 * 4)
    heads, relations = torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0])
    first = kept.scores(heads, relations)
    assert kept.scores(heads, relations).equal(first)
    assert counting.asked == [(0, 0), (1, 0), (2, 0), (2, 0)]


def test_what_is_given_is_no_part_of_what_is_kept():
    kept = RememberedScores(Counting())
    asked = torch.tensor([1]), torch.tensor([1])
    kept.scores(*asked).fill_(-1.0)
    assert kept.scores(*asked)[0, 0] == 11.0

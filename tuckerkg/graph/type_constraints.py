"""Which questions make sense, learnt from the roles of entities in the graph.

A slot is a relation and a side, such as "head of borders". An entity may be asked for a relation's tail if it already
is a head of it, or if it has most of the slots that most heads of that relation share: a country without a
continent is asked for one, a continent is not.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.triple_sets import add_inverses

MOST_CELLS = 1 << 28  # entities x slots; beyond that only heads that were seen are asked
MOST_MARKS = 1 << 26  # relations x entities that are kept as marks, a byte each


class TypeConstraints:
    """Which entities have been seen as a relation's tail, or as its head for the relations' inverses r + R."""

    def __init__(self, triples: np.ndarray, num_entities: int, num_relations: int) -> None:
        both = add_inverses(triples, num_relations)
        keys = np.unique(both[:, 1] * num_entities + both[:, 2])
        self.entity_ids = torch.from_numpy(keys % num_entities)
        self.offsets = torch.from_numpy(np.searchsorted(keys, np.arange(2 * num_relations + 1) * num_entities))
        loops = torch.from_numpy(np.unique(both[both[:, 0] == both[:, 2], 1]))
        self.reflexive = torch.zeros(2 * num_relations, dtype=torch.bool)
        self.reflexive[loops] = True
        self.unseen: Tensor | None = None
        if 2 * num_relations * num_entities <= MOST_MARKS:
            self.unseen = torch.ones(2 * num_relations * num_entities, dtype=torch.bool)
            self.unseen[torch.from_numpy(keys)] = False
            self.unseen = self.unseen.view(2 * num_relations, num_entities)

    def allow(self, head: int, relation_id: int, tail: int) -> bool:
        """Whether ``leave_only`` leaves this tail."""
        return bool((self.seen(relation_id) == tail).any()) and (head != tail or bool(self.reflexive[relation_id]))

    def leave_only(self, scores: Tensor, heads: Tensor, relation_ids: Tensor, begin: int = 0) -> None:
        """Set ``scores [b, M]`` of tails that were never seen to minus infinity, in place.

        A head is not among its own answers where no entity has the relation to itself. The M candidates are the
        entities from ``begin`` on.
        """
        end = begin + scores.shape[1]
        if self.unseen is not None:
            scores.masked_fill_(self.unseen[relation_ids, begin:end], -torch.inf)
        else:
            self._leave_only_by_relation(scores, relation_ids, begin)
        strict = (~self.reflexive[relation_ids] & (heads >= begin) & (heads < end)).nonzero()[:, 0]
        scores[strict, heads[strict] - begin] = -torch.inf

    def _leave_only_by_relation(self, scores: Tensor, relation_ids: Tensor, begin: int) -> None:
        for relation in torch.unique(relation_ids).tolist():
            rows = (relation_ids == relation).nonzero()[:, 0]
            seen = self.seen(relation) - begin
            unseen = torch.ones(scores.shape[1], dtype=torch.bool)
            unseen[seen[(seen >= 0) & (seen < scores.shape[1])]] = False
            scores[rows[:, None], unseen.nonzero()[:, 0]] = -torch.inf

    def seen(self, relation_id: int) -> Tensor:
        """The entities that were seen as a relation's tail, ascending."""
        return self.entity_ids[self.offsets[relation_id] : self.offsets[relation_id + 1]]


def open_questions(triples: np.ndarray, num_entities: int, num_relations: int) -> np.ndarray:
    """Plausible (head, relation) pairs ``[Q, 2]`` that may have one more answer.

    Where no head has two answers (one capital, one continent), a head that has its answer is not asked.
    """
    pairs, answers = np.unique(triples[:, :2], axis=0, return_counts=True)
    most = np.zeros(num_relations, dtype=np.int64)
    np.maximum.at(most, pairs[:, 1], answers)
    is_open = plausible_questions(triples, num_entities, num_relations)[:, :num_relations]
    single = most[pairs[:, 1]] == 1
    is_open[pairs[single, 0], pairs[single, 1]] = False
    return np.asarray(is_open.nonzero()).astype(np.int64)


def plausible_questions(triples: np.ndarray, num_entities: int, num_relations: int) -> Tensor:
    """Which entities may be heads of which relations, and of their inverses r + R, ``[N, 2R]``."""
    slots = torch.zeros(num_entities, 2 * num_relations, dtype=torch.bool)
    heads, relation_ids, tails = torch.from_numpy(triples).unbind(1)
    slots[heads, relation_ids] = True
    slots[tails, relation_ids + num_relations] = True
    if slots.numel() > MOST_CELLS:
        return slots
    has = slots.float()
    shared = has.T @ has  # [2R, 2R] how many entities of a slot have each other slot
    typical = (shared > 0.5 * shared.diagonal()[:, None]).float()
    typical.fill_diagonal_(0.0)  # being asked for a slot itself tells nothing
    wanted = typical.sum(1)  # [2R]
    return slots | ((has @ typical.T > 0.5 * wanted) & (wanted > 0))

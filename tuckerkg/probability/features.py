"""What tells how likely a fact is: its shares of both of its questions, and what the graph says of these questions.

A fact (h, r, t) answers two questions, (h, r, ?) and (?, r, t). Scores have no absolute meaning, so what counts of them
is the share of the fact among all candidates of a question, ``score - log sum exp``. The graph says, without any score,
how many answers a question has already and how often questions of its relation have a single one: a city that has its
country is hardly missing a second. Nor is it all the same whether other facts join the two entities: in some graphs
they make a further one likely, and from the held-out facts of others all such pairs have been removed. And where
whoever has one fact of a relation has ten, nobody who has none misses one.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.graph.type_constraints import TypeConstraints, plausible_questions
from tuckerkg.types import Basis

BASES: tuple[Basis, ...] = ("tail", "head", "both")

SHARE, FROM_GRAPH = 2, 8  # features of a question: those of the share, and those of the graph
HELD_OUT = (4, 5)  # places of the latter that count held-out answers
BINS = 20  # of the number of facts that a question has
ALMOST_ALL = -1e-4  # log share from where on a candidate has everything
NO_FACTS = np.empty((0, 3), dtype=np.int64)


class GraphFacts:
    """What a graph says of the questions about it.

    Args:
        seen: facts that the scorer has seen, ``[n, 3]``.
        held_out: facts that are known as well and that it has not seen.
    """

    def __init__(
        self, seen: np.ndarray, num_entities: int, num_relations: int, held_out: np.ndarray = NO_FACTS
    ) -> None:
        self.num_entities, self.num_relations = num_entities, num_relations
        known = np.concatenate([seen, held_out])
        self.seen = KnownTails.from_splits([seen], num_relations)
        self.known = KnownTails.from_splits([known], num_relations) if len(held_out) else self.seen
        self.plausible = plausible_questions(known, num_entities, num_relations)  # [N, 2R]
        self.types = TypeConstraints(known, num_entities, num_relations)
        self.single = _single(self.known)
        self.expected = _expected(self.seen, self.plausible)  # [2R, bins]
        self._pairs, self._facts_of_pair = np.unique(_pair_keys(seen, num_entities), return_counts=True)

    def with_held_out(self, held_out: np.ndarray) -> GraphFacts:
        """The same with these facts known as well; which questions are plausible stays as it is."""
        other = object.__new__(GraphFacts)
        vars(other).update(vars(self))
        parts = [_triples(self.seen, self.num_relations), held_out]
        other.known = KnownTails.from_splits(parts, self.num_relations)
        return other

    def features(self, facts: Tensor, shares: Tensor, basis: Basis) -> Tensor:
        """``facts [n, 3]`` with their log shares ``[n, 2]`` of the tail and of the head question -> ``[n, features]``.

        The share of a question that is not in ``basis`` is not read.
        """
        heads, relation_ids, tails = facts.unbind(1)
        itself = self.seen.hold(heads, relation_ids, tails), self.known.hold(heads, relation_ids, tails)
        of_tail = self._of_questions(heads, relation_ids, itself)
        of_head = self._of_questions(tails, relation_ids + self.num_relations, itself)
        read = [of_share(shares[:, side]) for side, name in enumerate(("tail", "head")) if basis in (name, "both")]
        return torch.cat([*read, of_tail, of_head, self._joined_otherwise(facts, itself[0])], 1)

    def _joined_otherwise(self, facts: Tensor, itself: Tensor) -> Tensor:
        """Whether the scorer has seen another fact between the two entities, in either direction, ``[n, 1]``."""
        if not len(self._pairs):
            return torch.zeros(len(facts), 1, dtype=torch.float64)
        keys = _pair_keys(facts.numpy(), self.num_entities)
        places = np.searchsorted(self._pairs, keys).clip(max=len(self._pairs) - 1)
        count = torch.from_numpy(np.where(self._pairs[places] == keys, self._facts_of_pair[places], 0))
        return (count > itself.long()).double()[:, None]

    def _of_questions(self, anchors: Tensor, relation_ids: Tensor, itself: tuple[Tensor, Tensor]) -> Tensor:
        """What the graph says of questions, ``[n, FROM_GRAPH]``, the answer ``itself`` not counted."""
        seen = _counts(self.seen, anchors, relation_ids)
        others = seen - itself[0].double()
        held_out = _counts(self.known, anchors, relation_ids) - seen - (itself[1] & ~itself[0]).double()
        has, has_held = (others > 0).double(), (held_out > 0).double()
        single = self.single[relation_ids]
        unlikely = (~self.plausible[anchors, relation_ids]).double()
        missing = self.expected[relation_ids, _bins(others)]
        return torch.stack(
            [torch.log1p(others), has, single, single * has, has_held, single * has_held, unlikely, missing], 1
        )


def of_share(shares: Tensor) -> Tensor:
    """``log s`` and ``-log(1 - s)`` of log shares ``[n]``: the second one grows where a candidate has almost all."""
    return torch.stack([shares, -torch.log(-torch.expm1(shares.clamp(max=ALMOST_ALL)))], 1)


def share_columns(basis: Basis) -> list[int]:
    """Which features are log shares."""
    return [0, SHARE] if basis == "both" else [0]


def rising_columns(basis: Basis) -> list[int]:
    """Which features come from shares: with more of them a fact is not less likely."""
    return list(range(SHARE * len(share_columns(basis))))


def held_out_columns(basis: Basis) -> list[int]:
    """Which features say that a question has an answer that is known and that the scorer has not seen."""
    first = len(rising_columns(basis))
    return [first + side * FROM_GRAPH + place for side in range(2) for place in HELD_OUT]


def num_features(basis: Basis) -> int:
    """How many features there are."""
    return len(rising_columns(basis)) + 2 * FROM_GRAPH + 1


def _counts(known: KnownTails, anchors: Tensor, relation_ids: Tensor) -> Tensor:
    return known.counts(anchors, relation_ids).double()


def _pair_keys(facts: np.ndarray, num_entities: int) -> np.ndarray:
    """A number for the two entities of each of ``facts [n, 3]``, in any order."""
    ends = facts[:, [0, 2]]
    keys: np.ndarray = ends.min(1) * num_entities + ends.max(1)
    return keys


def _single(known: KnownTails) -> Tensor:
    """Logit of the share of a relation's heads that have one answer, ``[2R]``, between 1 % and 99 %."""
    sizes = known.offsets[1:] - known.offsets[:-1]
    heads = torch.bincount(known.relation_ids, minlength=known.num_relations)
    ones = torch.bincount(known.relation_ids[sizes == 1], minlength=known.num_relations)
    return torch.logit((ones + 0.5) / (heads + 1.0).double(), 0.01)


def _expected(seen: KnownTails, plausible: Tensor) -> Tensor:
    """Log of how many facts a question of a relation is likely to miss, by how many it has, ``[2R, bins]``.

    Where every fact is hidden with the same small chance h, of m_j questions with j facts left those with one hidden
    are as many as h / (1 - h) times the facts of the m_(j+1) questions with one more: ``(j + 1) m_(j+1) / m_j`` tells
    how many are missing, but for that factor (Robbins 1956). Counts lie in bins, drawn towards those of all relations.
    """
    sizes = seen.offsets[1:] - seen.offsets[:-1]
    cells = seen.num_relations * BINS
    asked = torch.bincount(seen.relation_ids * BINS + _bins(sizes), minlength=cells).double().view(-1, BINS)
    asked[:, 0] = (plausible.sum(0) - torch.bincount(seen.relation_ids, minlength=seen.num_relations)).clamp(min=0)
    one_less = seen.relation_ids * BINS + _bins(sizes - 1)
    facts = torch.bincount(one_less, sizes.double(), minlength=cells).view(-1, BINS)
    every = (facts.sum(0) + 1.0) / (asked.sum(0) + 1.0)
    return torch.log((facts + every) / (asked + 1.0))


def _bins(counts: Tensor) -> Tensor:
    """0, 1, 2, 3 to 4, 5 to 8, 9 to 16, ..."""
    above = torch.ceil(torch.log2(counts.double().clamp(min=2.0) / 2.0)).long() + 2
    return torch.where(counts <= 2, counts.long(), above).clamp(max=BINS - 1)


def _triples(known: KnownTails, num_relations: int) -> np.ndarray:
    sizes = known.offsets[1:] - known.offsets[:-1]
    heads, relation_ids = (torch.repeat_interleave(column, sizes) for column in (known.heads, known.relation_ids))
    forward = relation_ids < num_relations
    return torch.stack([heads, relation_ids, known.tails], 1)[forward].numpy()

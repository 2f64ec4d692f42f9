"""One Batch type, made in two ways: a random subgraph (1-b training) or the whole graph (1-N training).

What step i holds depends on (seed, i) only, so that a resumed run sees the same batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tuckerkg.answers import Answers, rows_of
from tuckerkg.graph import MessageGraph, Normalise, Order
from tuckerkg.grouping import RowGroups
from tuckerkg.options import NonNegative, NonNegativeFloat, Positive, Share
from tuckerkg.triples import add_inverses


@dataclass(frozen=True)
class Batch:
    """Queries with their positives, the candidates they are held against, and the messages that encode them.

    All ids are local: candidate m is entity ``entity_ids[m]`` of the dataset, or entity m where ``entity_ids`` is None.
    Those are encoded; where ``kept`` is given, only the encoded entities with these places go on as candidates. Query
    b's positives are ``positives[offsets[b]:offsets[b + 1]]``. ``log_chance [M]`` is the log of how likely each
    candidate was to be in the batch, where candidates stand for all entities and that matters; else None.
    """

    graph: MessageGraph | None
    entity_ids: Tensor | None
    heads: Tensor
    relation_ids: Tensor
    offsets: Tensor
    positives: Tensor
    groups: RowGroups
    log_chance: Tensor | None = None
    kept: Tensor | None = None

    @property
    def candidate_ids(self) -> Tensor | None:
        """Entities of the dataset that are candidates, ``[M]``; None: all."""
        if self.kept is None or self.entity_ids is None:
            return self.entity_ids if self.kept is None else self.kept
        return self.entity_ids[self.kept]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on ``device``."""
        return Batch(
            None if self.graph is None else self.graph.to(device),
            None if self.entity_ids is None else self.entity_ids.to(device),
            self.heads.to(device),
            self.relation_ids.to(device),
            self.offsets.to(device),
            self.positives.to(device),
            self.groups.to(device),
            None if self.log_chance is None else self.log_chance.to(device),
            None if self.kept is None else self.kept.to(device),
        )


class Batches(Protocol):
    """A way to make batches."""

    steps_per_epoch: int

    def batch(self, step: int) -> Batch:
        """The batch of step ``step``, counted from 0."""


@dataclass(frozen=True)
class TrainingGraph:
    """What both ways start from: the training triples without inverses, and how they will be used."""

    triples: np.ndarray  # [n, 3]
    num_entities: int
    num_relations: int  # R; inverses are R ... 2R - 1
    seed: int
    normalise: Normalise = "relation"
    order: Order = "source"
    uses_graph: bool = True  # False: the encoder reads no messages, so none are prepared
    marks_known: bool = False  # True: every known training tail of a query is a positive

    def answers(self) -> Answers:
        """Known tails of both directions."""
        return Answers.of(_tensor(add_inverses(self.triples, self.num_relations)), 2 * self.num_relations)

    def messages(self, triples: np.ndarray, num_entities: int) -> MessageGraph | None:
        """The message graph of ``triples`` and their inverses."""
        if not self.uses_graph:
            return None
        edges = _tensor(add_inverses(triples, self.num_relations))
        return MessageGraph.of(edges, num_entities, self.normalise, order=self.order)

    def random(self, *place: int) -> np.random.Generator:
        """A generator for this seed and place, the same whenever it is asked for."""
        return np.random.default_rng([self.seed, *place])


class RandomSubgraphs:
    """1-b training: ``triples`` random training triples (g_s) a step.

    A ``message_share`` of them, with inverses, are the messages; the first ``positives`` and their inverses are the
    positives; all entities of the sample are the candidates. ``remove_own_edges`` keeps a positive out of the messages.
    """

    def __init__(
        self,
        graph: TrainingGraph,
        *,
        triples: Positive = 10_000,
        message_share: Share = 0.5,
        positives: Positive = 5_000,
        remove_own_edges: bool = False,
    ) -> None:
        self.graph = graph
        self.size = min(triples, len(graph.triples))
        self.num_messages = max(1, round(self.size * message_share))
        self.num_positives = min(positives, self.size)
        self.remove_own_edges = remove_own_edges
        self.steps_per_epoch = -(-len(graph.triples) // self.num_positives)
        self.known = graph.answers() if graph.marks_known else None

    def batch(self, step: int) -> Batch:
        """Samples without replacement."""
        random = self.graph.random(0, step)
        sample = self.graph.triples[random.choice(len(self.graph.triples), self.size, replace=False)]
        entity_ids, sample = _local_ids(sample, self.graph.num_entities)
        is_message = np.zeros(self.size, dtype=bool)
        is_message[random.permutation(self.size)[: self.num_messages]] = True
        if self.remove_own_edges:
            is_message[: self.num_positives] = False
        num_relations = self.graph.num_relations
        positives = Answers.of(_tensor(add_inverses(sample[: self.num_positives], num_relations)), 2 * num_relations)
        heads, relation_ids = positives.heads, positives.relation_ids
        offsets, tails = positives.offsets, positives.tails
        if self.known is not None:
            offsets, tails = self._known_tails(self.known, _tensor(entity_ids), heads, relation_ids)
        return Batch(
            graph=self.graph.messages(sample[is_message], len(entity_ids)),
            entity_ids=_tensor(entity_ids),
            heads=heads,
            relation_ids=relation_ids,
            offsets=offsets,
            positives=tails,
            groups=RowGroups.of(relation_ids),
        )

    def _known_tails(
        self, known: Answers, entity_ids: Tensor, heads: Tensor, relation_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Every known training tail that is among the batch's entities, in local ids."""
        offsets, tails = known.find(entity_ids[heads], relation_ids)
        place = torch.searchsorted(entity_ids, tails).clamp(max=entity_ids.numel() - 1)
        present = entity_ids[place] == tails
        counts = torch.bincount(rows_of(offsets)[present], minlength=heads.numel())
        return torch.cat([counts.new_zeros(1), torch.cumsum(counts, 0)]), place[present]


class WholeGraph:
    """1-N training: ``queries`` distinct (head, relation) queries a step with all their tails, all entities candidates.

    Messages are the whole training graph, or a random ``message_share`` of it that is drawn anew each step;
    ``remove_own_edges`` keeps the batch's positives out of them, which prepares a new graph each step. Epochs before
    ``messages_from`` leave the encoder out: embeddings and decoder learn alone first, many times as fast. Epochs before
    ``sampled_until`` hold a query against the batch's own entities and ``sampled_candidates`` random ones only, each
    weighed by how seldom it is drawn, so that the sum over them stands for all.
    """

    def __init__(
        self,
        graph: TrainingGraph,
        *,
        queries: Positive = 1_024,
        message_share: Share = 1.0,
        remove_own_edges: bool = False,
        messages_from: NonNegativeFloat = 0.0,
        sampled_candidates: NonNegative = 0,
        sampled_until: NonNegativeFloat = 0.0,
    ) -> None:
        self.graph = graph
        self.answers = graph.answers()
        self.queries = min(queries, len(self.answers))
        self.message_share, self.remove_own_edges = message_share, remove_own_edges
        self.steps_per_epoch = -(-len(self.answers) // self.queries)
        self.first_messages = round(messages_from * self.steps_per_epoch)
        self.first_whole = round(sampled_until * self.steps_per_epoch)
        self.sampled = min(sampled_candidates, graph.num_entities)
        self.log_chance = self._log_chance() if self.first_whole else None
        self._order: tuple[int, Tensor] | None = None
        self._whole: MessageGraph | None = None

    def batch(self, step: int) -> Batch:
        """Walks a shuffled order of all queries, a new one each epoch."""
        epoch, part = divmod(step, self.steps_per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, _tensor(self.graph.random(1, epoch).permutation(len(self.answers))))
        chosen = self._order[1][part * self.queries : (part + 1) * self.queries]
        offsets, tails = self.answers.select(chosen)
        heads, relation_ids = self.answers.heads[chosen], self.answers.relation_ids[chosen]
        batch = Batch(
            graph=self._messages(step, heads[rows_of(offsets)], relation_ids[rows_of(offsets)], tails),
            entity_ids=None,
            heads=heads,
            relation_ids=relation_ids,
            offsets=offsets,
            positives=tails,
            groups=RowGroups.of(relation_ids),
        )
        return self._against_some(step, batch) if step < self.first_whole else batch

    def _against_some(self, step: int, batch: Batch) -> Batch:
        """The same queries, with the batch's entities and a random sample as candidates.

        Without messages nothing else need be encoded.
        """
        sample = self.graph.random(3, step).choice(self.graph.num_entities, self.sampled, replace=False)
        chosen = torch.cat([batch.heads, batch.positives, _tensor(sample)]).unique()  # ascending
        return replace(
            batch,
            entity_ids=chosen if batch.graph is None else None,
            kept=None if batch.graph is None else chosen,
            heads=torch.searchsorted(chosen, batch.heads),
            positives=torch.searchsorted(chosen, batch.positives),
            log_chance=None if self.log_chance is None else self.log_chance[chosen],
        )

    def _log_chance(self) -> Tensor:
        """Log of the chance that a step's sampled candidates, or its own heads and tails, hold an entity, ``[N]``."""
        named = torch.cat([self.answers.heads, self.answers.tails])  # every query names its head and its tails
        each = torch.bincount(named, minlength=self.graph.num_entities) / len(self.answers)
        missed = (1.0 - self.sampled / self.graph.num_entities) * torch.exp(-self.queries * each)
        return torch.log1p(-missed)

    def _messages(self, step: int, heads: Tensor, relation_ids: Tensor, tails: Tensor) -> MessageGraph | None:
        if step < self.first_messages or not self.graph.uses_graph:
            return None
        if self.message_share == 1.0 and not self.remove_own_edges:
            if self._whole is None:
                self._whole = self.graph.messages(self.graph.triples, self.graph.num_entities)
            return self._whole
        triples = self.graph.triples
        if self.remove_own_edges:
            own = _undirected(heads, relation_ids, tails, self.graph.num_relations)
            triples = triples[~np.isin(_keys(triples, self.graph), _keys(own, self.graph))]
        if self.message_share < 1.0:
            count = max(1, round(len(triples) * self.message_share))
            triples = triples[self.graph.random(2, step).permutation(len(triples))[:count]]
        return self.graph.messages(triples, self.graph.num_entities)


def _local_ids(triples: np.ndarray, num_entities: int) -> tuple[np.ndarray, np.ndarray]:
    """The entities of ``triples``, ascending, and the triples with each entity's place among them as its id."""
    if num_entities > 16 * len(triples):  # a table of all entities would cost more than sorting these
        entity_ids, local = np.unique(triples[:, [0, 2]], return_inverse=True)
        heads, tails = local.reshape(-1, 2).T
    else:
        places = np.zeros(num_entities, dtype=np.int64)
        places[triples[:, 0]] = places[triples[:, 2]] = 1
        entity_ids = np.flatnonzero(places)
        places[entity_ids] = np.arange(len(entity_ids))
        heads, tails = places[triples[:, 0]], places[triples[:, 2]]
    return entity_ids, np.column_stack([heads, triples[:, 1], tails])


def _undirected(heads: Tensor, relation_ids: Tensor, tails: Tensor, num_relations: int) -> np.ndarray:
    """The triples behind queries and tails: an inverse one turned around."""
    inverse = relation_ids >= num_relations
    turned = torch.stack(
        [torch.where(inverse, tails, heads), relation_ids % num_relations, torch.where(inverse, heads, tails)], 1
    )
    return np.asarray(turned.numpy())


def _keys(triples: np.ndarray, graph: TrainingGraph) -> np.ndarray:
    """One number per triple."""
    return np.asarray((triples[:, 0] * graph.num_relations + triples[:, 1]) * graph.num_entities + triples[:, 2])


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))


BATCHES: dict[str, type[RandomSubgraphs] | type[WholeGraph]] = {
    "subgraph": RandomSubgraphs,
    "whole": WholeGraph,
}

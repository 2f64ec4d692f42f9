"""Batches of facts that lie with their owners, in the ways of ``batches/``: questions with all answers, or facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tuckerkg.batches.batch import Batch, CandidateSample, TrainingGraph
from tuckerkg.batches.phases import Phase, Schedule
from tuckerkg.batches.subgraph import RandomSubgraphs
from tuckerkg.config.settings import Settings
from tuckerkg.data.ingest.hashing import key_of, permuted
from tuckerkg.data.shards import ShardedGraph
from tuckerkg.errors import SettingsError
from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.nn.contracts import Loss
from tuckerkg.ranks.facts.drawing import Drawn, Numbers, exchange, joined, share
from tuckerkg.ranks.facts.sorted_facts import FactShard, SortedFacts
from tuckerkg.ranks.model import ShardedModel
from tuckerkg.ranks.partition import Partition


@dataclass(frozen=True)
class OwnFacts:
    """The facts of the own shards, and how many there are in all.

    Attributes:
        facts_before: by shard, how many facts by head the shards before it have, ``[S + 1]``.
    """

    shards: Sequence[FactShard]  # ascending
    partition: Partition
    num_relations: int
    facts_before: Sequence[int]

    @classmethod
    def of(cls, shards: Sequence[FactShard], partition: Partition, num_relations: int) -> OwnFacts:
        """Ask the other ranks for their numbers of facts."""
        counts = partition.by_shard([torch.tensor(len(shard.by_head)) for shard in shards])
        return cls(shards, partition, num_relations, [0, *torch.cumsum(counts, 0).tolist()])

    @property
    def num_facts(self) -> int:
        """Of all shards."""
        return self.facts_before[-1]

    @cached_property
    def num_queries(self) -> int:
        """Distinct (entity, relation) in both directions, of all shards; reads the own facts once."""
        own = [torch.tensor(sum(side.num_queries for side in shard.sides)) for shard in self.shards]
        return int(self.partition.by_shard(own).sum())


@dataclass(frozen=True)
class GraphAtOwners(TrainingGraph):
    """A training graph of which no rank has all facts; ``triples`` are none."""

    count: int = 0

    @property
    def num_facts(self) -> int:
        """Of all shards."""
        return self.count


class QuestionsAtOwners:
    """``WholeGraph`` on ranks: every question once in an epoch, in a random order, with all its answers.

    A shard walks its facts in a random order that is computed place by place, and asks the question of every fact that
    is the first of one. How many that are differs a little from step to step.
    """

    def __init__(self, facts: OwnFacts, graph: TrainingGraph, queries: int) -> None:
        self.facts, self.graph = facts, graph
        self.queries = min(queries, facts.num_queries)
        self.steps_per_epoch = -(-facts.num_queries // self.queries)
        self.schedule = Schedule(graph.phases, self.steps_per_epoch)
        self._log_inclusion: dict[int, list[Tensor]] = {}

    def batch(self, step: int) -> Drawn:
        """What the own shards give to ``step``: entities, relations, counts, answers, sampled candidates."""
        phase = self.schedule.at(step)
        return Drawn(step, [self._part(step, shard, phase) for shard in self.facts.shards])

    def join(self, drawn: Drawn) -> Batch:
        """The batch of the step, on every rank the same."""
        phase, partition = self.schedule.at(drawn.step), self.facts.partition
        lists = exchange(partition, drawn.parts)
        heads, relation_ids, counts, positives, sampled = (joined(lists, place) for place in range(5))
        batch = Batch(
            graph=None,
            entity_ids=None,
            heads=heads,
            relation_ids=relation_ids,
            offsets=torch.cat([counts.new_zeros(1), torch.cumsum(counts, 0)]),
            positives=positives,
            groups=RowGroups.of(relation_ids),
        )
        if not phase.candidates:
            return batch
        chosen = torch.cat([heads, positives, sampled]).unique()  # ascending
        return replace(
            batch,
            entity_ids=chosen,
            heads=torch.searchsorted(chosen, heads),
            positives=torch.searchsorted(chosen, positives),
            sample=CandidateSample(None, self._inclusion_of(chosen, phase)),
        )

    def _part(self, step: int, shard: FactShard, phase: Phase) -> list[Numbers]:
        epoch, part = divmod(step, self.steps_per_epoch)
        found = [self._questions(side, key_of(self.graph.seed, 1, epoch, shard.number, number), part)
                 for number, side in enumerate(shard.sides)]  # fmt: skip
        entities, relations, counts, answers = (np.concatenate(lists) for lists in zip(*found, strict=True))
        return [entities, relations, counts, answers, self._candidates(step, shard.number, phase)]

    def _questions(self, side: SortedFacts, key: np.uint64, part: int) -> tuple[Numbers, ...]:
        begin, end = (len(side) * place // self.steps_per_epoch for place in (part, part + 1))
        rows = permuted(np.arange(begin, end), max(len(side), 1), key)
        entities, relations, ends, begins = side.queries(rows)
        return entities, relations, ends - begins, side.answers(begins, ends)

    def _candidates(self, step: int, shard: int, phase: Phase) -> Numbers:
        """The shard's share of the sampled candidates."""
        count = self._share(shard, phase.candidates)
        offsets = self.facts.partition.offsets
        key = key_of(self.graph.seed, 3, step, shard)
        return offsets[shard] + permuted(np.arange(count), max(offsets[shard + 1] - offsets[shard], 1), key)

    def _share(self, shard: int, candidates: int) -> int:
        offsets = self.facts.partition.offsets
        return share(min(candidates, offsets[-1]), offsets[shard], offsets[shard + 1], offsets[-1])

    def _inclusion_of(self, chosen: Tensor, phase: Phase) -> Tensor:
        """Log of the probability that each candidate is one, ``[M]``, from its owner."""
        partition = self.facts.partition
        if phase.candidates not in self._log_inclusion:
            self._log_inclusion[phase.candidates] = [
                self._log_inclusion_in(shard, phase.candidates) for shard in self.facts.shards
            ]
        bounds = partition.bounds(chosen)
        own = [
            table[chosen[bounds[shard] : bounds[shard + 1]] - partition.offsets[shard]]
            for table, shard in zip(self._log_inclusion[phase.candidates], partition.own, strict=True)
        ]
        return torch.cat(partition.rows_by_shard(own, np.diff(bounds).tolist()))

    def _log_inclusion_in(self, shard: FactShard, candidates: int) -> Tensor:
        """As ``WholeGraph`` has it, of the entities of a shard: a question names its entity and its answers."""
        offsets = self.facts.partition.offsets
        begin, size = offsets[shard.number], offsets[shard.number + 1] - offsets[shard.number]
        named = torch.zeros(size)
        for side in shard.sides:
            for entities, first in side.starts():  # a fact about an entity is an answer of a question by the other end
                places = torch.from_numpy(entities - begin)
                named.index_add_(0, places, torch.from_numpy(1.0 + first).float())
        drawn = self._share(shard.number, candidates) / max(size, 1)
        missed = (1.0 - drawn) * torch.exp(-self.queries * named / self.facts.num_queries)
        return torch.log1p(-missed)


class FactsAtOwners:
    """``RandomSubgraphs`` on ranks: every shard draws its share of the facts of a step, and the ranks exchange them."""

    def __init__(
        self, facts: OwnFacts, graph: TrainingGraph, *, triples: int, positives: int, remove_own_edges: bool
    ) -> None:
        self.facts = facts
        self.subgraphs = RandomSubgraphs(graph, triples=triples, positives=positives, remove_own_edges=remove_own_edges)
        self.steps_per_epoch, self.schedule = self.subgraphs.steps_per_epoch, self.subgraphs.schedule

    def batch(self, step: int) -> Drawn:
        """What the own shards give to ``step``: heads, relations, tails."""
        return Drawn(step, [self._part(step, shard) for shard in self.facts.shards])

    def join(self, drawn: Drawn) -> Batch:
        """The batch of the step, on every rank the same."""
        lists = exchange(self.facts.partition, drawn.parts)
        sample = torch.stack([joined(lists, place) for place in range(3)], 1).numpy()  # [n, 3]
        random = self.subgraphs.graph.random(0, drawn.step)
        sample = sample[random.permutation(len(sample))]  # the first ones are learnt, of any shard
        return self.subgraphs.of_sample(drawn.step, sample, random, self._known_tails)

    def _part(self, step: int, shard: FactShard) -> list[Numbers]:
        before, size = self.facts.facts_before, len(shard.by_head)
        count = share(self.subgraphs.size, before[shard.number], before[shard.number + 1], before[-1])
        rows = permuted(np.arange(count), max(size, 1), key_of(self.subgraphs.graph.seed, 0, step, shard.number))
        triples = np.asarray(shard.by_head.triples[rows], np.int64)
        return [triples[:, 0], triples[:, 1], triples[:, 2]]

    def _known_tails(self, entity_ids: Tensor, heads: Tensor, relation_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Known tails of questions that are among the batch's entities, in local ids, from the questions' owners."""
        asked, ids = entity_ids[heads], entity_ids
        return answers_of_owners(self.facts, ids, asked, relation_ids)


def answers_of_owners(facts: OwnFacts, ids: Tensor, heads: Tensor, relation_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Known tails of questions that are among ascending ``ids``: offsets ``[B + 1]``, and places among ``ids``."""
    asked, relations = heads.numpy(), relation_ids.numpy()
    own = [_answers_among(shard, rows, asked, relations, ids.numpy()) for shard, rows in _of_shards(facts, asked)]
    lists = exchange(facts.partition, own)
    of_rows, tails = joined(lists, 0), joined(lists, 1)
    order = torch.argsort(of_rows, stable=True)
    counts = torch.bincount(of_rows, minlength=len(heads))
    return torch.cat([counts.new_zeros(1), torch.cumsum(counts, 0)]), tails[order]


def counts_of_owners(facts: OwnFacts, heads: Tensor, relation_ids: Tensor) -> Tensor:
    """How many known tails questions have, ``[B]``."""
    asked, relations = heads.numpy(), relation_ids.numpy()
    counts = torch.zeros(len(heads), dtype=torch.long)
    for shard, rows in _of_shards(facts, asked):
        for side in shard.sides:
            mine = rows[(relations[rows] >= facts.num_relations) == bool(side.added)]
            begins, ends = side.find(asked[mine], relations[mine])
            counts[mine] = torch.from_numpy(ends - begins)
    return facts.partition.group.total(counts)


def _of_shards(facts: OwnFacts, asked: Numbers) -> Iterator[tuple[FactShard, Numbers]]:
    """The own shards, with the rows of the entities ``asked`` that are theirs."""
    for shard in facts.shards:
        begin, end = facts.partition.offsets[shard.number : shard.number + 2]
        yield shard, np.flatnonzero((asked >= begin) & (asked < end))


def _answers_among(
    shard: FactShard, rows: Numbers, asked: Numbers, relations: Numbers, ids: Numbers
) -> tuple[Numbers, Numbers]:
    """Rows of questions, and places among ``ids`` of those of their answers that are there."""
    found_rows, found = [rows[:0]], [rows[:0]]
    for side in shard.sides:
        mine = rows[(relations[rows] >= shard.by_tail.added) == bool(side.added)]
        begins, ends = side.find(asked[mine], relations[mine])
        answers = side.answers(begins, ends)
        places = np.searchsorted(ids, answers).clip(max=len(ids) - 1)
        present = ids[places] == answers
        found_rows.append(np.repeat(mine, ends - begins)[present])
        found.append(places[present])
    return np.concatenate(found_rows), np.concatenate(found)


def shards_of_graph(graph: ShardedGraph, partition: Partition) -> list[FactShard]:
    """The own shards of a folder of shards, mapped."""
    return [
        FactShard.of(shard, graph.triples(shard), graph.in_edges(shard), graph.num_relations) for shard in partition.own
    ]


def shards_of_triples(train: np.ndarray, partition: Partition, num_relations: int) -> list[FactShard]:
    """The own shards of training triples ``[n, 3]`` in memory."""
    found = []
    for shard in partition.own:
        begin, end = partition.offsets[shard], partition.offsets[shard + 1]
        by_head, by_tail = (train[(train[:, column] >= begin) & (train[:, column] < end)] for column in (0, 2))
        by_head = by_head[np.lexsort((by_head[:, 2], by_head[:, 1], by_head[:, 0]))]
        by_tail = by_tail[np.lexsort((by_tail[:, 0], by_tail[:, 1], by_tail[:, 2]))]
        found.append(FactShard.of(shard, by_head, by_tail, num_relations))
    return found


def build_batches_at_owners(
    settings: Settings, model: ShardedModel, loss: Loss, facts: OwnFacts
) -> QuestionsAtOwners | FactsAtOwners:
    """The batches that settings name.

    Raises:
        SettingsError: they are not made of facts in shards.
    """
    graph = GraphAtOwners(
        np.empty((0, 3), np.int64),
        model.num_entities,
        model.num_relations,
        settings.train.seed,
        normalize=model.encoder.normalize,
        order=model.encoder.order,
        uses_graph=False,  # messages are sampled where the encoder asks for some
        marks_known=loss.marks_known,
        phases=settings.phase,
        count=facts.num_facts,
    )
    name, options = settings.batch.name, settings.batch.options
    if name == "whole":
        return QuestionsAtOwners(facts, graph, options["queries"])
    if name == "subgraph":
        return FactsAtOwners(facts, graph, **options)
    raise SettingsError(f"batch.name: {name} is not made of facts in shards; choose whole or subgraph")

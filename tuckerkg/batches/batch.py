"""One Batch type for every way of training. What step i holds depends on (seed, i) only, so that resuming is exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tuckerkg.batches.phases import Phase, Schedule
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.graph.message_graph import MessageGraph, Normalize, Order
from tuckerkg.graph.row_groups import RowGroups


@dataclass(frozen=True)
class CandidateSample:
    """Candidates that are a sample of all entities.

    Attributes:
        rows: which of the encoded entities are candidates, ``[M]``; None: all of them.
        log_inclusion: log of the probability that each candidate is in the sample, ``[M]``; None: not corrected.
    """

    rows: Tensor | None
    log_inclusion: Tensor | None

    def to(self, device: torch.device | str) -> CandidateSample:
        """The same sample on ``device``."""
        rows, inclusion = (None if part is None else part.to(device) for part in (self.rows, self.log_inclusion))
        return CandidateSample(rows, inclusion)


@dataclass(frozen=True)
class Batch:
    """Queries with their positives, the candidates they are compared with, and the messages that encode them.

    All ids are local: candidate m is entity ``entity_ids[m]`` of the dataset, or entity m where ``entity_ids`` is None.
    Query b's positives are ``positives[offsets[b]:offsets[b + 1]]``.
    """

    graph: MessageGraph | None
    entity_ids: Tensor | None
    heads: Tensor
    relation_ids: Tensor
    offsets: Tensor
    positives: Tensor
    groups: RowGroups
    sample: CandidateSample | None = None

    @property
    def candidate_ids(self) -> Tensor | None:
        """Entities of the dataset that are candidates, ``[M]``; None: all."""
        rows = None if self.sample is None else self.sample.rows
        if rows is None or self.entity_ids is None:
            return self.entity_ids if rows is None else rows
        return self.entity_ids[rows]

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
            None if self.sample is None else self.sample.to(device),
        )


class StepBatch(Protocol):
    """What the training loop knows of a batch."""

    @property
    def heads(self) -> Tensor:
        """Heads of its queries, ``[B]``."""
        ...

    def to(self, device: torch.device | str) -> StepBatch:
        """The same batch on ``device``."""
        ...


class Batches(Protocol):
    """A way to make batches, constructed as ``Batches(graph, **options)``; the graph carries the phases."""

    steps_per_epoch: int
    schedule: Schedule

    def batch(self, step: int) -> StepBatch:
        """The batch of ``step``, counted from 0."""
        ...


@dataclass(frozen=True)
class TrainingGraph:
    """What batches are made of: the training triples without inverses, and what encoder and loss ask of them."""

    triples: np.ndarray  # [n, 3]
    num_entities: int
    num_relations: int  # R; inverses are R ... 2R - 1
    seed: int
    normalize: Normalize = "relation"
    order: Order = "source"
    uses_graph: bool = True  # False: the encoder reads no messages, so none are prepared
    marks_known: bool = False  # True: every known training tail of a query is a positive
    phases: Sequence[Phase] = field(default=())

    @property
    def num_facts(self) -> int:
        """n."""
        return len(self.triples)

    def known_tails(self) -> KnownTails:
        """Known tails of both directions."""
        return KnownTails.of(id_tensor(add_inverses(self.triples, self.num_relations)), 2 * self.num_relations)

    def messages(self, triples: np.ndarray, num_entities: int) -> MessageGraph | None:
        """The message graph of ``triples`` and their inverses."""
        if not self.uses_graph:
            return None
        edges = id_tensor(add_inverses(triples, self.num_relations))
        return MessageGraph.of(edges, num_entities, self.normalize, order=self.order)

    def random(self, *place: int) -> np.random.Generator:
        """A generator for this seed and place, the same whenever it is asked for."""
        return np.random.default_rng([self.seed, *place])


def id_tensor(array: np.ndarray) -> Tensor:
    """``array`` as a contiguous tensor of int64."""
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))

"""The whole graph: 1-N training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tuckerkg.batches.batch import Batch, CandidateSample, TrainingGraph, id_tensor
from tuckerkg.batches.phases import Phase, Schedule
from tuckerkg.data.triple_sets import triple_keys
from tuckerkg.graph.known_tails import rows_of
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.ranges import Positive


class WholeGraph:
    """1-N training: distinct (head, relation) queries with all their tails, compared with all entities or a sample.

    The phases set the share of the graph that is sent as messages, and the number of sampled candidates.

    Args:
        queries: queries per step.
        remove_own_edges: keep the batch's positives out of the messages, which prepares a new graph at each step.
    """

    def __init__(
        self,
        graph: TrainingGraph,
        *,
        queries: Positive = 1_024,
        remove_own_edges: bool = False,
    ) -> None:
        self.graph = graph
        self.known = graph.known_tails()
        self.queries = min(queries, len(self.known))
        self.remove_own_edges = remove_own_edges
        self.steps_per_epoch = -(-len(self.known) // self.queries)
        self.schedule = Schedule(graph.phases, self.steps_per_epoch)
        self._log_inclusion: dict[int, Tensor] = {}
        self._order: tuple[int, Tensor] | None = None
        self._whole: MessageGraph | None = None

    def batch(self, step: int) -> Batch:
        """Walk a shuffled order of all queries, a new one each epoch."""
        epoch, part = divmod(step, self.steps_per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, id_tensor(self.graph.random(1, epoch).permutation(len(self.known))))
        chosen = self._order[1][part * self.queries : (part + 1) * self.queries]
        offsets, tails = self.known.select(chosen)
        heads, relation_ids = self.known.heads[chosen], self.known.relation_ids[chosen]
        phase = self.schedule.at(step)
        rows = rows_of(offsets)
        batch = Batch(
            graph=self._messages(step, phase, heads[rows], relation_ids[rows], tails),
            entity_ids=None,
            heads=heads,
            relation_ids=relation_ids,
            offsets=offsets,
            positives=tails,
            groups=RowGroups.of(relation_ids),
        )
        return self._sampled(step, batch, phase.candidates) if phase.candidates else batch

    def _sampled(self, step: int, batch: Batch, count: int) -> Batch:
        """The same queries, with the batch's entities and ``count`` random ones as candidates.

        Without messages nothing else need be encoded.
        """
        count = min(count, self.graph.num_entities)
        sample = self.graph.random(3, step).choice(self.graph.num_entities, count, replace=False)
        chosen = torch.cat([batch.heads, batch.positives, id_tensor(sample)]).unique()  # ascending
        if count not in self._log_inclusion:
            self._log_inclusion[count] = self._log_inclusion_of(count)
        return replace(
            batch,
            entity_ids=chosen if batch.graph is None else None,
            heads=torch.searchsorted(chosen, batch.heads),
            positives=torch.searchsorted(chosen, batch.positives),
            sample=CandidateSample(None if batch.graph is None else chosen, self._log_inclusion[count][chosen]),
        )

    def _log_inclusion_of(self, count: int) -> Tensor:
        """Log of the probability that a step's sample of ``count``, or its own heads and tails, hold an entity."""
        named = torch.cat([self.known.heads, self.known.tails])  # every query names its head and its tails
        each = torch.bincount(named, minlength=self.graph.num_entities) / len(self.known)
        missed = (1.0 - count / self.graph.num_entities) * torch.exp(-self.queries * each)
        return torch.log1p(-missed)  # [N]

    def _messages(
        self, step: int, phase: Phase, heads: Tensor, relation_ids: Tensor, tails: Tensor
    ) -> MessageGraph | None:
        share = 1.0 if phase.messages is None else phase.messages
        if not share or not self.graph.uses_graph:
            return None
        if share == 1.0 and not self.remove_own_edges:
            if self._whole is None:
                self._whole = self.graph.messages(self.graph.triples, self.graph.num_entities)
            return self._whole
        triples = self.graph.triples
        if self.remove_own_edges:
            own = _forwards(heads, relation_ids, tails, self.graph.num_relations)
            triples = triples[~np.isin(self._keys(triples), self._keys(own))]
        if share < 1.0:
            count = max(1, round(len(triples) * share))
            triples = triples[self.graph.random(2, step).permutation(len(triples))[:count]]
        return self.graph.messages(triples, self.graph.num_entities)

    def _keys(self, triples: np.ndarray) -> np.ndarray:
        return triple_keys(triples, self.graph.num_entities, self.graph.num_relations)


def _forwards(heads: Tensor, relation_ids: Tensor, tails: Tensor, num_relations: int) -> np.ndarray:
    """The triples behind queries and tails; those of inverse relations are reversed."""
    inverse = relation_ids >= num_relations
    turned = torch.stack(
        [torch.where(inverse, tails, heads), relation_ids % num_relations, torch.where(inverse, heads, tails)], 1
    )
    return np.asarray(turned.numpy())

"""Random subgraphs: 1-b training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tuckerkg.batches.batch import Batch, TrainingGraph, id_tensor
from tuckerkg.batches.phases import Schedule
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.errors import SettingsError
from tuckerkg.graph.known_tails import KnownTails, rows_of
from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.ranges import Positive

MESSAGE_SHARE = 0.5  # of a subgraph's triples, as in the paper

FindTails = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


class RandomSubgraphs:
    """1-b training: a random subgraph of training triples at each step; its entities are the candidates.

    Args:
        triples: triples per step, g_s in the paper.
        positives: how many of them, with inverses, are learnt.
        remove_own_edges: keep positives out of the messages.
    """

    def __init__(
        self,
        graph: TrainingGraph,
        *,
        triples: Positive = 10_000,
        positives: Positive = 5_000,
        remove_own_edges: bool = False,
    ) -> None:
        if any(phase.candidates for phase in graph.phases):
            raise SettingsError("phase.candidates: a random subgraph brings its own candidates; leave it out")
        self.graph = graph
        self.size = min(triples, graph.num_facts)
        self.num_positives = min(positives, self.size)
        self.remove_own_edges = remove_own_edges
        self.steps_per_epoch = -(-graph.num_facts // self.num_positives)
        self.schedule = Schedule(graph.phases, self.steps_per_epoch)
        self.known = graph.known_tails() if graph.marks_known else None

    def batch(self, step: int) -> Batch:
        """Sample without replacement."""
        random = self.graph.random(0, step)
        sample = self.graph.triples[random.choice(len(self.graph.triples), self.size, replace=False)]
        return self.of_sample(step, sample, random, self._known_tails)

    def of_sample(self, step: int, sample: np.ndarray, random: np.random.Generator, known_tails: FindTails) -> Batch:
        """The batch of sampled triples ``[size, 3]``, the first of which are learnt.

        Args:
            known_tails: called with the batch's entities, heads and relations of questions, where all of their known
                tails are positives; gives offsets and tails. Ids of heads and tails are local.
        """
        entity_ids, sample = _local_ids(sample, self.graph.num_entities)
        messages = self.schedule.at(step).messages
        share = MESSAGE_SHARE if messages is None else messages
        is_message = np.zeros(self.size, dtype=bool)
        is_message[random.permutation(self.size)[: max(1, round(self.size * share))]] = True
        if self.remove_own_edges:
            is_message[: self.num_positives] = False
        num_relations = self.graph.num_relations
        positives = KnownTails.of(
            id_tensor(add_inverses(sample[: self.num_positives], num_relations)), 2 * num_relations
        )
        heads, relation_ids = positives.heads, positives.relation_ids
        offsets, tails = positives.offsets, positives.tails
        if self.graph.marks_known:
            offsets, tails = known_tails(id_tensor(entity_ids), heads, relation_ids)
        return Batch(
            graph=self.graph.messages(sample[is_message], len(entity_ids)) if share else None,
            entity_ids=id_tensor(entity_ids),
            heads=heads,
            relation_ids=relation_ids,
            offsets=offsets,
            positives=tails,
            groups=RowGroups.of(relation_ids),
        )

    def _known_tails(self, entity_ids: Tensor, heads: Tensor, relation_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Every known training tail that is among the batch's entities, in local ids."""
        assert self.known is not None
        offsets, tails = self.known.find(entity_ids[heads], relation_ids)
        place = torch.searchsorted(entity_ids, tails).clamp(max=entity_ids.numel() - 1)
        present = entity_ids[place] == tails
        counts = torch.bincount(rows_of(offsets)[present], minlength=heads.numel())
        return torch.cat([counts.new_zeros(1), torch.cumsum(counts, 0)]), place[present]


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

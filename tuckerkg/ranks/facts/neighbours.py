"""Messages that the owners of their targets sample: layer by layer outwards, with one exchange for each.

An entity receives so many of its messages, drawn without replacement; they stand for those that were left out too, so
that a layer's sum is right on average, and exact where the fan-out is at least the degree. Every entity is drawn for
once, at its shortest distance from the batch; what it receives is a function of (seed, step, entity).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.batches.batch import Batch, CandidateSample
from tuckerkg.config.settings import Settings
from tuckerkg.data.ingest.hashing import GAMMA, key_of, mixed, permuted
from tuckerkg.errors import SettingsError
from tuckerkg.graph.message_graph import MessageGraph, Normalize, Order
from tuckerkg.nn.contracts import Encoder
from tuckerkg.ranks.facts.batches import OwnFacts
from tuckerkg.ranks.facts.drawing import Numbers, exchange, joined
from tuckerkg.ranks.facts.sorted_facts import FactShard, spread
from tuckerkg.ranks.model import ShardedModel
from tuckerkg.ranks.ranking import ShardedScorer
from tuckerkg.ranks.steps.exchange import all_rows

AT_ONCE = 16_384  # entities that are encoded together where all are
FOR_STEPS, FOR_ALL = 4, 5  # what is drawn for


@dataclass(frozen=True)
class Neighbourhoods:
    """Entities with the messages that reach them.

    Args:
        fanout: how many messages an entity receives, by distance from those that are asked for.
        normalize, order: of the encoder.
        dtype: of the messages' weights.
    """

    facts: OwnFacts
    fanout: Sequence[int]
    seed: int
    normalize: Normalize = "relation"
    order: Order = "source"
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, settings: Settings, encoder: Encoder, facts: OwnFacts) -> Neighbourhoods:
        """As settings have it.

        Raises:
            SettingsError: the encoder sends no messages, has another number of layers, or needs what owners do not
                know.
        """
        fanout, name = settings.ranks.fanout, settings.encoder.name
        if not encoder.uses_graph or encoder.depth != len(fanout):
            layers = encoder.depth if encoder.uses_graph else 0
            raise SettingsError(
                f"ranks.fanout has {len(fanout)} numbers, one for each layer was expected, and encoder {name} has "
                f"{layers}"
            )
        if encoder.normalize not in ("relation", "degree"):
            what = "nothing" if encoder.normalize == "none" else "the degree of a message's source"
            raise SettingsError(
                f"ranks.fanout: encoder {name} divides by {what}, and its target's owner only knows how many messages "
                "there are; choose encoder.normalize=relation or degree"
            )
        if any(phase.messages not in (None, 0.0, 1.0) for phase in settings.phase):
            raise SettingsError("ranks.fanout: says how many messages there are; phase.messages is 0, or left out")
        if settings.batch.options.get("remove_own_edges"):
            raise SettingsError("ranks.fanout: sampled messages keep the batch's own edges; leave out remove_own_edges")
        return cls(facts, fanout, settings.train.seed, encoder.normalize, encoder.order)

    def add_to(self, batch: Batch, step: int) -> Batch:
        """The batch with the messages that reach its candidates, its heads among them."""
        targets = batch.candidate_ids
        ids, graph, places = self.around(targets, key_of(self.seed, FOR_STEPS, step))
        if targets is None:
            return replace(batch, graph=graph)
        log_inclusion = None if batch.sample is None else batch.sample.log_inclusion
        return replace(batch, graph=graph, entity_ids=ids, sample=CandidateSample(places, log_inclusion))

    def around(self, targets: Tensor | None, key: np.uint64) -> tuple[Tensor, MessageGraph, Tensor]:
        """Entities ``[M']``, the messages between them, and the places of ``targets``, which ascend, among them."""
        targets = torch.arange(self.facts.partition.offsets[-1]) if targets is None else targets
        reached, edges, weights = self.drawn(targets, key)
        local = edges.clone()
        local[:, 0], local[:, 2] = (torch.searchsorted(reached, edges[:, column].contiguous()) for column in (0, 2))
        graph = MessageGraph.of(local, len(reached), dtype=self.dtype, order=self.order, weights=weights)
        return reached, graph, torch.searchsorted(reached, targets)

    def drawn(self, targets: Tensor, key: np.uint64) -> tuple[Tensor, Tensor, Tensor]:
        """Ascending entities, messages ``[n, 3]`` between them as source, relation, target, and their weights ``[n]``.

        Args:
            targets: ascending entities that are drawn for first.
        """
        partition, reached, found = self.facts.partition, targets, []
        outermost = targets
        for most in self.fanout:
            bounds = partition.bounds(outermost)
            own = [
                self._messages(shard, outermost[bounds[shard.number] : bounds[shard.number + 1]].numpy(), most, key)
                for shard in self.facts.shards
            ]
            lists = exchange(partition, own)
            found.append(torch.stack([joined(lists, place) for place in range(5)], 1))
            everything = torch.cat([reached, found[-1][:, 0]]).unique()
            outermost = everything[~torch.isin(everything, reached)]
            reached = everything
        edges, weighed = torch.cat(found).split([3, 2], 1)
        return reached, edges, weighed[:, 0].double() / weighed[:, 1].double()

    def _messages(self, shard: FactShard, entities: Numbers, most: int, key: np.uint64) -> list[Numbers]:
        """Sources, relations and targets of some messages, and their weights as fractions."""
        spans = [side.spans(entities) for side in (shard.by_tail, shard.by_head)]
        reached_by = spans[0][1] - spans[0][0]  # messages along facts; the others go along their inverses
        degrees = reached_by + spans[1][1] - spans[1][0]
        counts = np.minimum(degrees, most)
        of = np.repeat(np.arange(len(entities)), counts)
        keys = mixed(entities.astype(np.uint64) * GAMMA + key)
        drawn = permuted(spread(np.zeros_like(counts), counts), degrees[of], keys[of])
        lists: list[list[Numbers]] = []
        for side, (begins, _), inverse in zip((shard.by_tail, shard.by_head), spans, (False, True), strict=True):
            mine = (drawn >= reached_by[of]) == inverse
            target = of[mine]
            rows = begins[target] + drawn[mine] - reached_by[target] * inverse
            sources, asked = side.neighbours(rows)
            relations = (asked + self.facts.num_relations) % (2 * self.facts.num_relations)
            if self.normalize == "degree":
                shares = np.ones_like(target), counts[target]
            else:  # of the same relation, as many as the question's answers
                first, last = side.find(entities[target], asked)
                shares = degrees[target], counts[target] * (last - first)
            lists.append([sources, relations, entities[target], *shares])
        return [np.concatenate(both) for both in zip(*lists, strict=True)]


class SampledScorer(ShardedScorer):
    """Scores with entities that are encoded by sampled messages, a number of them at a time."""

    def __init__(self, model: ShardedModel, neighbourhoods: Neighbourhoods) -> None:
        self.model, self.partition = model, model.partition
        model.eval()
        partition, shared = model.partition, model.shared
        sizes = [partition.size(shard) for shard in range(partition.num_shards)]
        width = max(1, AT_ONCE // partition.num_shards)
        parts: list[list[Tensor]] = [[] for _ in partition.own]
        self.relations = shared.relations.detach()
        key = key_of(neighbourhoods.seed, FOR_ALL)
        with torch.no_grad():
            for first in range(0, max(sizes), width):
                ids = torch.cat(
                    [begin + torch.arange(min(first, size), min(first + width, size))
                     for begin, size in zip(partition.offsets, sizes, strict=False)]
                )  # fmt: skip
                around, graph, places = neighbourhoods.around(ids, key)
                bounds = partition.bounds(around)
                rows = all_rows(model.rows(around, bounds), np.diff(bounds).tolist(), partition)
                encoded, self.relations = shared.encoder(graph, rows, shared.relations)
                encoded = F.embedding(places, encoded)
                cuts = partition.bounds(ids)
                for own, shard in zip(parts, partition.own, strict=True):
                    own.append(encoded[cuts[shard] : cuts[shard + 1]].clone())
        self.entities = [torch.cat(own) for own in parts]

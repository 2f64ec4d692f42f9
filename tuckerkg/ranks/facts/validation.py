"""Validation of facts that lie with their owners: what a rank needs to know of them to rank its own candidates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tuckerkg.config.settings import Settings
from tuckerkg.data.triple_sets import add_inverses, is_among
from tuckerkg.evaluation.protocol import describe_protocol
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.ranks.facts.sorted_facts import FactShard, Places
from tuckerkg.ranks.partition import Partition
from tuckerkg.types import JsonObject


def known_among_own(
    shards: Sequence[FactShard], held_out: Sequence[np.ndarray], asked: np.ndarray, num_relations: int
) -> KnownTails:
    """Known answers of the questions about ``asked [n, 3]``, in both directions, that are candidates of the own shards.

    A shard's facts by tail have all of its entities that are tails, those by head all that are heads. The facts of
    ``held_out`` count wherever they are.
    """
    questions = add_inverses(np.concatenate([asked, asked[:0]]), num_relations)
    wanted = np.unique(_keys(questions[:, 0], questions[:, 1], num_relations))
    found = [add_inverses(np.concatenate([*held_out, asked[:0]]), num_relations)]
    for shard in shards:
        for side, turned in ((shard.by_tail, -num_relations), (shard.by_head, num_relations)):
            for (
                answers,
                relations,
                heads,
            ) in side.pieces():  # from the other end: what is asked about here answers there
                relation_ids = relations + turned
                is_asked = is_among(_keys(heads, relation_ids, num_relations), wanted)
                found.append(np.stack([heads, relation_ids, answers], 1)[is_asked])
    return KnownTails.of(torch.from_numpy(np.concatenate(found)), 2 * num_relations)


def _keys(heads: Places, relation_ids: Places, num_relations: int) -> Places:
    return np.asarray(heads * (2 * num_relations) + relation_ids)


class SeenEntities:
    """Which of some entities occur in training; every owner says it of its own."""

    def __init__(self, shards: Sequence[FactShard], partition: Partition, entities: Places) -> None:
        self.entities = np.unique(entities)
        flags = torch.zeros(len(self.entities), dtype=torch.long)
        bounds = partition.bounds(torch.from_numpy(self.entities))
        for shard in shards:
            own = self.entities[bounds[shard.number] : bounds[shard.number + 1]]
            for side in shard.sides:
                begins, ends = side.spans(own)
                flags[bounds[shard.number] : bounds[shard.number + 1]] += torch.from_numpy(ends > begins)
        self.flags = partition.group.total(flags).numpy() > 0

    def __getitem__(self, ids: Any, /) -> Any:
        """Of ``ids``, which are among them."""
        return self.flags[np.searchsorted(self.entities, ids)]


def protocol_of(valid: np.ndarray, digest: str, settings: Settings, num_entities: int) -> JsonObject:
    """As ``describe_protocol`` has it; training is named by the digest of its folder of shards."""
    described = describe_protocol(
        {"valid": valid},
        split="valid",
        filtered_by=["train", "valid"],
        tie_seed=settings.evaluate.tie_seed,
        num_entities=num_entities,
    )
    described["shards_sha256"] = digest
    described.pop("fingerprint")
    described["fingerprint"] = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
    return described

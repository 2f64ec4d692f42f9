"""A small folder of integer shards, and programs that ranks run on it in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.integer_shards import write_shards
from tuckerkg import api
from tuckerkg.batches.batch import Batch
from tuckerkg.config.build import build_embedding_model, build_objective
from tuckerkg.config.settings import Settings
from tuckerkg.config.toml import load_settings
from tuckerkg.data.shards import ShardedGraph
from tuckerkg.ranks.facts.batches import OwnFacts, build_batches_at_owners, shards_of_graph
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.model import ShardedModel
from tuckerkg.ranks.partition import Partition
from tuckerkg.storage.run_folder import RunFolder

ENTITIES, RELATIONS, SHARDS = 60, 3, 8
CHOSEN = {
    "encoder": "none", "decoder": "distmult", "model.dim": 8, "model.relation_dim": 8, "ranks.shards": SHARDS,
    "batch.queries": 40, "train.threads": 1, "train.steps": 12, "train.evaluate_every": 100.0,
}  # fmt: skip
SAMPLED = {"phase": [{"candidates": 20}]}
SUBGRAPH = {"batch": {"name": "subgraph", "triples": 60, "positives": 40}}


def shard_folder(path: Path, facts: int = 500, **sizes: int) -> ShardedGraph:
    chosen = {"entities": ENTITIES, "relations": RELATIONS, "shards": SHARDS, "valid": 16, **sizes}
    return write_shards(path, facts=facts, **chosen)


def chosen_settings(**changes: Any) -> Settings:
    chosen = {**CHOSEN, **changes}
    if "batch" in changes:
        chosen.pop("batch.queries")
    return load_settings(None, chosen)


def prepared(graph: ShardedGraph, out: Path, **changes: Any) -> RunFolder:
    return api.prepare_in_shards(graph, chosen_settings(**changes), out)


def batches_on(group: Group, path: Path, changes: dict[str, Any]) -> tuple[Any, OwnFacts, Settings]:
    graph, settings = ShardedGraph(path), chosen_settings(**changes)
    partition = Partition.of(graph.offsets.tolist(), group)
    model = ShardedModel(build_embedding_model(settings, 0, graph.num_relations), partition, 0)
    facts = OwnFacts.of(shards_of_graph(graph, partition), partition, graph.num_relations)
    loss = build_objective(settings, model.shared).loss
    return build_batches_at_owners(settings, model, loss, facts), facts, settings


def batches_of(group: Group, path: Path, cases: list[dict[str, Any]], steps: int) -> list[list[dict[str, np.ndarray]]]:
    """The numbers of the first batches, for each case."""
    found = []
    for changes in cases:
        batches, _, _ = batches_on(group, path, changes)
        found.append([numbers_of(batches.join(batches.batch(step))) for step in range(steps)])
    return found


def numbers_of(batch: Batch) -> dict[str, np.ndarray]:
    """Every tensor of a batch, but for messages."""
    tensors: dict[str, torch.Tensor | None] = {
        "entity_ids": batch.entity_ids,
        "heads": batch.heads,
        "relation_ids": batch.relation_ids,
        "offsets": batch.offsets,
        "positives": batch.positives,
        "log_inclusion": None if batch.sample is None else batch.sample.log_inclusion,
        "edges": None if batch.graph is None else batch.graph.edges,
    }
    return {name: tensor.numpy() for name, tensor in tensors.items() if tensor is not None}


def files_that_are_read(group: Group, path: Path) -> list[str]:
    """Names of the files of facts that a rank opens for its batches."""
    opened: list[str] = []
    mapped = ShardedGraph._mapped

    def record(self: ShardedGraph, name: str) -> Any:
        opened.append(name)
        return mapped(self, name)

    ShardedGraph._mapped = record  # type: ignore[method-assign]
    batches, _, _ = batches_on(group, path, SAMPLED)
    batches.join(batches.batch(0))
    return opened

"""Run folders whose entity table lies in shards, made without training."""

from __future__ import annotations

from pathlib import Path

import torch

from tuckerkg import api
from tuckerkg.config.build import build_embedding_model
from tuckerkg.config.toml import load_settings
from tuckerkg.data.dataset import Dataset
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.partition import Partition
from tuckerkg.ranks.saving import Saved, save_in_shards
from tuckerkg.storage.run_folder import RunFolder


def run_in_shards(
    place: Path, dataset: Dataset, shards: int = 8, parted: Partition | None = None, **changes: object
) -> RunFolder:
    """A run with random weights: scores differ, so that there is something to be asked."""
    settings = load_settings(None, {"encoder": "none", "train.threads": 1, "ranks.shards": shards, **changes})
    folder = api.prepare(dataset, settings, place)
    torch.manual_seed(1)
    model = build_embedding_model(settings, 0, len(dataset.relations))
    weights = {name: tensor for name, tensor in model.state_dict().items() if name not in ("entities", "bias")}
    partition = parted or Partition.even(len(dataset.entities), shards, Group())
    tables = {}
    for shard in range(shards):
        torch.manual_seed(100 + shard)
        tables[shard] = {"entities": torch.randn(partition.size(shard), settings.model.dim)}
        if model.bias is not None:
            tables[shard]["bias"] = torch.randn(partition.size(shard))
    state = {"minutes": 0.0, "best_mrr": 0.5, "best_step": 1}
    saved = Saved(1, state, weights, {}, {shard: (table, {}) for shard, table in tables.items()})
    save_in_shards(Group(), folder.checkpoints, saved, 1)
    return folder

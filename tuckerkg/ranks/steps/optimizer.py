"""The optimizer of a model in shards: rows move where they lie."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tuckerkg.config.settings import OptimizerName
from tuckerkg.ranks.model import ShardedModel
from tuckerkg.training.optim import ModelOptimizer, values_of


class ShardedOptimizer(ModelOptimizer):
    """As of a model in one piece, but for the norm of all gradients, which is that of all shards."""

    def __init__(self, model: ShardedModel, name: OptimizerName, lr: float) -> None:
        super().__init__(model, name, lr)
        self.model = model

    @torch.no_grad()
    def clip(self, limit: float) -> Tensor:
        """The norm of all gradients, which are scaled down to ``limit`` where it is above; 0 never scales."""
        self.coalesce()
        partition = self.model.partition
        tables = [self.model.entities, self.model.bias] if len(self.model.bias) else [self.model.entities]
        of_shards = [_square([table[str(shard)].grad for table in tables]) for shard in partition.own]
        common = _square([parameter.grad for parameter in self.model.shared.parameters()])
        norm = (common + partition.by_shard(of_shards).sum()).sqrt()
        if limit:
            scale = (limit / (norm + 1e-6)).clamp(max=1.0)
            for parameter in self.parameters.values():
                if parameter.grad is not None:
                    values_of(parameter.grad).mul_(scale.to(parameter))
        return norm

    def of_shard(self, shard: int) -> dict[str, Tensor]:
        """The state of a shard's tables, without its number in the names."""
        return {
            key.replace(f".{shard}:", ":", 1): tensor
            for key, tensor in self.tensors().items()
            if key.startswith((f"entities.{shard}:", f"bias.{shard}:"))
        }

    def of_all(self) -> dict[str, Tensor]:
        """The state of what all ranks have in common."""
        return {key: tensor for key, tensor in self.tensors().items() if key.startswith("shared.")}

    def restore_shard(self, shard: int, tensors: Mapping[str, Tensor]) -> None:
        """Put ``of_shard`` back."""
        self.restore({key.replace(":", f".{shard}:", 1): tensor for key, tensor in tensors.items()})


def _square(gradients: list[Tensor | None]) -> Tensor:
    """The sum of squares, in double precision."""
    found = [values_of(gradient).double().square().sum() for gradient in gradients if gradient is not None]
    return torch.stack(found).sum().cpu() if found else torch.zeros((), dtype=torch.float64)

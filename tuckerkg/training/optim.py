"""Optimizers by name, and what a checkpoint keeps of them.

The lazy ones touch only those rows of the entity table that a step used, gradient and state alike, so that a step does
not cost more in a larger graph. Rows that a step did not use keep their moments as they are.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tuckerkg.config.settings import LAZY, OptimizerName, TrainSettings


def learning_rate(train: TrainSettings, step: int, total_steps: int) -> float:
    """The rate of step ``step``, a function of the step alone, so that there is no schedule to save.

    "one-cycle" rises linearly over the first ``warmup`` share, then falls along a cosine to a thousandth.
    """
    if train.schedule == "constant":
        return train.lr
    if train.schedule == "step":
        return train.lr * train.decay ** (step // train.decay_every)
    rise = max(1.0, train.warmup * total_steps)
    if step < rise:
        return train.lr * (0.04 + 0.96 * step / rise)
    fall = min(1.0, (step - rise) / max(1.0, total_steps - rise))
    return train.lr * (0.001 + 0.999 * 0.5 * (1.0 + math.cos(math.pi * fall)))


class RowwiseAdagrad(torch.optim.Optimizer):
    """Adagrad with one sum per row: ``s_i += mean(g_i^2)``, ``w_i -= lr g_i / (sqrt(s_i) + eps)``; sparse rows only."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float = 0.01, eps: float = 1e-10) -> None:
        super().__init__(parameters, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move the rows that have a gradient."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is None:
                    continue
                gradient = table.grad.coalesce()
                rows, values = gradient.indices()[0], gradient.values()
                state = self.state[table]
                if not state:
                    state["sum"] = table.new_zeros(len(table))
                sums = state["sum"].index_add_(0, rows, values.square().mean(1))[rows]
                table.index_add_(0, rows, values / (sums.sqrt() + group["eps"])[:, None], alpha=-group["lr"])


class ModelOptimizer:
    """All parameters of a model under one name: the entity table may have an optimizer of its own."""

    def __init__(self, model: nn.Module, name: OptimizerName, lr: float) -> None:
        self.names = {id(parameter): key for key, parameter in model.named_parameters()}
        self.parameters = dict(model.named_parameters())
        # A path model has no table, one that lies in shards has several.
        table = [parameter for key, parameter in self.parameters.items() if key.partition(".")[0] == "entities"]
        others = [parameter for parameter in model.parameters() if not any(parameter is row for row in table)]
        if table:
            model.sparse_rows = name in LAZY  # type: ignore[assignment]
        self.parts: list[torch.optim.Optimizer]
        if name == "lazy-adam":
            self.parts = [torch.optim.SparseAdam(table, lr=lr), torch.optim.Adam(others, lr=lr, fused=True)]
        elif name == "rowwise-adagrad":
            self.parts = [RowwiseAdagrad(table, lr=lr), torch.optim.Adagrad(others, lr=lr)]
        elif name == "adagrad":
            self.parts = [torch.optim.Adagrad(model.parameters(), lr=lr)]
        else:
            self.parts = [torch.optim.Adam(model.parameters(), lr=lr, fused=True)]

    def set_lr(self, lr: float) -> None:
        """The rate of the next step."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = lr

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    @torch.no_grad()
    def clip(self, limit: float) -> Tensor:
        """The norm of all gradients, which are scaled down to ``limit`` where it is above; 0 never scales."""
        self.coalesce()
        gradients = [parameter.grad for parameter in self.parameters.values() if parameter.grad is not None]
        found = [values_of(gradient) for gradient in gradients]
        norm = nn.utils.get_total_norm(found)
        if limit:
            scale = (limit / (norm + 1e-6)).clamp(max=1.0)
            for gradient in found:
                gradient.mul_(scale)
        return norm

    def coalesce(self) -> None:
        """Rows of sparse gradients that are named twice become one row."""
        for parameter in self.parameters.values():
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()

    def step(self) -> None:
        """Move the parameters."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse invariant checks")  # torch's own sparse step would print it
            for part in self.parts:
                part.step()

    def tensors(self) -> dict[str, Tensor]:
        """The state as named tensors, ``parameter:slot``."""
        return {
            f"{self.names[id(parameter)]}:{slot}": torch.as_tensor(value).detach().cpu().contiguous()
            for part in self.parts
            for parameter, slots in part.state.items()
            for slot, value in slots.items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put ``tensors()`` back."""
        for key, tensor in tensors.items():
            name, _, slot = key.rpartition(":")
            parameter = self.parameters[name]
            part = next(part for part in self.parts if any(parameter is p for p in _parameters(part)))
            part.state[parameter][slot] = _slot(part, slot, tensor, parameter)


def values_of(gradient: Tensor) -> Tensor:
    """The numbers of a gradient that may be sparse."""
    return gradient.values() if gradient.is_sparse else gradient


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _slot(part: torch.optim.Optimizer, slot: str, tensor: Tensor, parameter: nn.Parameter) -> Any:
    """Step counters stay on the CPU, and SparseAdam counts in plain integers."""
    if slot != "step":
        return tensor.to(parameter.device)
    return int(tensor) if isinstance(part, torch.optim.SparseAdam) else tensor

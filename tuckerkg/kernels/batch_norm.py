"""Batch norm over rows with multiplicities: a row may represent several edges."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class WeightedBatchNorm(nn.Module):
    """Batch norm in which row i counts ``counts[i]`` times, as if it were repeated once per edge.

    With ``counts`` None every row counts once, as in nn.BatchNorm1d, which has no weights for rows. ``gain`` is the
    start of the scale.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, dim: int, *, gain: float = 1.0, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.gain, self.momentum, self.eps = gain, momentum, eps
        self.weight = nn.Parameter(torch.empty(dim))
        self.bias = nn.Parameter(torch.empty(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale ``gain``, shift 0, running statistics of a standard normal."""
        nn.init.constant_(self.weight, self.gain)
        nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1.0)

    @torch.no_grad()
    def init_from_data(self, rows: Tensor) -> None:
        """Take scale, shift and running statistics from ``rows [P, d]``, so that they pass unchanged."""
        var, mean = torch.var_mean(rows, 0, correction=0)
        self.running_mean.copy_(mean)
        self.running_var.copy_(var)
        self.weight.copy_((var + self.eps).sqrt())
        self.bias.copy_(mean)

    def forward(self, rows: Tensor, counts: Tensor | None = None) -> Tensor:
        """Normalize ``rows [P, d]``."""
        if not self.training or rows.shape[0] == 0:
            scale, shift = self.scale_and_shift()
            return torch.addcmul(shift, rows, scale)
        if counts is None:
            counts = rows.new_ones(rows.shape[0])
        total = counts.sum().clamp(min=1.0)
        mean = (counts @ rows) / total  # [d]
        var = (counts @ (rows - mean).square()) / total  # [d]
        self.remember(mean.detach(), var.detach(), float(total))
        scale = self.weight * torch.rsqrt(var + self.eps)
        return torch.addcmul(self.bias - mean * scale, rows, scale)

    def scale_and_shift(self) -> tuple[Tensor, Tensor]:
        """What the norm does with its running statistics: ``rows * scale + shift``."""
        scale = self.weight * torch.rsqrt(self.running_var + self.eps)
        return scale, self.bias - self.running_mean * scale

    def remember(self, mean: Tensor, var: Tensor, total: float) -> None:
        """Move the running statistics towards those of ``total`` rows."""
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(var * (total / max(total - 1.0, 1.0)), self.momentum)


@torch.no_grad()
def init_norms_through_tanh(norms: Iterable[WeightedBatchNorm], rows: Tensor) -> None:
    """Initialize consecutive norms, each followed by a tanh, so that ``rows`` pass unchanged but for the tanhs."""
    for norm in norms:
        norm.init_from_data(rows)
        rows = torch.tanh(rows)

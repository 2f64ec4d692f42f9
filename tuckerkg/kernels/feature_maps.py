"""Feature maps of convolutional decoders: convolution, norm, ReLU, dropout and projection, a few queries at a time.

A convolution is a product of filters with windows of its input. Its batch norm does not need the maps: their means and
variances follow from the first and second moments of the windows, so the norm becomes part of the filters. A chunk's
maps then stay in cache from the product to the projection.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.autograd import Context, apply
from tuckerkg.kernels.batch_norm import WeightedBatchNorm
from tuckerkg.types import Precision

CHUNK_MAPS = 1 << 20  # numbers of maps worked on at once: 4 MiB of float32, in cache, and rows enough for a product


def projected_maps(
    windows: Tensor,
    convolution: nn.Conv1d | nn.Conv2d,
    norm: WeightedBatchNorm,
    project: nn.Linear,
    kept: Tensor | None = None,
    gain: float = 1.0,
    precision: Precision = "float32",
) -> Tensor:
    """``project(gain * kept * relu(norm(convolution)))`` of ``windows [k, B, P]`` -> ``[B, d]``.

    A window holds the k numbers that a filter meets at one of P positions. ``kept [B, filters, P]``, or 1 for P, are
    the bytes 0 and 1 of a dropout. With ``precision`` "bfloat16" the projection, most of the work, reads rounded
    numbers and gives rounded ones.
    """
    filters = convolution.weight.flatten(1)  # [filters, k]
    scale, shift = _norm(windows, filters, norm)
    filters = torch.cat([filters * scale[:, None], shift[:, None]], 1)
    windows = torch.cat([windows, windows.new_ones(1, *windows.shape[1:])])  # the shift is a filter's last number
    weight = project.weight.bfloat16() if precision == "bfloat16" else project.weight
    learns = torch.is_grad_enabled()
    sums: Tensor = apply(_ProjectedMaps, windows, filters, weight, kept, learns)
    return torch.add(project.bias, sums, alpha=gain)


def picture_windows(pictures: Tensor, kernel: int) -> Tensor:
    """``[B, height, width] -> [kernel^2, B, P]``, the squares of a picture row by row."""
    found = pictures.unfold(1, kernel, 1).unfold(2, kernel, 1)  # [B, y, x, i, j]
    return found.permute(3, 4, 0, 1, 2).flatten(0, 1).flatten(2)


def line_windows(lines: Tensor, kernel: int) -> Tensor:
    """``[B, channels, d] -> [channels * kernel, B, d]``, zeros beyond either end."""
    found = F.pad(lines, (kernel // 2, kernel // 2)).unfold(2, kernel, 1)  # [B, c, x, i]
    return found.permute(1, 3, 0, 2).flatten(0, 1)


def _norm(windows: Tensor, filters: Tensor, norm: WeightedBatchNorm) -> tuple[Tensor, Tensor]:
    """Scale and shift ``[filters]`` of the norm over all maps ``filters . window``."""
    flat = windows.flatten(1)  # [k, B P]
    total = flat.shape[1]
    if not norm.training or total == 0:
        return norm.scale_and_shift()
    level = flat.mean(1)  # [k]
    spread = flat @ flat.T / total - torch.outer(level, level)  # [k, k]
    mean, var = filters @ level, ((filters @ spread) * filters).sum(1).clamp(min=0.0)
    norm.remember(mean.detach(), var.detach(), float(total))
    scale = norm.weight * torch.rsqrt(var + norm.eps)
    return scale, norm.bias - mean * scale


class _ProjectedMaps(torch.autograd.Function):
    """Keeps the maps for backward, where there is one: a positive map was neither cut by the ReLU nor dropped."""

    @staticmethod
    def forward(
        ctx: Context, windows: Tensor, filters: Tensor, weight: Tensor, kept: Tensor | None, learns: bool
    ) -> Tensor:
        queries, size = windows.shape[1], len(filters) * windows.shape[2]
        maps = weight.new_empty(queries if learns else 0, len(filters), windows.shape[2])  # [B, filters, P]
        sums = weight.new_empty(queries, len(weight))
        for chunk in _chunks(queries, size):
            near = windows[:, chunk].transpose(0, 1)
            part = torch.bmm(filters.expand(len(near), -1, -1), near).relu_()
            part = (part if kept is None else part.mul_(kept[chunk])).to(weight.dtype)
            torch.mm(part.flatten(1), weight.T, out=sums[chunk])
            if learns:
                maps[chunk] = part
        ctx.save_for_backward(windows, filters, weight, maps)
        return sums.to(windows.dtype)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        windows, filters, weight, maps = ctx.saved_tensors
        gradient = gradients[0].to(weight.dtype)
        grad_windows, grad_filters = torch.empty_like(windows), torch.zeros_like(filters)
        for chunk in _chunks(len(maps), filters.shape[0] * windows.shape[2]):
            at_maps = torch.mm(gradient[chunk], weight).view_as(maps[chunk]).to(windows.dtype)
            at_maps.mul_((maps[chunk] > 0).view(torch.uint8))
            grad_filters += torch.bmm(at_maps, windows[:, chunk].permute(1, 2, 0)).sum(0)
            grad_windows[:, chunk] = torch.bmm(filters.T.expand(len(at_maps), -1, -1), at_maps).transpose(0, 1)
        return grad_windows, grad_filters, gradient.T @ maps.flatten(1), None, None


def _chunks(queries: int, size: int) -> Iterator[slice]:
    """Slices of the queries, each with maps of ``size`` numbers."""
    step = max(1, CHUNK_MAPS // max(1, size))
    for first in range(0, queries, step):
        yield slice(first, first + step)

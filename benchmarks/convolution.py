"""Queries of ConvE and Conv-TransE, forward and backward, against torch's layers one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.measure import Line, Work, alternate
from tuckerkg.nn.decoders import ConvE, ConvTransE
from tuckerkg.types import Precision

QUERIES = 1_024
RELATIONS = 474


def run() -> Iterator[Line]:
    yield _line("ConvE", ConvE(100, 100), 100)
    yield _line("Conv-TransE", ConvTransE(100, 100), 100)
    yield _line("Conv-TransE", ConvTransE(200, 200, filters=64), 200)


def _line(name: str, decoder: ConvE | ConvTransE, dim: int) -> Line:
    torch.manual_seed(0)
    heads, relations = torch.randn(QUERIES, dim, requires_grad=True), torch.randn(RELATIONS, dim, requires_grad=True)
    ids, gradient = torch.randint(RELATIONS, (QUERIES,)), torch.randn(QUERIES, dim)
    layers = layer_by_layer(decoder)

    def ours(precision: Precision) -> None:
        decoder.set_precision(precision)
        decoder.query(heads, relations, ids).backward(gradient)

    found = alternate(
        {
            "ours": lambda: ours("float32"),
            "bfloat16": lambda: ours("bfloat16"),
            "torch": lambda: layers(heads, relations, ids).backward(gradient),
            "bare GEMM": _bare(decoder.project.in_features, dim),
        }
    )
    work = f"{name}, {QUERIES} queries, {decoder.convolution.out_channels} filters, d {dim}, forward + backward"
    line = Line("convolution", work, found["ours"].seconds, found["ours"].peak_memory_mb, "")
    line.rate = f"{QUERIES / line.seconds:,.0f} queries/s"
    line.hold("with bfloat16", found["bfloat16"], what="train.precision")
    line.hold("torch", found["torch"], what="convolution, norm, ReLU, dropout and projection one after the other")
    line.hold("bare GEMM", found["bare GEMM"], what="the projection's three products alone")
    return line


def layer_by_layer(decoder: nn.Module) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The same query from torch's own layers, with the decoder's parameters."""
    flat = isinstance(decoder, ConvTransE)
    norm = (nn.BatchNorm1d if flat else nn.BatchNorm2d)(decoder.convolution.out_channels)
    norm.load_state_dict(decoder.map_norm.state_dict(), strict=False)
    norm.train(decoder.training)

    def query(heads: Tensor, relations: Tensor, ids: Tensor) -> Tensor:
        rows = torch.stack([heads, F.embedding(ids, relations)], 1)  # [B, 2, d]
        if flat:
            lines = F.dropout(decoder.input_norm(rows), decoder.input_dropout, decoder.training)
            maps = F.relu(
                norm(F.conv1d(lines, decoder.convolution.weight, padding=decoder.convolution.kernel_size[0] // 2))
            )
            maps = F.dropout(maps, decoder.map_dropout, decoder.training)
        else:
            pictures = decoder.input_norm(rows.view(len(rows), 1, -1)).view(len(rows), 1, 2 * decoder.height, -1)
            pictures = F.dropout(pictures, decoder.input_dropout, decoder.training)
            maps = F.relu(norm(F.conv2d(pictures, decoder.convolution.weight)))
            maps = F.dropout2d(maps, decoder.map_dropout, decoder.training)
        queries = F.dropout(decoder.project(maps.flatten(1)), decoder.dropout, decoder.training)
        return F.relu(decoder.norm(queries))

    return query


def _bare(inputs: int, outputs: int) -> Work:
    maps, weight, gradient = torch.randn(QUERIES, inputs), torch.randn(outputs, inputs), torch.randn(QUERIES, outputs)

    def work() -> None:
        maps @ weight.T
        gradient @ weight
        gradient.T @ maps

    return work

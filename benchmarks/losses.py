"""The softmax loss over all candidates, forward and backward: ours beside torch's own ways to compute it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Line, alternate
from tuckerkg.kernels.comparison import Comparison
from tuckerkg.kernels.dot_product import DotProduct
from tuckerkg.losses.nt_xent import NTXent
from tuckerkg.losses.streaming import CHUNK_SCORES, streamed_loss

QUERIES, CANDIDATES, DIM = 4_096, 14_541, 100


def run(compiled: bool = True) -> Iterator[Line]:
    generator = torch.Generator().manual_seed(0)
    queries = (0.3 * torch.randn(QUERIES, DIM, generator=generator)).requires_grad_()
    candidates = (0.5 * torch.randn(CANDIDATES, DIM, generator=generator)).requires_grad_()
    targets = torch.randint(CANDIDATES, (QUERIES,), generator=generator)
    offsets = torch.arange(QUERIES + 1)

    def both(loss: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(loss(), (queries, candidates))

    chunk = CHUNK_SCORES // CANDIDATES
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=chunk, chunking_method=None)
    ways = {
        "ours": lambda: streamed_loss(NTXent(), DotProduct(), queries, candidates, offsets, targets),
        "ours, followed by autograd": lambda: streamed_loss(
            NTXent(), PlainDot(), queries, candidates, offsets, targets
        ),
        "torch linear_cross_entropy, whole": lambda: F.linear_cross_entropy(queries, candidates, targets),
        "torch linear_cross_entropy, chunked": lambda: F.linear_cross_entropy(
            queries, candidates, targets, options=options
        ),
    }
    if compiled:
        compiled_loss = torch.compile(F.linear_cross_entropy)
        ways["torch.compile of the whole"] = lambda: compiled_loss(queries, candidates, targets)
    reference = ways["torch linear_cross_entropy, whole"]().item()
    for name, way in ways.items():
        if abs(way().item() - reference) > 1e-4 * abs(reference):
            raise AssertionError(f"{name} computes another loss: {way().item()} instead of {reference}")
    found = alternate({name: both(way) for name, way in ways.items()}, repeats=5)
    ours = found.pop("ours")
    flops = 6.0 * QUERIES * CANDIDATES * DIM
    work = f"{QUERIES} queries x {CANDIDATES} candidates, d {DIM}, softmax, one positive each, forward + backward"
    line = Line("loss", work, ours.seconds, ours.peak_memory_mb, f"{flops / ours.seconds / 1e9:.0f} GFLOP/s")
    for name, other in found.items():
        line.hold(name, other)
    yield line


class PlainDot(Comparison):
    """A dot product whose gradient is autograd's."""

    def __call__(self, queries: Tensor, candidates: Tensor) -> Tensor:
        return queries @ candidates.T

"""The comparison that most decoders share: a dot product of queries with candidates, in tiles that stay in cache.

Scores are stored candidate by candidate, ``[M, B]``, and returned transposed. In that order the product and both of its
gradients run over contiguous rows, and a tile of candidates stays in a core's cache: one thread of MKL computes [128 x
14,541] scores at d = 100 at 43 GFLOP/s query by query, at 90 in tiles candidate by candidate. Cost: 2 B M d
multiply-adds forward, twice that for the gradients. ``make bench``, stages "loss" and "predict", shows how near the
limit it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.kernels.comparison import ChunkLoss, ChunkStep, Comparison
from tuckerkg.types import Precision

TILE = 1_024  # candidates per product, at least
TILE_SCORES = 1 << 18  # scores per product, where queries are few
SHARED_CANDIDATES = 1 << 17  # from here on threads share the candidates of a single query
REGISTER = 32  # bfloat16 numbers that a tile register's row takes


class DotProduct(Comparison):
    """``compare(queries [B, d], candidates [M, d]) -> scores [B, M]``.

    With ``precision`` "bfloat16" the products of a training step read rounded numbers, padded to whole registers, and
    add up in float32. Each of the two factors is then off by at most 2^-9 of itself, and the score by 2^-9 once more.
    """

    def __init__(self, precision: Precision = "float32") -> None:
        self.precision = precision

    def __call__(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """Unrounded scores; recorded by autograd where a gradient is needed."""
        if torch.is_grad_enabled() and (queries.requires_grad or candidates.requires_grad):
            return queries @ candidates.T
        if len(queries) == 1 and queries.device.type == "cpu":
            return _one_query(queries, candidates)
        scores = queries.new_empty(len(candidates), len(queries))
        return DotProduct().scores(queries, candidates, scores)

    def with_bias(self, queries: Tensor, candidates: Tensor, bias: Tensor) -> tuple[Comparison, Tensor, Tensor]:
        """The bias is one more column of the candidates, which meets a column of ones: the tiled product serves it."""
        return self, F.pad(queries, (0, 1), value=1.0), torch.cat([candidates, bias[:, None]], 1)

    def in_precision(self, precision: Precision) -> Comparison:
        """A dot product whose training step computes in ``precision``."""
        return DotProduct(precision)

    def stream(self, candidates: Tensor) -> ChunkStep:
        """Gradients are added straight to their sums, and one buffer of scores serves all chunks."""
        table = self.operand(candidates)
        buffer = candidates.new_empty(0)

        def step(loss: ChunkLoss, queries: Tensor, grad_queries: Tensor, grad_candidates: Tensor) -> Tensor:
            nonlocal buffer
            size = len(candidates) * len(queries)
            buffer = buffer if buffer.numel() >= size else candidates.new_empty(size)
            rows = self.operand(queries)
            scores = self.scores(rows, table, buffer[:size].view(len(candidates), len(queries)))
            value, gradient = loss(scores)
            self.add_gradients(gradient, rows, table, grad_queries, grad_candidates)
            return value

        return step

    def operand(self, rows: Tensor) -> Tensor:
        """``rows [n, d]`` as ``scores`` and ``add_gradients`` read them."""
        if self.precision == "float32":
            return rows
        return F.pad(rows, (0, -rows.shape[1] % REGISTER)).bfloat16()

    def scores(self, queries: Tensor, candidates: Tensor, out: Tensor) -> Tensor:
        """Write the scores of two operands into ``out [M, B]`` and return the transposed view ``[B, M]``."""
        for tile in _tiles(candidates, len(queries)):
            if self.precision == "float32":
                torch.mm(candidates[tile], queries.T, out=out[tile])
            else:
                out[tile] = torch.mm(candidates[tile], queries.T)
        return out.T

    def add_gradients(
        self, gradient: Tensor, queries: Tensor, candidates: Tensor, grad_queries: Tensor, grad_candidates: Tensor
    ) -> None:
        """Add what ``gradient [B, M]`` of the scores of two operands means for either, in place."""
        width = grad_queries.shape[1]
        for tile in _tiles(candidates, len(queries)):
            part = gradient.T[tile]  # [m, B]
            if self.precision == "float32":
                grad_queries.addmm_(part.T, candidates[tile])
                grad_candidates[tile].addmm_(part, queries)
            else:
                part = part.bfloat16()
                grad_queries += (part.T @ candidates[tile])[:, :width]
                grad_candidates[tile] += (part @ queries)[:, :width]


def _one_query(query: Tensor, candidates: Tensor) -> Tensor:
    """Scores ``[1, M]`` of ``query [1, d]``. Bound by reading the candidates, so all threads share the reading."""
    parts = torch.get_num_threads() if len(candidates) >= SHARED_CANDIDATES else 1
    if parts == 1:
        return torch.mv(candidates, query[0])[None]
    shared = len(candidates) // parts * parts
    scores = query.new_empty(1, len(candidates))
    shares = candidates[:shared].view(parts, shared // parts, -1)
    turned = query.T.expand(parts, -1, 1)  # a row that is turned: a column of its own takes three times as long
    torch.bmm(shares, turned, out=scores[0, :shared].view(parts, -1, 1))
    torch.mv(candidates[shared:], query[0], out=scores[0, shared:])
    return scores


def _tiles(candidates: Tensor, num_queries: int) -> Iterator[slice]:
    """On the CPU pieces that fit a cache; elsewhere one piece."""
    size = max(len(candidates), 1)
    if candidates.device.type == "cpu":
        size = max(TILE, TILE_SCORES // max(num_queries, 1))
    for first in range(0, len(candidates), size):
        yield slice(first, first + size)

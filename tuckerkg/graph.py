"""The message graph: edges folded into distinct (source, relation) pairs, and the normalised sum at the targets."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tuckerkg.grouping import RowGroups

Normalise = Literal["relation", "degree"]


@dataclass(frozen=True)
class MessageGraph:
    """What a layer needs of the edges (source, relation, target) of N entities.

    A message depends on its (source, relation) pair only, so it is made once per distinct pair and then summed at
    every target: ``total = weights [N, P'] @ messages [P', d]``, where P' are the pairs in the padded order of
    ``groups`` and an edge's weight is 1 / c of its target.
    """

    num_entities: int
    groups: RowGroups
    sources: Tensor  # [P'] source entity of each padded pair
    multiplicity: Tensor  # [P'] number of edges that carry the pair, 0 in padding
    out_degree: Tensor  # [N] number of edges that leave each entity
    weights: Tensor  # sparse CSR [N, P']
    weights_transposed: Tensor  # sparse CSR [P', N]

    @classmethod
    def of(
        cls, edges: Tensor, num_entities: int, normalise: Normalise = "relation", dtype: torch.dtype = torch.float32
    ) -> MessageGraph:
        """Prepares ``edges [E, 3]`` of (source, relation, target) ids.

        ``normalise`` chooses c: "relation" counts the target's edges of the same relation, as Eq. (3) has it;
        "degree" counts all edges of the target, as the authors' runs do.
        """
        if normalise not in ("relation", "degree"):
            raise ValueError(f"normalise is 'relation' or 'degree', got {normalise!r}")
        sources, relation_ids, targets = edges.unbind(1)
        pairs, pair_of_edge, counts = torch.unique(
            relation_ids * num_entities + sources, return_inverse=True, return_counts=True
        )
        groups = RowGroups.of(pairs // max(num_entities, 1))
        padded = groups.source.numel()
        multiplicity = torch.zeros(padded, dtype=dtype, device=edges.device)
        multiplicity[groups.position] = counts.to(dtype)
        rows = groups.position[pair_of_edge]  # [E] padded pair of each edge
        edge_weights = 1.0 / _normaliser(relation_ids, targets, num_entities, normalise).to(dtype)
        return cls(
            num_entities=num_entities,
            groups=groups,
            sources=(pairs % max(num_entities, 1))[groups.source],
            multiplicity=multiplicity,
            out_degree=torch.bincount(sources, minlength=num_entities).to(dtype),
            weights=_csr(targets, rows, edge_weights, (num_entities, padded)),
            weights_transposed=_csr(rows, targets, edge_weights, (padded, num_entities)),
        )

    @property
    def num_edges(self) -> int:
        """Number of edges, repeated ones included."""
        return int(self.multiplicity.sum())

    def to(self, device: torch.device | str) -> MessageGraph:
        """The same graph on ``device``."""
        return MessageGraph(
            self.num_entities,
            self.groups.to(device),
            self.sources.to(device),
            self.multiplicity.to(device),
            self.out_degree.to(device),
            self.weights.to(device),
            self.weights_transposed.to(device),
        )

    def sum_at_targets(self, messages: Tensor) -> Tensor:
        """``sum over edges of message / c`` at each target: ``[P', d] -> [N, d]``."""
        if messages.shape[0] == 0:
            return messages.new_zeros(self.num_entities, messages.shape[1])
        total: Tensor = _SparseProduct.apply(  # type: ignore[no-untyped-call]
            self.weights, self.weights_transposed, messages
        )
        return total


def _normaliser(relation_ids: Tensor, targets: Tensor, num_entities: int, normalise: Normalise) -> Tensor:
    """c of every edge, ``[E]``."""
    key = targets if normalise == "degree" else relation_ids * num_entities + targets
    _, inverse, counts = torch.unique(key, return_inverse=True, return_counts=True)
    found: Tensor = counts[inverse]
    return found


def _csr(rows: Tensor, columns: Tensor, values: Tensor, shape: Sequence[int]) -> Tensor:
    order = torch.argsort(rows * shape[1] + columns)
    offsets = torch.zeros(shape[0] + 1, dtype=torch.long, device=rows.device)
    torch.cumsum(torch.bincount(rows, minlength=shape[0]), 0, out=offsets[1:])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(offsets, columns[order], values[order], tuple(shape), check_invariants=False)


class _SparseProduct(torch.autograd.Function):
    """Fixed sparse matrix times dense; the transpose is at hand for the gradient."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, transposed: Tensor, dense: Tensor) -> Tensor:
        ctx.transposed = transposed
        product: Tensor = weights @ dense
        return product

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transposed @ gradients[0].contiguous()

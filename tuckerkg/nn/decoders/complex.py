"""ComplEx (Trouillon et al., 2016) as decoder."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.kernels.batch_norm import WeightedBatchNorm
from tuckerkg.nn.contracts import Decoder
from tuckerkg.ranges import Dropout


class ComplEx(nn.Module, Decoder):
    """``phi(s, r, t) = Re(sum over i of h_i e_i conj(t_i))`` in dim / 2 complex numbers.

    A row holds all real parts, then all imaginary ones, so that the real part of the product with conj(t) is the dot
    product of two rows.

    Args:
        dropout: on the head.
        norm: batch norm on the head, as TuckER has it.
    """

    def __init__(self, dim: int, relation_dim: int, *, dropout: Dropout = 0.0, norm: bool = False) -> None:
        super().__init__()
        if dim != relation_dim or dim % 2:
            raise ValueError(
                f"ComplEx needs relation_dim = dim and an even dim (half real, half imaginary), "
                f"got dim {dim} and relation_dim {relation_dim}; set model.dim and model.relation_dim to the same "
                "even number"
            )
        self.norm = WeightedBatchNorm(dim) if norm else None
        self.dropout = dropout

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d]``, ``relation_ids [B]`` -> the products h e_r, ``[B, d]``."""
        heads = heads if self.norm is None else self.norm(heads)
        heads = F.dropout(heads, self.dropout, self.training)
        return complex_product(heads, F.embedding(relation_ids, relations))

    def magnitudes(self, rows: Tensor) -> Tensor:
        """Moduli ``[B, d / 2]`` of ``rows [B, d]``: what a norm of complex numbers is taken over."""
        real, imaginary = rows.chunk(2, 1)
        return (real.square() + imaginary.square()).clamp(min=torch.finfo(rows.dtype).tiny).sqrt()


def complex_product(left: Tensor, right: Tensor) -> Tensor:
    """Products of complex numbers kept as halves: ``[B, d], [B, d] -> [B, d]``."""
    (a, b), (c, d) = left.chunk(2, 1), right.chunk(2, 1)
    return torch.cat([a * c - b * d, a * d + b * c], 1)

"""RotatE (Sun et al., 2019) as decoder."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.kernels.distance import ModulusDistance, Norm, NormDistance
from tuckerkg.nn.contracts import Decoder
from tuckerkg.nn.decoders.complex import complex_product
from tuckerkg.ranges import Dropout, PositiveFloat

ANGLE = 10.0  # radians per unit of a relation's row: rows that start with deviation .1 start as angles of deviation 1


class RotatE(nn.Module, Decoder):
    """``phi(s, r, t) = margin - sum over i of |h_i exp(i a_i) - t_i|`` in dim / 2 complex numbers; has no parameters.

    A relation is its dim / 2 angles ``a = 10 e_r``.

    Args:
        margin: the score of distance 0.
        p: 1 adds up the moduli; 2 takes the root of the sum of their squares, as PyG and PyKEEN do.
        dropout: on the head.
    """

    def __init__(
        self, dim: int, relation_dim: int, *, margin: PositiveFloat = 9.0, p: Norm = 1, dropout: Dropout = 0.0
    ) -> None:
        super().__init__()
        if dim % 2 or relation_dim * 2 != dim:
            raise ValueError(
                f"RotatE turns dim / 2 complex numbers by one angle each and needs relation_dim = dim / 2, "
                f"got dim {dim} and relation_dim {relation_dim}; set model.relation_dim={max(1, dim // 2)} "
                "(with the encoder compgcn: encoder.out_relation_dim)"
                + (f" and model.dim={dim + 1}" if dim % 2 else "")
            )
        self.dropout = dropout
        self.comparison = ModulusDistance(margin) if p == 1 else NormDistance(margin, 2)

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d / 2]``, ``relation_ids [B]`` -> turned heads ``[B, d]``."""
        angles = ANGLE * F.embedding(relation_ids, relations)
        heads = F.dropout(heads, self.dropout, self.training)
        return complex_product(heads, torch.cat([angles.cos(), angles.sin()], 1))

"""RESCAL (Nickel et al., 2011) as decoder."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.row_groups import RowGroups, grouped_product
from tuckerkg.nn.contracts import Decoder
from tuckerkg.ranges import Dropout


class RESCAL(nn.Module, Decoder):
    """``phi(s, r, t) = h_s^T W_r h_t``; a relation's row is its matrix, so relation_dim is dim^2.

    Args:
        dropout: on the head.
    """

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        *,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        if relation_dim != dim * dim:
            raise ValueError(
                f"RESCAL has a matrix per relation and needs relation_dim = dim^2, "
                f"got dim {dim} and relation_dim {relation_dim}; set model.relation_dim={dim * dim} "
                "(with the encoder compgcn: encoder.out_relation_dim)"
            )
        self.dropout = dropout

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d^2]``, ``relation_ids [B]`` -> queries h W_r, ``[B, d]``."""
        groups = RowGroups.of(relation_ids) if groups is None else groups
        width = heads.shape[1]
        heads = F.dropout(heads, self.dropout, self.training)
        matrices = F.embedding(groups.used, relations).view(-1, width, width)
        queries = grouped_product(F.embedding(groups.source, heads), matrices, groups)
        return F.embedding(groups.position, queries)

    def relation_matrices(self, relations: Tensor) -> Tensor:
        """``[n, d^2] -> [n, d, d]``."""
        width = math.isqrt(relations.shape[1])
        return relations.view(-1, width, width)

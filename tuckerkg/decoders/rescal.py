"""RESCAL (Nickel et al., 2011) as decoder."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.dot import DotProduct
from tuckerkg.grouping import RowGroups
from tuckerkg.norm import WeightedBatchNorm
from tuckerkg.options import Dropout
from tuckerkg.tucker import grouped_product


class RESCAL(nn.Module):
    """``phi(s, r, t) = h_s^T W_r h_t``; a relation's row is its matrix, so relation_dim is dim^2.

    ``norm``, off by default, puts a batch norm on the head, as TuckER has it.
    """

    compare = DotProduct()

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        *,
        dropout: Dropout = 0.0,
        query_dropout: Dropout = 0.0,
        norm: bool = False,
    ) -> None:
        super().__init__()
        if relation_dim != dim * dim:
            raise ValueError(
                f"RESCAL has a matrix per relation and needs relation_dim = dim^2, "
                f"got dim {dim} and relation_dim {relation_dim}; set model.relation_dim={dim * dim} "
                "(with the encoder compgcn: encoder.out_relation_dim)"
            )
        self.norm = WeightedBatchNorm(dim) if norm else None
        self.dropout, self.query_dropout = dropout, query_dropout

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d^2]``, ``relation_ids [B]`` -> queries h W_r, ``[B, d]``."""
        groups = RowGroups.of(relation_ids) if groups is None else groups
        width = heads.shape[1]
        heads = heads if self.norm is None else self.norm(heads)
        heads = F.dropout(heads, self.dropout, self.training)
        matrices = F.embedding(groups.used, relations).view(-1, width, width)
        queries = grouped_product(F.embedding(groups.source, heads), matrices, groups)
        return F.dropout(F.embedding(groups.position, queries), self.query_dropout, self.training)

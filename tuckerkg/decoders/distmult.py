"""DistMult as decoder, Eq. (8)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.dot import DotProduct
from tuckerkg.grouping import RowGroups
from tuckerkg.norm import WeightedBatchNorm
from tuckerkg.options import Dropout


class DistMult(nn.Module):
    """``phi(s, r, t) = h_s^T diag(e_r) h_t``; the query is ``h_s * e_r``. Has no parameters of its own.

    ``norm``, off by default, puts a batch norm on the head, as TuckER has it.
    """

    compare = DotProduct()

    def __init__(self, dim: int, relation_dim: int, *, dropout: Dropout = 0.0, norm: bool = False) -> None:
        super().__init__()
        if dim != relation_dim:
            raise ValueError(
                f"DistMult multiplies entities with relations and needs relation_dim = dim, "
                f"got dim {dim} and relation_dim {relation_dim}; set model.relation_dim={dim}"
            )
        self.norm = WeightedBatchNorm(dim) if norm else None
        self.dropout = dropout

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d]``, ``relation_ids [B]`` -> queries ``[B, d]``."""
        return self._prepared(heads) * F.embedding(relation_ids, relations)

    def _prepared(self, heads: Tensor) -> Tensor:
        """Heads ``[B, d]`` normed and dropped, as far as that is wanted."""
        if self.norm is not None:
            heads = self.norm(heads)
        return F.dropout(heads, self.dropout, self.training)

    def relation_query(self, heads: Tensor, tails: Tensor) -> Tensor:
        """``h_s * h_t`` of rows side by side, ``[B, d]``: its products with relations are the scores."""
        return self._prepared(heads) * tails

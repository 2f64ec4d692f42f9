"""DistMult as decoder, Eq. (8)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.dot import DotProduct
from tuckerkg.grouping import RowGroups
from tuckerkg.options import Dropout


class DistMult(nn.Module):
    """``phi(s, r, t) = h_s^T diag(e_r) h_t``; the query is ``h_s * e_r``. Has no parameters."""

    compare = DotProduct()

    def __init__(self, dim: int, relation_dim: int, *, dropout: Dropout = 0.0) -> None:
        super().__init__()
        if dim != relation_dim:
            raise ValueError(
                f"DistMult multiplies entities with relations and needs relation_dim = dim, "
                f"got dim {dim} and relation_dim {relation_dim}; set model.relation_dim={dim}"
            )
        self.dropout = dropout

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d]``, ``relation_ids [B]`` -> queries ``[B, d]``."""
        return F.dropout(heads, self.dropout, self.training) * F.embedding(relation_ids, relations)

    def relation_query(self, heads: Tensor, tails: Tensor) -> Tensor:
        """``h_s * h_t`` of rows side by side, ``[B, d]``: its products with relations are the scores."""
        return F.dropout(heads, self.dropout, self.training) * tails

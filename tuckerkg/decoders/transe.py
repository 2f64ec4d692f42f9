"""TransE (Bordes et al., 2013) as decoder."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.distance import Norm, NormDistance
from tuckerkg.grouping import RowGroups
from tuckerkg.options import Dropout, PositiveFloat


class TransE(nn.Module):
    """``phi(s, r, t) = margin - |h_s + e_r - h_t|_p`` with ``p`` 1 or 2; has no parameters."""

    def __init__(
        self, dim: int, relation_dim: int, *, margin: PositiveFloat = 9.0, p: Norm = 1, dropout: Dropout = 0.0
    ) -> None:
        super().__init__()
        if dim != relation_dim:
            raise ValueError(
                f"TransE adds relations to entities and needs relation_dim = dim, "
                f"got dim {dim} and relation_dim {relation_dim}; set model.relation_dim={dim}"
            )
        self.dropout = dropout
        self.compare = NormDistance(margin, p)

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d]``, ``relation_ids [B]`` -> moved heads ``[B, d]``."""
        return F.dropout(heads, self.dropout, self.training) + F.embedding(relation_ids, relations)

"""DistMult as decoder, Eq. (8)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.kernels.batch_norm import WeightedBatchNorm
from tuckerkg.nn.contracts import Decoder
from tuckerkg.ranges import Dropout


class DistMult(nn.Module, Decoder):
    """``phi(s, r, t) = h_s^T diag(e_r) h_t``; the query is ``h_s * e_r``. Has no parameters of its own.

    Args:
        dropout: on the head.
        norm: batch norm on the head, as TuckER has it.
    """

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
        heads = heads if self.norm is None else self.norm(heads)
        return F.dropout(heads, self.dropout, self.training) * F.embedding(relation_ids, relations)

"""TuckER as decoder, Eq. (9)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.kernels.batch_norm import WeightedBatchNorm
from tuckerkg.nn.contracts import Decoder
from tuckerkg.nn.tucker_core import TuckerCore
from tuckerkg.ranges import Dropout


class TuckER(nn.Module, Decoder):
    """``phi(s, r, t) = W_c x1 h_s x2 e_r x3 h_t``; the query is ``W_c x1 h_s x2 e_r``.

    Args:
        norm: batch norm on the head, as in the paper.
        dropout: on the head, dr_d in the paper.
        query_dropout: on the query, as in TuckER's own code.
    """

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        *,
        dropout: Dropout = 0.0,
        norm: bool = True,
        query_dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        # Normed heads and candidates would start with scores of deviation sqrt(dim), far from a uniform softmax.
        self.core = TuckerCore(dim, relation_dim, dim, gain=dim**-0.5)
        self.norm = WeightedBatchNorm(dim) if norm else None
        self.dropout, self.query_dropout = dropout, query_dropout

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d_r]``, ``relation_ids [B]`` -> queries ``[B, d]``."""
        groups = RowGroups.of(relation_ids) if groups is None else groups
        heads = heads if self.norm is None else self.norm(heads)
        heads = F.dropout(heads, self.dropout, self.training)
        queries = self.core(F.embedding(groups.source, heads), relations, groups)  # Eq. (9)
        queries = F.embedding(groups.position, queries)  # [B, d]
        return F.dropout(queries, self.query_dropout, self.training)

    def relation_matrices(self, relations: Tensor) -> Tensor:
        """``W_c x2 e_r``: ``[n, d_r] -> [n, d, d]``."""
        core = self.core.core
        return (relations @ core.flatten(1)).view(-1, *core.shape[1:])

"""TuckER as decoder, Eq. (9)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.dot import DotProduct
from tuckerkg.grouping import RowGroups
from tuckerkg.norm import WeightedBatchNorm
from tuckerkg.options import Dropout, NonNegativeFloat
from tuckerkg.tucker import TuckerCore


class TuckER(nn.Module):
    """``phi(s, r, t) = W_c x1 h_s x2 e_r x3 h_t``; the query is ``W_c x1 h_s x2 e_r``.

    As in the paper: batch norm and dropout (``dropout``, dr_d) on the head. Off by default: ``query_norm`` and
    ``query_dropout``, the same on the query, and ``relation_dropout`` on the relations' matrices, as TuckER's own code
    has them; ``orthogonality``, the weight of a penalty on relation matrices that stretch what they turn (MEIM, Tran
    and Takasu 2022); ``translation``, a vector per relation added to the query, a linear image of the relation;
    ``activation`` "prelu", which bends the normed head with a learnt slope (NePTuNe, Sonkar et al. 2021).
    """

    compare = DotProduct()

    def __init__(  # noqa: PLR0913  (its settings)
        self,
        dim: int,
        relation_dim: int,
        *,
        dropout: Dropout = 0.0,
        norm: bool = True,
        query_dropout: Dropout = 0.0,
        query_norm: bool = False,
        relation_dropout: Dropout = 0.0,
        orthogonality: NonNegativeFloat = 0.0,
        translation: bool = False,
        activation: Literal["none", "prelu"] = "none",
    ) -> None:
        super().__init__()
        # Normed heads and candidates would start with scores of deviation sqrt(dim), far from a uniform softmax.
        self.core = TuckerCore(dim, relation_dim, dim, relation_dropout=relation_dropout, gain=dim**-0.5)
        self.norm = WeightedBatchNorm(dim) if norm else None
        self.query_norm = WeightedBatchNorm(dim) if query_norm else None
        self.dropout, self.query_dropout = dropout, query_dropout
        self.orthogonality = orthogonality
        self.slope = nn.Parameter(torch.full((1,), 0.25)) if activation == "prelu" else None
        self.translation = nn.Parameter(torch.zeros(relation_dim, dim)) if translation else None

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d_r]``, ``relation_ids [B]`` -> queries ``[B, d]``."""
        groups = RowGroups.of(relation_ids) if groups is None else groups
        heads = self._prepared(heads)
        queries = self.core(F.embedding(groups.source, heads), relations, groups)
        queries = F.embedding(groups.position, queries)  # [B, d]
        if self.translation is not None:
            queries = queries + F.embedding(relation_ids, relations @ self.translation)
        if self.query_norm is not None:
            queries = self.query_norm(queries)
        return F.dropout(queries, self.query_dropout, self.training)

    def _prepared(self, heads: Tensor) -> Tensor:
        """Heads ``[B, d]`` normed, bent and dropped, as far as that is wanted."""
        if self.norm is not None:
            heads = self.norm(heads)
        if self.slope is not None:
            heads = F.prelu(heads, self.slope)
        return F.dropout(heads, self.dropout, self.training)

    def relation_query(self, heads: Tensor, tails: Tensor) -> Tensor:
        """``W_c x1 h_s x3 h_t`` of rows side by side, ``[B, d_r]``: its products with relations are the scores."""
        heads = self._prepared(heads)
        core = self.core.core  # [d_r, d, d]
        sides = (heads @ core.permute(1, 0, 2).flatten(1)).view(len(heads), *core.shape[::2])  # [B, d_r, d]
        return torch.bmm(sides, tails[:, :, None])[:, :, 0]

    def penalty(self, relations: Tensor) -> Tensor:
        """``orthogonality`` times the mean over ``relations [R', d_r]`` of ``|W_r^T W_r - I|_F^2 / d``."""
        core = self.core.core
        matrices = (relations @ core.flatten(1)).view(-1, *core.shape[1:])  # [2R, d, d]
        excess = matrices.mT @ matrices - torch.eye(core.shape[2], dtype=core.dtype, device=core.device)
        return self.orthogonality * excess.square().sum((1, 2)).mean() / core.shape[2]

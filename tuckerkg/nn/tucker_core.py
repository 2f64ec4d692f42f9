"""The contraction W_c x1 h x2 e_r, with a full core or its CP form: TGCN's message and TuckER's query alike."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.row_groups import RowGroups, grouped_product

# Rows are gathered by F.embedding throughout: unlike indexing, its gradient on the CPU adds up in a fixed order,
# which a run that is resumed bit for bit needs.


class TuckerCore(nn.Module):
    """``m = W_c x1 h x2 e_r`` for rows grouped by relation: Eq. (3), or Eq. (7) with ``bases`` > 0.

    The full core is kept as ``[relation_dim, in_dim, out_dim]``, so that the relations' matrices are one product.
    The CP core is [[W_1, W_2, W_3]]: W_1 ``[bases, relation_dim]``, W_2 ``[bases, in_dim]``, W_3 ``[bases, out_dim]``.
    """

    def __init__(
        self,
        in_dim: int,
        relation_dim: int,
        out_dim: int,
        *,
        bases: int = 0,
        relation_dropout: float = 0.0,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        if min(in_dim, relation_dim, out_dim) < 1 or bases < 0:
            raise ValueError(
                f"a Tucker core needs positive sizes and bases >= 0 (0 is the full core), "
                f"got in_dim {in_dim}, relation_dim {relation_dim}, out_dim {out_dim}, bases {bases}"
            )
        self.in_dim, self.relation_dim, self.out_dim, self.bases = in_dim, relation_dim, out_dim, bases
        self.relation_dropout, self.gain = relation_dropout, gain
        if bases:
            self.w1 = nn.Parameter(torch.empty(bases, relation_dim))
            self.w2 = nn.Parameter(torch.empty(bases, in_dim))
            self.w3 = nn.Parameter(torch.empty(bases, out_dim))
        else:
            self.core = nn.Parameter(torch.empty(relation_dim, in_dim, out_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier normal times ``gain``; the full core as the matrix that each relation's unit direction selects."""
        if self.bases:
            for factor in (self.w1, self.w2, self.w3):
                nn.init.xavier_normal_(factor)
        else:
            nn.init.normal_(self.core, std=self.gain * (2.0 / (self.in_dim + self.out_dim)) ** 0.5)

    def forward(self, rows: Tensor, relations: Tensor, groups: RowGroups) -> Tensor:
        """Contract padded ``rows [P', in_dim]`` with ``relations [2R, relation_dim]`` -> ``[P', out_dim]``."""
        if rows.shape[0] == 0:
            return rows.new_zeros(0, self.out_dim)
        if self.bases:
            return (rows @ self.w2.T * F.embedding(groups.relation_ids, self.factors(relations))) @ self.w3
        return grouped_product(rows, self.matrices(relations, groups), groups)

    def matrices(self, relations: Tensor, groups: RowGroups) -> Tensor:
        """Full core: the matrices ``W_c x2 e_r`` of the relations in use, ``[R', in_dim, out_dim]``."""
        used = F.embedding(groups.used, relations)
        matrices = (used @ self.core.flatten(1)).view(-1, self.in_dim, self.out_dim)
        # Differs from the authors' code: one mask per relation and step, not per edge, so that rows stay grouped.
        return F.dropout(matrices, self.relation_dropout, self.training)

    def factors(self, relations: Tensor) -> Tensor:
        """CP core: the projected relations ``[2R, bases]``."""
        return F.dropout(relations @ self.w1.T, self.relation_dropout, self.training)

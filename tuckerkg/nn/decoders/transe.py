"""TransE (Bordes et al., 2013) as decoder."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.kernels.distance import Norm, NormDistance
from tuckerkg.nn.contracts import Decoder
from tuckerkg.ranges import PositiveFloat


class TransE(nn.Module, Decoder):
    """``phi(s, r, t) = margin - |h_s + e_r - h_t|_p``; has no parameters.

    Args:
        margin: the score of distance 0.
        p: the norm of the distance, 1 or 2.
    """

    def __init__(self, dim: int, relation_dim: int, *, margin: PositiveFloat = 9.0, p: Norm = 1) -> None:
        super().__init__()
        if dim != relation_dim:
            raise ValueError(
                f"TransE adds relations to entities and needs relation_dim = dim, "
                f"got dim {dim} and relation_dim {relation_dim}; set model.relation_dim={dim}"
            )
        self.comparison = NormDistance(margin, p)

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d]``, ``relation_ids [B]`` -> moved heads ``[B, d]``."""
        return heads + F.embedding(relation_ids, relations)

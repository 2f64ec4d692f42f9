"""ConvE (Dettmers et al., 2018) as decoder."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.dot import DotProduct
from tuckerkg.grouping import RowGroups
from tuckerkg.norm import WeightedBatchNorm
from tuckerkg.options import Dropout, Positive


class ConvE(nn.Module):
    """The query is a small convolutional network's view of head over relation, each a picture of ``height`` rows.

    ``q = relu(norm(W vec(relu(norm(conv(norm([h; e_r])))))))``. The published model adds a bias per entity to the
    score: ``model.bias="free"``.
    """

    compare = DotProduct()

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        *,
        height: Positive = 10,
        filters: Positive = 32,
        kernel: Positive = 3,
        input_dropout: Dropout = 0.2,
        map_dropout: Dropout = 0.2,
        dropout: Dropout = 0.3,
    ) -> None:
        super().__init__()
        if dim != relation_dim or dim % height:
            raise ValueError(
                f"ConvE lays head over relation, each as a picture of {height} rows, and needs relation_dim = dim, "
                f"divisible by decoder.height; got dim {dim} and relation_dim {relation_dim}"
            )
        self.height, width = height, dim // height
        if kernel > min(2 * height, width):
            raise ValueError(
                f"a picture of {2 * height} x {width} has no room for decoder.kernel={kernel}; "
                "choose a smaller kernel or another decoder.height"
            )
        self.input_dropout, self.map_dropout, self.dropout = input_dropout, map_dropout, dropout
        self.input_norm = nn.BatchNorm2d(1)
        self.convolution = nn.Conv2d(1, filters, kernel)
        self.map_norm = nn.BatchNorm2d(filters)
        self.project = nn.Linear(filters * (2 * height - kernel + 1) * (width - kernel + 1), dim)
        self.norm = WeightedBatchNorm(dim)

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d]``, ``relation_ids [B]`` -> queries ``[B, d]``."""
        rows = torch.cat([heads, F.embedding(relation_ids, relations)], 1)
        picture = self.input_norm(rows.view(len(rows), 1, 2 * self.height, -1))
        picture = F.dropout(picture, self.input_dropout, self.training)
        maps = F.relu(self.map_norm(self.convolution(picture)))
        maps = F.dropout2d(maps, self.map_dropout, self.training)
        queries = F.dropout(self.project(maps.flatten(1)), self.dropout, self.training)
        return F.relu(self.norm(queries))

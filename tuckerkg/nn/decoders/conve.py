"""ConvE (Dettmers et al., 2018) as decoder."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.kernels.batch_norm import WeightedBatchNorm
from tuckerkg.kernels.dropout import dropout, kept_bytes
from tuckerkg.kernels.feature_maps import picture_windows, projected_maps
from tuckerkg.nn.contracts import Decoder
from tuckerkg.ranges import Dropout, Positive
from tuckerkg.types import Precision


class ConvE(nn.Module, Decoder):
    """The query is a small convolutional network's view of head over relation, each a picture of ``height`` rows.

    ``q = relu(norm(W vec(relu(norm(conv(norm([h; e_r])))))))``. The published model adds a bias per entity to the
    score: ``model.bias="free"``, and one per filter, which the norm behind it takes out again.

    Args:
        height: rows of the picture of the head, and of the relation below it.
        filters: feature maps.
        kernel: side of a filter's square window.
        input_dropout: on the picture.
        map_dropout: on whole feature maps.
        dropout: on the projected query.
        layout: "stacked" lays head over relation, with one batch norm for the whole picture: only windows where the two
            meet see both. "interleaved" lets their numbers take turns, as in CompGCN's published runs, so that every
            window sees both, and has a batch norm for each, for encoders that give them different sizes.
    """

    def __init__(  # noqa: PLR0913  (options, by keyword only)
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
        layout: Literal["stacked", "interleaved"] = "stacked",
    ) -> None:
        super().__init__()
        if dim != relation_dim or dim % height:
            raise ValueError(
                f"ConvE lays head over relation, each as a picture of {height} rows, and needs relation_dim = dim, "
                f"divisible by decoder.height; got dim {dim} and relation_dim {relation_dim}"
            )
        self.height, self.interleaved, width = height, layout == "interleaved", dim // height
        self.precision: Precision = "float32"
        if kernel > min(2 * height, width):
            raise ValueError(
                f"a picture of {2 * height} x {width} has no room for decoder.kernel={kernel}; "
                "choose a smaller kernel or another decoder.height"
            )
        self.input_dropout, self.map_dropout, self.dropout = input_dropout, map_dropout, dropout
        self.input_norm = nn.BatchNorm1d(2 if self.interleaved else 1)
        self.convolution = nn.Conv2d(1, filters, kernel, bias=False)
        self.map_norm = WeightedBatchNorm(filters)
        self.project = nn.Linear(filters * (2 * height - kernel + 1) * (width - kernel + 1), dim)
        self.norm = WeightedBatchNorm(dim)

    def set_precision(self, precision: Precision) -> None:
        """Of the projection in a training step."""
        self.precision = precision

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d]``, ``relation_ids [B]`` -> queries ``[B, d]``."""
        rows = torch.cat([heads, F.embedding(relation_ids, relations)], 1)
        rows = self.input_norm(rows.view(len(rows), self.input_norm.num_features, -1))
        if self.interleaved:
            rows = rows.reshape(len(rows), 2, -1).transpose(1, 2).contiguous()
        pictures = dropout(rows.view(len(rows), 2 * self.height, -1), self.input_dropout, self.training)
        filters = (len(rows), self.convolution.out_channels, 1)  # a map is dropped as a whole
        windows = picture_windows(pictures, self.convolution.kernel_size[0])
        kept, gain = kept_bytes(self.map_dropout, self.training, filters, rows.device)
        precision = self.precision if self.training else "float32"
        queries = projected_maps(windows, self.convolution, self.map_norm, self.project, kept, gain, precision)
        return F.relu(self.norm(dropout(queries, self.dropout, self.training)))

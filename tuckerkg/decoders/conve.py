"""ConvE (Dettmers et al., 2018) as decoder."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.dot import DotProduct, Precision
from tuckerkg.dropout import dropout, kept_bytes
from tuckerkg.feature_maps import picture_windows, projected_maps
from tuckerkg.grouping import RowGroups
from tuckerkg.norm import WeightedBatchNorm
from tuckerkg.options import Dropout, Positive, PositiveFloat


class ConvE(nn.Module):
    """The query is a small convolutional network's view of head over relation, each a picture of ``height`` rows.

    ``q = relu(norm(W vec(relu(norm(conv(norm([h; e_r])))))))``. The published model adds a bias per entity to the
    score: ``model.bias="free"``, and one per filter, which the norm behind it takes out again.
    Its first norm is one for the whole picture; with ``norm_each`` head and relation have one each, for encoders that
    give them different sizes. With ``interleave`` their numbers take turns in the picture, as in CompGCN's published
    runs, so that every window sees both; else only those where the two meet do. ``gain`` is the start of the last
    norm's scale: behind an encoder whose output is normed, 1 would start with scores far from a uniform softmax.
    """

    compare = DotProduct()
    precision: Precision = "float32"  # of the projection in a training step; the model sets it

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
        norm_each: bool = False,
        interleave: bool = False,
        gain: PositiveFloat = 1.0,
    ) -> None:
        super().__init__()
        if dim != relation_dim or dim % height:
            raise ValueError(
                f"ConvE lays head over relation, each as a picture of {height} rows, and needs relation_dim = dim, "
                f"divisible by decoder.height; got dim {dim} and relation_dim {relation_dim}"
            )
        self.height, self.interleave, width = height, interleave, dim // height
        if kernel > min(2 * height, width):
            raise ValueError(
                f"a picture of {2 * height} x {width} has no room for decoder.kernel={kernel}; "
                "choose a smaller kernel or another decoder.height"
            )
        self.input_dropout, self.map_dropout, self.dropout = input_dropout, map_dropout, dropout
        self.input_norm = nn.BatchNorm1d(2 if norm_each else 1)
        self.convolution = nn.Conv2d(1, filters, kernel, bias=False)
        self.map_norm = WeightedBatchNorm(filters)
        self.project = nn.Linear(filters * (2 * height - kernel + 1) * (width - kernel + 1), dim)
        self.norm = WeightedBatchNorm(dim, gain=gain)

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d]``, ``relation_ids [B]`` -> queries ``[B, d]``."""
        rows = torch.cat([heads, F.embedding(relation_ids, relations)], 1)
        rows = self.input_norm(rows.view(len(rows), self.input_norm.num_features, -1))
        if self.interleave:
            rows = rows.reshape(len(rows), 2, -1).transpose(1, 2).contiguous()
        pictures = dropout(rows.view(len(rows), 2 * self.height, -1), self.input_dropout, self.training)
        filters = (len(rows), self.convolution.out_channels, 1)  # a map is dropped as a whole
        windows = picture_windows(pictures, self.convolution.kernel_size[0])
        kept, gain = kept_bytes(self.map_dropout, self.training, filters, rows.device)
        precision = self.precision if self.training else "float32"
        queries = projected_maps(windows, self.convolution, self.map_norm, self.project, kept, gain, precision)
        return F.relu(self.norm(dropout(queries, self.dropout, self.training)))

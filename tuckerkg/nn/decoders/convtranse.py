"""Conv-TransE, the decoder of SACN (Shang et al., 2019)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.kernels.batch_norm import WeightedBatchNorm
from tuckerkg.kernels.dropout import dropout, kept_bytes
from tuckerkg.kernels.feature_maps import line_windows, projected_maps
from tuckerkg.nn.contracts import Decoder
from tuckerkg.ranges import Dropout, Positive, PositiveFloat
from tuckerkg.types import Precision


class ConvTransE(nn.Module, Decoder):
    """Head and relation as the two channels of a line, convolved without a fold, so that positions stay in step.

    ``q = relu(norm(W vec(relu(norm(conv(norm([h, e_r])))))))``.

    Args:
        filters: feature maps.
        kernel: length of a filter, odd.
        input_dropout: on head and relation.
        map_dropout: on the feature maps.
        dropout: on the projected query.
        gain: scale of the last norm at the start; behind an encoder whose output is normed, 1 would start with scores
            far from a uniform softmax.
    """

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        *,
        filters: Positive = 50,
        kernel: Positive = 5,
        input_dropout: Dropout = 0.0,
        map_dropout: Dropout = 0.2,
        dropout: Dropout = 0.2,
        gain: PositiveFloat = 1.0,
    ) -> None:
        super().__init__()
        if dim != relation_dim or kernel % 2 == 0:
            raise ValueError(
                f"Conv-TransE needs relation_dim = dim and an odd decoder.kernel, "
                f"got dim {dim}, relation_dim {relation_dim}, kernel {kernel}"
            )
        self.precision: Precision = "float32"
        self.input_dropout, self.map_dropout, self.dropout = input_dropout, map_dropout, dropout
        self.input_norm = nn.BatchNorm1d(2)
        self.convolution = nn.Conv1d(2, filters, kernel, bias=False)
        self.map_norm = WeightedBatchNorm(filters)
        self.project = nn.Linear(filters * dim, dim)
        self.norm = WeightedBatchNorm(dim, gain=gain)

    def set_precision(self, precision: Precision) -> None:
        """Of the projection in a training step."""
        self.precision = precision

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """``heads [B, d]``, ``relations [2R, d]``, ``relation_ids [B]`` -> queries ``[B, d]``."""
        lines = self.input_norm(torch.stack([heads, F.embedding(relation_ids, relations)], 1))  # [B, 2, d]
        lines = dropout(lines, self.input_dropout, self.training)
        maps = (len(lines), self.convolution.out_channels, lines.shape[2])
        kept, gain = kept_bytes(self.map_dropout, self.training, maps, lines.device)
        windows = line_windows(lines, self.convolution.kernel_size[0])
        precision = self.precision if self.training else "float32"
        queries = projected_maps(windows, self.convolution, self.map_norm, self.project, kept, gain, precision)
        return F.relu(self.norm(dropout(queries, self.dropout, self.training)))

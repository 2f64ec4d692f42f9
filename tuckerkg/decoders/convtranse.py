"""Conv-TransE, the decoder of SACN (Shang et al., 2019)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.dot import DotProduct, Precision
from tuckerkg.dropout import dropout, kept_bytes
from tuckerkg.feature_maps import line_windows, projected_maps
from tuckerkg.grouping import RowGroups
from tuckerkg.norm import WeightedBatchNorm
from tuckerkg.options import Dropout, Positive, PositiveFloat


class ConvTransE(nn.Module):
    """Head and relation as the two channels of a line, convolved without a fold, so that positions stay in step.

    ``q = relu(norm(W vec(relu(norm(conv(norm([h, e_r])))))))`` with kernels of odd length ``kernel``. ``gain`` is
    the start of the last norm's scale: behind an encoder whose output is normed, 1 would start with scores far from a
    uniform softmax.
    """

    compare = DotProduct()
    precision: Precision = "float32"  # of the projection in a training step; the model sets it

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
        self.input_dropout, self.map_dropout, self.dropout = input_dropout, map_dropout, dropout
        self.input_norm = nn.BatchNorm1d(2)
        self.convolution = nn.Conv1d(2, filters, kernel, bias=False)
        self.map_norm = WeightedBatchNorm(filters)
        self.project = nn.Linear(filters * dim, dim)
        self.norm = WeightedBatchNorm(dim, gain=gain)

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

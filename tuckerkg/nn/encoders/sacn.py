"""The weighted graph convolution of SACN (Shang et al., 2019): one learnt weight per relation and layer."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from tuckerkg.graph.message_graph import MessageGraph, Normalize, Order
from tuckerkg.kernels.batch_norm import WeightedBatchNorm, init_norms_through_tanh
from tuckerkg.kernels.dropout import dropout
from tuckerkg.kernels.message_passing import strength_sum
from tuckerkg.nn.contracts import Encoder
from tuckerkg.ranges import Dropout, NonNegative, Positive
from tuckerkg.types import Init


class SACNLayer(nn.Module):
    """``h'_v = norm(sum over edges (u, r, v) of a_r h_u W / c + h_v W + b)``, before the tanh."""

    def __init__(self, in_dim: int, out_dim: int, num_relations: int, *, init: Init = "xavier") -> None:
        super().__init__()
        if init == "identity" and in_dim != out_dim:
            raise ValueError(
                f"init 'identity' needs equal widths, got in_dim {in_dim}, out_dim {out_dim}; use 'xavier'"
            )
        self.init = init
        self.strengths = nn.Parameter(torch.empty(num_relations))  # a_r
        self.weight = nn.Parameter(torch.empty(in_dim, out_dim))
        self.bias = nn.Parameter(torch.empty(out_dim))
        self.norm = WeightedBatchNorm(out_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The relations' weights are 1, or 0 unless ``init`` is "xavier"; the matrix Xavier or the identity; bias 0."""
        nn.init.constant_(self.strengths, float(self.init == "xavier"))
        if self.init == "identity":
            nn.init.eye_(self.weight)
        else:
            nn.init.xavier_normal_(self.weight)
        nn.init.zeros_(self.bias)
        self.norm.reset_parameters()

    def forward(self, entities: Tensor, graph: MessageGraph) -> Tensor:
        """``entities [N, in_dim] -> [N, out_dim]``."""
        turned = entities
        if graph.num_edges:
            turned = turned + strength_sum(entities, self.strengths, graph)  # the matrix is the same for all
        out: Tensor = self.norm(torch.addmm(self.bias, turned, self.weight))
        return out


class SACN(nn.Module, Encoder):
    """The encoder: weighted graph convolutions, each followed by tanh; the relations' embeddings pass unchanged.

    Args:
        layers: number of layers.
        out_dim: width of every layer's output; 0 is that of the embeddings.
        normalize: what a message is divided by: "relation", "degree", "symmetric" or "none".
        dropout: on the output of each layer.
        init: "xavier"; "silent", where the relations' weights start at 0, so that messages are not heard at first; or
            "identity", which also starts with the identity as matrix, for embeddings that were trained before.
    """

    order: Order = "fewest"

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        num_relations: int,
        *,
        layers: Positive = 2,
        out_dim: NonNegative = 0,
        normalize: Normalize = "degree",
        dropout: Dropout = 0.0,
        init: Init = "xavier",
    ) -> None:
        super().__init__()
        self.init: Init = init
        self.normalize: Normalize = normalize
        self.out_dim, self.out_relation_dim, self.depth = out_dim or dim, relation_dim, layers
        self.dropout = dropout
        widths = [dim] + [self.out_dim] * layers
        made = [SACNLayer(*pair, num_relations, init=init) for pair in pairwise(widths)]
        self.layers, self._norms = nn.ModuleList(made), tuple(layer.norm for layer in made)

    def init_from_data(self, entities: Tensor) -> None:
        """Adapt the norms, so that ``entities`` pass all but the tanh at first, where ``init`` is "identity"."""
        if self.init == "identity":
            init_norms_through_tanh(self._norms, entities)

    def forward(self, graph: MessageGraph | None, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """``entities [N, d]``, ``relations [2R, d_r]`` -> entities ``[N, out_dim]``, the same relations."""
        graph = MessageGraph.empty(len(entities), entities.device) if graph is None else graph
        for layer in self.layers:
            entities = dropout(torch.tanh(layer(entities, graph)), self.dropout, self.training)
        return entities, relations

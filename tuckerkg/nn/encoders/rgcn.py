"""R-GCN (Schlichtkrull et al., 2018): a matrix per relation, kept small by a basis, block or CP decomposition."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.message_graph import MessageGraph, Normalize, Order
from tuckerkg.kernels.message_passing import Buffers, factor_products, relational_sum
from tuckerkg.nn.contracts import Encoder
from tuckerkg.ranges import Dropout, Positive

Decomposition = Literal["basis", "block", "cp"]

PRODUCT_WIDTH = 100  # of a product that holds several blocks


class RGCNLayer(nn.Module):
    """``h'_v = sum over edges (u, r, v) of W_r h_u / c + W_0 h_v + b``, Eq. (1), before sigma.

    "basis": ``W_r = sum over b of a_rb V_b`` with ``bases`` matrices V_b. "block": W_r is block-diagonal with ``bases``
    blocks. "cp": ``W_r = W_2 diag(a_r) W_3``, where a_r is learned for each relation; Eq. (7) has ``W_1 e_r`` instead.
    """

    def __init__(
        self, in_dim: int, out_dim: int, num_relations: int, *, decomposition: Decomposition = "basis", bases: int = 100
    ) -> None:
        super().__init__()
        if decomposition == "block" and (in_dim % bases or out_dim % bases):
            raise ValueError(
                f"block-diagonal matrices need widths that {bases} blocks divide, got {in_dim} and {out_dim}; "
                "choose encoder.bases among their divisors"
            )
        self.decomposition, self.bases = decomposition, bases
        if decomposition == "basis":
            self.coefficients = nn.Parameter(torch.empty(num_relations, bases))
            self.weight = nn.Parameter(torch.empty(bases, in_dim, out_dim))
        elif decomposition == "block":
            self.weight = nn.Parameter(torch.empty(num_relations, bases, in_dim // bases, out_dim // bases))
        else:
            self.coefficients = nn.Parameter(torch.empty(num_relations, bases))
            self.w2 = nn.Parameter(torch.empty(bases, in_dim))
            self.w3 = nn.Parameter(torch.empty(bases, out_dim))
        self.self_loop = nn.Parameter(torch.empty(in_dim, out_dim))  # W_0
        self.bias = nn.Parameter(torch.empty(out_dim))
        self.memory = Buffers()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier's deviation for each matrix that meets a vector; bias 0."""
        for name, parameter in self.named_parameters():
            if name == "bias":
                nn.init.zeros_(parameter)
            elif name == "weight":
                nn.init.normal_(parameter, std=(2.0 / (parameter.shape[-2] + parameter.shape[-1])) ** 0.5)
            else:
                nn.init.xavier_normal_(parameter)

    def forward(self, entities: Tensor, graph: MessageGraph) -> Tensor:
        """``entities [N, in_dim] -> [N, out_dim]``."""
        own = torch.addmm(self.bias, entities, self.self_loop)
        if graph.num_edges == 0:
            return own
        if self.decomposition == "cp":
            products = factor_products(entities @ self.w2.T, self.coefficients, graph)
            return (graph.scatter @ products) @ self.w3 + own
        if self.decomposition == "basis":
            return relational_sum(entities, self._from_basis(graph.groups.used), graph, None, self.memory) + own
        # A few blocks at a time: many tiny products are slow, and one large product would be mostly zeros.
        at_once = max(1, PRODUCT_WIDTH // self.weight.shape[2])
        parts = entities.split(at_once * self.weight.shape[2], dim=1)
        sums = [
            relational_sum(part.contiguous(), _side_by_side(blocks[graph.groups.used]), graph, None, self.memory)
            for part, blocks in zip(parts, self.weight.split(at_once, dim=1), strict=True)
        ]
        return torch.cat(sums, 1) + own

    def _from_basis(self, relation_ids: Tensor) -> Tensor:
        """W_r of these relations, ``[R', in_dim, out_dim]``."""
        flat = F.embedding(relation_ids, self.coefficients) @ self.weight.flatten(1)
        return flat.view(-1, *self.weight.shape[1:])


def _side_by_side(blocks: Tensor) -> Tensor:
    """``[R', B, height, width]`` as matrices ``[R', B height, B width]`` with zeros beside the blocks."""
    count, bases, height, width = blocks.shape
    whole = blocks.new_zeros(count, bases, height, bases, width)
    whole.diagonal(dim1=1, dim2=3).copy_(blocks.permute(0, 2, 3, 1))
    return whole.view(count, bases * height, bases * width)


class RGCN(nn.Module, Encoder):
    """The encoder: R-GCN layers with ReLU after all but the last; relations are the decoder's alone and pass unchanged.

    Args:
        layers: number of layers.
        decomposition: of the relations' matrices: "basis", "block" or "cp", see ``RGCNLayer``.
        bases: number of basis matrices, of blocks, or rank of the CP form.
        normalize: what a message is divided by: "relation", "degree", "symmetric" or "none".
        dropout: on the output of each layer.
    """

    order: Order = "fewest"

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        num_relations: int,
        *,
        layers: Positive = 2,
        decomposition: Decomposition = "basis",
        bases: Positive = 100,
        normalize: Normalize = "relation",
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        self.normalize: Normalize = normalize
        self.out_dim, self.out_relation_dim, self.depth = dim, relation_dim, layers
        self.dropout = dropout
        self.layers = nn.ModuleList(
            RGCNLayer(dim, dim, num_relations, decomposition=decomposition, bases=bases) for _ in range(layers)
        )

    def forward(self, graph: MessageGraph | None, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """``entities [N, d]``, ``relations [2R, d_r]`` -> the same shapes, entities encoded; no graph, no layers."""
        if graph is None:
            return F.dropout(entities, self.dropout, self.training), relations
        for depth, layer in enumerate(self.layers):
            entities = layer(entities, graph)
            if depth < len(self.layers) - 1:
                entities = F.relu(entities)
            entities = F.dropout(entities, self.dropout, self.training)
        return entities, relations

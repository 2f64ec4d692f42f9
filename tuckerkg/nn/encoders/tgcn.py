"""TGCN: R-GCN's aggregation with a Tucker core tensor in place of a matrix per relation."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.message_graph import MessageGraph, Normalize, Order
from tuckerkg.kernels.batch_norm import WeightedBatchNorm
from tuckerkg.kernels.message_passing import Buffers, factor_products, norm_of_sums, normalized_sum, relational_sum
from tuckerkg.nn.contracts import Encoder
from tuckerkg.nn.tucker_core import TuckerCore
from tuckerkg.ranges import Dropout, NonNegative, Positive
from tuckerkg.types import Init


class TGCNLayer(nn.Module):
    """One layer of Eq. (3), or of Eq. (7) with ``bases`` > 0, before sigma.

    ``h'_v = sum over edges (u, r, v) of W_c x1 h_u x2 e_r / c + W_0 h_v + b``. ``plain`` computes this edge by edge, in
    the words of the equation; ``forward`` gives the same numbers by grouped products (``kernels/message_passing.py``).
    """

    def __init__(
        self,
        in_dim: int,
        relation_dim: int,
        out_dim: int,
        *,
        bases: int = 0,
        input_dropout: float = 0.0,
        relation_dropout: float = 0.0,
        message_dropout: float = 0.0,
        input_norm: bool = True,
        message_norm: bool = True,
        init: Init = "xavier",
    ) -> None:
        super().__init__()
        if init == "identity" and not (message_norm and in_dim == out_dim):
            raise ValueError(
                f"init 'identity' needs message_norm (its gain starts at 0) and equal widths, "
                f"got message_norm {message_norm}, in_dim {in_dim}, out_dim {out_dim}; use init 'xavier'"
            )
        if init == "silent" and not message_norm:
            raise ValueError("init 'silent' needs message_norm, whose gain starts at 0; use init 'xavier'")
        self.init = init
        self.core = TuckerCore(in_dim, relation_dim, out_dim, bases=bases, relation_dropout=relation_dropout)
        self.self_loop = nn.Parameter(torch.empty(in_dim, out_dim))  # W_0
        self.bias = nn.Parameter(torch.empty(out_dim))
        self.input_norm = WeightedBatchNorm(in_dim) if input_norm else None
        self.message_norm = WeightedBatchNorm(out_dim, gain=float(init == "xavier")) if message_norm else None
        self.input_dropout, self.message_dropout = input_dropout, message_dropout
        self.memory = Buffers()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize every parameter."""
        for part in (self.core, self.input_norm, self.message_norm):
            if part is not None:
                part.reset_parameters()
        if self.init == "identity":
            nn.init.eye_(self.self_loop)
        else:
            nn.init.xavier_normal_(self.self_loop)
        nn.init.zeros_(self.bias)

    def plain(self, entities: Tensor, relations: Tensor, graph: MessageGraph) -> Tensor:
        """Eq. (3), or Eq. (7), edge by edge and without dropout; ``forward`` is compared with it in the tests."""
        sources, relation_ids, targets = graph.edges.unbind(1)
        neighbours, edge_relations = entities[sources], relations[relation_ids]  # [E, d_e], [E, d_r]
        if self.input_norm is not None:
            neighbours = self.input_norm(neighbours)
        if self.core.bases:  # Eq. (7)
            messages = (neighbours @ self.core.w2.T * (edge_relations @ self.core.w1.T)) @ self.core.w3
        else:  # W_c x1 h_u x2 e_r
            messages = torch.einsum("ei,er,rio->eo", neighbours, edge_relations, self.core.core)
        if self.message_norm is not None:
            messages = self.message_norm(messages)  # [E, d_o]
        own = entities @ self.self_loop + self.bias  # W_0 h_v + b
        return own.index_add(0, targets, graph.weights[:, None] * messages)  # the sum over edges, each divided by c

    def forward(self, entities: Tensor, relations: Tensor, graph: MessageGraph) -> Tensor:
        """``entities [N, in_dim]``, ``relations [2R, relation_dim]`` -> ``[N, out_dim]``."""
        own = torch.addmm(self.bias, entities, self.self_loop)  # [N, d_o]
        if graph.num_edges == 0:
            return own
        neighbours = entities
        if self.input_norm is not None:
            neighbours = self.input_norm(neighbours, graph.out_degree)
        neighbours = F.dropout(neighbours, self.input_dropout, self.training)
        return self._aggregate(neighbours, relations, graph) + own  # Eq. (3)

    def _aggregate(self, neighbours: Tensor, relations: Tensor, graph: MessageGraph) -> Tensor:
        """The normalized sum of messages at every target, ``[N, d_o]``."""
        core, norm = self.core, self.message_norm
        if self.training and self.message_dropout:
            messages = core(graph.gather @ neighbours, relations, graph.groups)  # [P', d_o]
            messages = messages if norm is None else norm(messages, graph.multiplicity)
            return graph.scatter @ F.dropout(messages, self.message_dropout)
        if not core.bases:
            return relational_sum(neighbours, core.matrices(relations, graph.groups), graph, norm, self.memory)
        rows = factor_products(neighbours @ core.w2.T, core.factors(relations), graph)  # [P', n_b]
        if self.training and norm is not None:
            return normalized_sum(rows @ core.w3, graph, norm)
        sums = (graph.scatter @ rows) @ core.w3  # Eq. (7): one projection per target, not per row
        return sums if norm is None else norm_of_sums(sums, graph, norm)


class TGCN(nn.Module, Encoder):
    """The encoder: TGCN layers; the relations' embeddings serve every layer and pass unchanged.

    Args:
        layers: number of layers.
        bases: rank of the CP core, n_b in Eq. (7); 0 is the full core of Eq. (3).
        normalize: what a message is divided by: "relation", the target's edges of the same relation, as in Eq. (3);
            "degree", all of the target's edges, as in the authors' runs; "symmetric", the root of the product of
            both ends' degrees; or "none", by nothing.
        input_dropout: on the neighbour, dr_i in the paper.
        relation_dropout: on the relation's matrix, or on the projected relation of a CP core, dr_h1.
        message_dropout: on the message, dr_h2.
        output_dropout: on the output of each layer, dr_o.
        input_norm: batch norm on the neighbour, with statistics over edges.
        message_norm: batch norm on the message, with statistics over edges.
        output_norm: batch norm on the last layer's output.
        activation: after all layers but the last.
        init: "xavier"; "silent", where messages start at 0; or "identity", where layers start as h' = h, for embeddings
            that were trained before.
    """

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        num_relations: int | None = None,
        *,
        layers: Positive = 2,
        bases: NonNegative = 0,
        normalize: Normalize = "relation",
        input_dropout: Dropout = 0.0,
        relation_dropout: Dropout = 0.0,
        message_dropout: Dropout = 0.0,
        output_dropout: Dropout = 0.0,
        input_norm: bool = True,
        message_norm: bool = True,
        output_norm: bool = True,
        activation: Literal["relu", "none"] = "relu",
        init: Init = "xavier",
    ) -> None:
        super().__init__()
        self.normalize: Normalize = normalize
        self.order: Order = "source" if message_norm or message_dropout else "fewest"
        self.out_dim, self.out_relation_dim, self.depth = dim, relation_dim, layers
        self.activation, self.output_dropout = activation, output_dropout
        self.layers = nn.ModuleList(
            TGCNLayer(
                dim,
                relation_dim,
                dim,
                bases=bases,
                input_dropout=input_dropout,
                relation_dropout=relation_dropout,
                message_dropout=message_dropout,
                input_norm=input_norm,
                message_norm=message_norm,
                init=init,
            )
            for _ in range(layers)
        )
        self.output_norm = WeightedBatchNorm(dim) if output_norm else None

    def init_from_data(self, entities: Tensor) -> None:
        """Adapt the output norm, so that ``entities`` pass unchanged where layers start as the identity."""
        if self.output_norm is not None:
            self.output_norm.init_from_data(entities)

    def forward(self, graph: MessageGraph | None, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """``entities [N, d_e]``, ``relations [2R, d_r]`` -> the same shapes, entities encoded.

        Without a graph the layers are left out, as if they were the identity.
        """
        if graph is None:
            entities = entities if self.output_norm is None else self.output_norm(entities)
            return F.dropout(entities, self.output_dropout, self.training), relations
        last = len(self.layers) - 1
        for depth, layer in enumerate(self.layers):
            entities = layer(entities, relations, graph)
            if depth < last and self.activation == "relu":
                entities = F.relu(entities)
            if depth == last and self.output_norm is not None:
                entities = self.output_norm(entities)
            entities = F.dropout(entities, self.output_dropout, self.training)
        return entities, relations


class TGCNConv(nn.Module):
    """One TGCN layer to use alone, called like PyTorch Geometric's relational layers.

    ``conv(x, edge_index, edge_type)`` with ``x [N, in_channels]``, ``edge_index [2, E]`` (source, target) and
    ``edge_type [E]`` gives ``[N, out_channels]``. The layer owns its relations' embeddings; pass ``relations`` to use
    others. Inverse edges are not added. ``num_bases`` None is the full core, a number the CP form.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        relation_dim: int | None = None,
        num_bases: int | None = None,
        *,
        normalize: Normalize = "relation",
        input_norm: bool = False,
        message_norm: bool = False,
    ) -> None:
        super().__init__()
        relation_dim = in_channels if relation_dim is None else relation_dim
        self.in_channels, self.out_channels, self.num_relations = in_channels, out_channels, num_relations
        self.normalize: Normalize = normalize
        self.relations = nn.Parameter(torch.empty(num_relations, relation_dim))
        self.layer = TGCNLayer(
            in_channels,
            relation_dim,
            out_channels,
            bases=num_bases or 0,
            input_norm=input_norm,
            message_norm=message_norm,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize every parameter."""
        nn.init.xavier_normal_(self.relations)
        self.layer.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, relations: Tensor | None = None) -> Tensor:
        """Eq. (3) without sigma; raises ValueError where the shapes do not fit."""
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_type.shape != edge_index.shape[1:]:
            raise ValueError(
                f"edge_index is [2, E] and edge_type [E], got {list(edge_index.shape)} and {list(edge_type.shape)}"
            )
        if x.dim() != 2 or x.shape[1] != self.in_channels:
            raise ValueError(f"x is [N, {self.in_channels}], got {list(x.shape)}")
        edges = torch.stack([edge_index[0], edge_type, edge_index[1]], 1)
        order: Order = "source" if self.layer.message_norm is not None and self.training else "fewest"
        graph = MessageGraph.of(edges, x.shape[0], self.normalize, x.dtype, order)
        encoded: Tensor = self.layer(x, self.relations if relations is None else relations, graph)
        return encoded

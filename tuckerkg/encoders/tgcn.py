"""TGCN: R-GCN's aggregation with a Tucker core tensor in place of a matrix per relation."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph import MessageGraph, Normalise, Order
from tuckerkg.norm import WeightedBatchNorm
from tuckerkg.options import Dropout, NonNegative, Positive, Start
from tuckerkg.propagate import Buffers, factor_products, norm_of_sums, normalised_sum, relational_sum
from tuckerkg.tucker import TuckerCore


class TGCNLayer(nn.Module):
    """One layer of Eq. (3), or of Eq. (7) with ``bases`` > 0, before sigma.

    ``h'_v = sum over edges (u, r, v) of W_c x1 h_u x2 e_r / c + W_0 h_v + b``. The optional batch norms stand on the
    neighbour (``input_norm``) and on the message (``message_norm``), with statistics over edges.

    Dropouts, in the paper's names: ``input_dropout`` dr_i on the neighbour, ``relation_dropout`` dr_h1 on the
    relation's matrix (CP: on the projected relation), ``message_dropout`` dr_h2 on the message.
    ``start`` "identity" begins as h' = h (W_0 = I, the message norm's gain 0); "xavier" is the usual start.
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
        start: Start = "xavier",
    ) -> None:
        super().__init__()
        if start == "identity" and not (message_norm and in_dim == out_dim):
            raise ValueError(
                f"start 'identity' needs message_norm (its gain starts at 0) and equal widths, "
                f"got message_norm {message_norm}, in_dim {in_dim}, out_dim {out_dim}; use start 'xavier'"
            )
        self.start = start
        self.core = TuckerCore(in_dim, relation_dim, out_dim, bases=bases, relation_dropout=relation_dropout)
        self.self_loop = nn.Parameter(torch.empty(in_dim, out_dim))  # W_0
        self.bias = nn.Parameter(torch.empty(out_dim))
        self.input_norm = WeightedBatchNorm(in_dim) if input_norm else None
        self.message_norm = WeightedBatchNorm(out_dim, gain=float(start != "identity")) if message_norm else None
        self.input_dropout, self.message_dropout = input_dropout, message_dropout
        self.memory = Buffers()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts every parameter anew."""
        for part in (self.core, self.input_norm, self.message_norm):
            if part is not None:
                part.reset_parameters()
        if self.start == "identity":
            nn.init.eye_(self.self_loop)
        else:
            nn.init.xavier_normal_(self.self_loop)
        nn.init.zeros_(self.bias)

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
        """The normalised sum of messages at every target, ``[N, d_o]``."""
        core, norm = self.core, self.message_norm
        if self.training and self.message_dropout:
            messages = core(graph.gather @ neighbours, relations, graph.groups)  # [P', d_o]
            messages = messages if norm is None else norm(messages, graph.multiplicity)
            return graph.scatter @ F.dropout(messages, self.message_dropout)
        if not core.bases:
            return relational_sum(neighbours, core.matrices(relations, graph.groups), graph, norm, self.memory)
        rows = factor_products(neighbours @ core.w2.T, core.factors(relations), graph)  # [P', n_b]
        if self.training and norm is not None:
            return normalised_sum(rows @ core.w3, graph, norm)
        sums = (graph.scatter @ rows) @ core.w3  # Eq. (7): one projection per target, not per row
        return sums if norm is None else norm_of_sums(sums, graph, norm)


class TGCN(nn.Module):
    """The encoder: ``layers`` TGCN layers; ReLU after all but the last, whose output is batch-normed.

    ``output_dropout`` is dr_o, after each layer. The relations' embeddings serve every layer and pass unchanged; their
    number does not matter.
    """

    uses_graph = True

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        num_relations: int | None = None,
        *,
        layers: Positive = 2,
        bases: NonNegative = 0,
        normalise: Normalise = "relation",
        input_dropout: Dropout = 0.0,
        relation_dropout: Dropout = 0.0,
        message_dropout: Dropout = 0.0,
        output_dropout: Dropout = 0.0,
        input_norm: bool = True,
        message_norm: bool = True,
        output_norm: bool = True,
        activation: Literal["relu", "none"] = "relu",
        start: Start = "xavier",
    ) -> None:
        super().__init__()
        self.normalise: Normalise = normalise
        self.order: Order = "source" if message_norm or message_dropout else "fewest"
        self.out_dim, self.out_relation_dim = dim, relation_dim
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
                start=start,
            )
            for _ in range(layers)
        )
        self.output_norm = WeightedBatchNorm(dim) if output_norm else None

    def reset_parameters(self) -> None:
        """Starts every parameter anew."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]
        if self.output_norm is not None:
            self.output_norm.reset_parameters()

    def settle(self, entities: Tensor) -> None:
        """Lets entities that were trained without the encoder pass as they are, where its layers start so."""
        if self.output_norm is not None:
            self.output_norm.settle(entities)

    def forward(self, graph: MessageGraph | None, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """``entities [N, d_e]``, ``relations [2R, d_r]`` -> the same shapes, entities encoded.

        Without a graph the layers are left out, which is what layers of ``start`` "identity" begin as.
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
        normalise: Normalise = "relation",
        input_norm: bool = False,
        message_norm: bool = False,
    ) -> None:
        super().__init__()
        relation_dim = in_channels if relation_dim is None else relation_dim
        self.in_channels, self.out_channels, self.num_relations = in_channels, out_channels, num_relations
        self.normalise: Normalise = normalise
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
        """Starts every parameter anew."""
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
        graph = MessageGraph.of(edges, x.shape[0], self.normalise, x.dtype, order)
        encoded: Tensor = self.layer(x, self.relations if relations is None else relations, graph)
        return encoded

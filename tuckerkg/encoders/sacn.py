"""The weighted graph convolution of SACN (Shang et al., 2019): one learnt weight per relation and layer."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from tuckerkg.dropout import dropout
from tuckerkg.graph import MessageGraph, Normalise, Order
from tuckerkg.norm import WeightedBatchNorm, settle_through_tanh
from tuckerkg.options import Dropout, NonNegative, NonNegativeFloat, Positive, Start
from tuckerkg.propagate import strength_sum


class SACNLayer(nn.Module):
    """``h'_v = norm(sum over edges (u, r, v) of a_r h_u W / c + h_v W + b)``, before the tanh."""

    def __init__(
        self, in_dim: int, out_dim: int, num_relations: int, *, strength: float = 1.0, start: Start = "xavier"
    ) -> None:
        super().__init__()
        if start == "identity" and in_dim != out_dim:
            raise ValueError(
                f"start 'identity' needs equal widths, got in_dim {in_dim}, out_dim {out_dim}; use 'xavier'"
            )
        self.strength, self.start = strength, start
        self.strengths = nn.Parameter(torch.empty(num_relations))  # a_r
        self.weight = nn.Parameter(torch.empty(in_dim, out_dim))
        self.bias = nn.Parameter(torch.empty(out_dim))
        self.norm = WeightedBatchNorm(out_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Strengths start at ``strength``, the matrix as ``start`` says, bias 0."""
        nn.init.constant_(self.strengths, self.strength)
        if self.start == "identity":
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


class SACN(nn.Module):
    """The encoder: ``layers`` weighted graph convolutions, each followed by tanh and ``dropout``.

    ``out_dim`` is the width of every layer's output, 0 that of the embeddings. The relations' embeddings pass
    unchanged; ``num_relations`` counts inverses. ``strength`` is the start of all relations' weights: from 0 on,
    messages that begin late (``batch.messages_from``) begin unheard. ``start`` "identity" begins with the identity as
    matrix, for entities that were trained before.
    """

    uses_graph = True
    order: Order = "fewest"

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        num_relations: int,
        *,
        layers: Positive = 2,
        out_dim: NonNegative = 0,
        normalise: Normalise = "degree",
        dropout: Dropout = 0.0,
        strength: NonNegativeFloat = 1.0,
        start: Start = "xavier",
    ) -> None:
        super().__init__()
        self.start: Start = start
        self.normalise: Normalise = normalise
        self.out_dim, self.out_relation_dim, self.dropout = out_dim or dim, relation_dim, dropout
        widths = [dim] + [self.out_dim] * layers
        self.layers = nn.ModuleList(
            SACNLayer(*pair, num_relations, strength=strength, start=start) for pair in pairwise(widths)
        )

    def reset_parameters(self) -> None:
        """Starts every parameter anew."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]

    def settle(self, entities: Tensor) -> None:
        """Lets entities that were trained without the encoder pass, but for the tanh, where ``start`` is "identity"."""
        if self.start == "identity":
            settle_through_tanh((layer.norm for layer in self.layers), entities)  # type: ignore[misc]

    def forward(self, graph: MessageGraph | None, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """``entities [N, d]``, ``relations [2R, d_r]`` -> entities ``[N, out_dim]``, the same relations."""
        graph = MessageGraph.empty(len(entities), entities.device) if graph is None else graph
        for layer in self.layers:
            entities = dropout(torch.tanh(layer(entities, graph)), self.dropout, self.training)
        return entities, relations

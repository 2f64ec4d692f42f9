"""CompGCN (Vashishth et al., 2020): neighbours composed with relations, which every layer encodes as well."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph import MessageGraph, Normalise, Order
from tuckerkg.norm import WeightedBatchNorm
from tuckerkg.options import Dropout, NonNegative, Positive
from tuckerkg.propagate import factor_products

Composition = Literal["subtraction", "multiplication", "correlation"]


class CompGCNLayer(nn.Module):
    """``h'_v = norm((sum over edges of phi(h_u, z_r) W_dir(r) / c + phi(h_v, z_self) W_self) / 3 + b)``, before tanh.

    Relations become ``z' = z W_rel``. W_dir(r) is one matrix for the relations and one for their inverses, which are
    the second half of ``num_relations``. All three compositions are linear in the neighbour, so messages are summed
    first and meet the matrix once per target. Circular correlation is a product of Fourier transforms: those of
    entities and relations are taken once, and the sum of a target's messages is turned back once.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        out_relation_dim: int,
        num_relations: int,
        *,
        composition: Composition = "correlation",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.composition, self.dropout = composition, dropout
        self.along = nn.Parameter(torch.empty(in_dim, out_dim))
        self.against = nn.Parameter(torch.empty(in_dim, out_dim))
        self.own = nn.Parameter(torch.empty(in_dim, out_dim))
        self.self_relation = nn.Parameter(torch.empty(1, in_dim))
        self.relation_weight = nn.Parameter(torch.empty(in_dim, out_relation_dim))
        self.bias = nn.Parameter(torch.empty(out_dim))
        self.norm = WeightedBatchNorm(out_dim)
        self.num_relations = num_relations
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier's start, bias 0."""
        for matrix in (self.along, self.against, self.own, self.self_relation, self.relation_weight):
            nn.init.xavier_normal_(matrix)
        nn.init.zeros_(self.bias)
        self.norm.reset_parameters()

    def forward(self, entities: Tensor, relations: Tensor, graph: MessageGraph) -> tuple[Tensor, Tensor]:
        """``entities [N, in_dim]``, ``relations [2R, in_dim]`` -> ``[N, out_dim]``, ``[2R, out_relation_dim]``."""
        total = compose(self.composition, entities, self.self_relation) @ self.own
        if graph.num_edges:
            for inverse, weight in ((False, self.along), (True, self.against)):
                sums = self._sums(entities, relations, graph, inverse=inverse) @ weight
                total = total + F.dropout(sums, self.dropout, self.training)
        encoded: Tensor = self.norm(total / 3.0 + self.bias)
        return encoded, relations @ self.relation_weight

    def _sums(self, entities: Tensor, relations: Tensor, graph: MessageGraph, *, inverse: bool) -> Tensor:
        """``sum over edges of phi(h_u, z_r) / c`` of one direction, ``[N, in_dim]``."""
        ids = torch.arange(self.num_relations, device=relations.device)
        mine = ((ids >= self.num_relations // 2) == inverse).to(relations.dtype)[:, None]  # [2R, 1]
        if self.composition == "multiplication":
            return graph.scatter @ factor_products(entities, relations * mine, graph)
        if self.composition == "subtraction":
            neighbours = graph.scatter @ factor_products(entities, mine.expand(-1, entities.shape[1]), graph)
            ones = entities.new_ones(len(entities), 1).expand(-1, relations.shape[1])
            return neighbours - graph.scatter @ factor_products(ones, relations * mine, graph)
        width = entities.shape[1]
        near, far = _parts(torch.fft.rfft(entities)), _parts(torch.fft.rfft(relations) * mine)
        sums = graph.scatter @ _conjugate_products(near, far, graph)
        real, imaginary = sums.chunk(2, 1)
        turned: Tensor = torch.fft.irfft(torch.complex(real, imaginary), n=width)
        return turned


def compose(composition: Composition, entities: Tensor, relations: Tensor) -> Tensor:
    """phi of rows side by side: ``h - z``, ``h * z``, or ``sum over i of h_i z_(i + k)``."""
    if composition == "subtraction":
        return entities - relations
    if composition == "multiplication":
        return entities * relations
    product = torch.fft.rfft(entities).conj() * torch.fft.rfft(relations)
    composed: Tensor = torch.fft.irfft(product, n=entities.shape[1])
    return composed


def _parts(spectrum: Tensor) -> Tensor:
    """Real parts, then imaginary ones, ``[n, 2 f]``."""
    return torch.cat([spectrum.real, spectrum.imag], 1)


def _conjugate_products(near: Tensor, far: Tensor, graph: MessageGraph) -> Tensor:
    """``conj(near) far`` of every row, both kept as halves: ``[N, 2 f], [2R, 2 f] -> [P', 2 f]``."""
    c, d = far.chunk(2, 1)
    ac, bd = factor_products(near, far, graph).chunk(2, 1)
    ad, bc = factor_products(near, torch.cat([d, c], 1), graph).chunk(2, 1)
    return torch.cat([ac + bd, ad - bc], 1)


class CompGCN(nn.Module):
    """The encoder: ``layers`` CompGCN layers, each followed by tanh and ``dropout``; messages have ``message_dropout``.

    ``out_dim`` is the width of every layer's output; 0 is that of the embeddings. Relations have the same width, but
    after the last layer the decoder may need ``out_relation_dim`` (0: the same).
    """

    uses_graph = True
    order: Order = "fewest"

    def __init__(
        self,
        dim: int,
        relation_dim: int,
        num_relations: int,
        *,
        layers: Positive = 1,
        out_dim: NonNegative = 0,
        out_relation_dim: NonNegative = 0,
        composition: Composition = "correlation",
        normalise: Normalise = "symmetric",
        message_dropout: Dropout = 0.1,
        dropout: Dropout = 0.3,
    ) -> None:
        super().__init__()
        if dim != relation_dim:
            raise ValueError(
                f"CompGCN composes entities with relations and needs relation_dim = dim, "
                f"got dim {dim} and relation_dim {relation_dim}; set model.relation_dim={dim}"
            )
        self.normalise: Normalise = normalise
        self.out_dim = out_dim or dim
        self.out_relation_dim = out_relation_dim or self.out_dim
        self.dropout = dropout
        widths = [dim] + [self.out_dim] * layers
        relation_widths = [*widths[1:-1], self.out_relation_dim]
        self.layers = nn.ModuleList(
            CompGCNLayer(*shape, num_relations, composition=composition, dropout=message_dropout)
            for shape in zip(widths, widths[1:], relation_widths, strict=False)
        )

    def reset_parameters(self) -> None:
        """Starts every parameter anew."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]

    def forward(self, graph: MessageGraph | None, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """``entities [N, d]``, ``relations [2R, d]`` -> ``[N, out_dim]``, ``[2R, out_relation_dim]``."""
        graph = MessageGraph.empty(len(entities), entities.device) if graph is None else graph
        for layer in self.layers:
            entities, relations = layer(entities, relations, graph)
            entities = F.dropout(torch.tanh(entities), self.dropout, self.training)
        return entities, relations

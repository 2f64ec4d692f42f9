"""CompGCN (Vashishth et al., 2020): neighbours composed with relations, which every layer encodes as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.autograd import Context, apply
from tuckerkg.graph.message_graph import MessageGraph, Normalize, Order
from tuckerkg.kernels.batch_norm import WeightedBatchNorm, init_norms_through_tanh
from tuckerkg.kernels.dropout import dropout
from tuckerkg.kernels.message_passing import factor_products
from tuckerkg.nn.contracts import Encoder
from tuckerkg.ranges import Dropout, NonNegative, Positive
from tuckerkg.types import Init

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
        init: Init = "xavier",
    ) -> None:
        super().__init__()
        if init == "identity" and not in_dim == out_dim == out_relation_dim:
            raise ValueError(
                f"init 'identity' needs equal widths, got in_dim {in_dim}, out_dim {out_dim}, "
                f"out_relation_dim {out_relation_dim}; use 'xavier'"
            )
        self.composition, self.dropout, self.init = composition, dropout, init
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
        """Xavier, but for the messages' matrices, which are 0 unless ``init`` is "xavier"; bias 0."""
        for matrix in (self.along, self.against):
            nn.init.xavier_normal_(matrix, float(self.init == "xavier"))
        for matrix in (self.own, self.self_relation, self.relation_weight):
            nn.init.xavier_normal_(matrix)
        if self.init == "identity":
            self._start_as_identity()
        nn.init.zeros_(self.bias)
        self.norm.reset_parameters()

    @torch.no_grad()
    def _start_as_identity(self) -> None:
        """Relations pass, and an entity composed with the self relation meets the matrix that gives it back."""
        nn.init.eye_(self.relation_weight)
        self.self_relation.fill_(float(self.composition == "multiplication"))
        places = torch.arange(len(self.own))
        if self.composition == "correlation":  # with (1, 0, ..., 0) it reads backwards from the first number on
            self.self_relation[0, 0] = 1.0
            places = -places % len(self.own)
        self.own.copy_(3.0 * torch.eye(len(self.own))[places])  # a third of the sum is the entity's own

    def forward(self, entities: Tensor, relations: Tensor, graph: MessageGraph) -> tuple[Tensor, Tensor]:
        """``entities [N, in_dim]``, ``relations [2R, in_dim]`` -> ``[N, out_dim]``, ``[2R, out_relation_dim]``."""
        total = compose(self.composition, entities, self.self_relation) @ self.own
        if graph.num_edges:
            for sums, weight in zip(self._sums(entities, relations, graph), (self.along, self.against), strict=True):
                total = total + dropout(sums @ weight, self.dropout, self.training)
        encoded: Tensor = self.norm(total / 3.0 + self.bias)
        return encoded, relations @ self.relation_weight

    def _sums(self, entities: Tensor, relations: Tensor, graph: MessageGraph) -> tuple[Tensor, Tensor]:
        """``sum over edges of phi(h_u, z_r) / c`` of relations and of their inverses, ``[N, in_dim]`` each."""
        inverse = graph.groups.relation_ids >= self.num_relations // 2  # [P']
        rows = self._rows(entities, relations, graph)
        sums = [graph.scatter.scaled(part.to(rows.dtype)) @ rows for part in (~inverse, inverse)]
        if self.composition == "correlation":
            spectra = (torch.complex(*total.chunk(2, 1)) for total in sums)
            sums = [torch.fft.irfft(spectrum, n=entities.shape[1]) for spectrum in spectra]
        along, against = sums
        return along, against

    def _rows(self, entities: Tensor, relations: Tensor, graph: MessageGraph) -> Tensor:
        """phi of every row with its relation, ``[P', in_dim]``; correlations as halves of their spectra."""
        if self.composition == "multiplication":
            return factor_products(entities, relations, graph)
        if self.composition == "subtraction":
            shares = graph.gather @ entities.new_ones(len(entities), 1)  # [P', 1] what a row's sources add up to
            return graph.gather @ entities - shares * F.embedding(graph.groups.relation_ids, relations)
        products: Tensor = apply(
            _ConjugateProducts,
            graph.gather @ _parts(torch.fft.rfft(entities)),
            _parts(torch.fft.rfft(relations)),
            graph,
        )
        return products


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


class _ConjugateProducts(torch.autograd.Function):
    """``conj(near) far`` of every row with its relation, all as halves: ``[P', 2 f], [2R, 2 f] -> [P', 2 f]``."""

    @staticmethod
    def forward(ctx: Context, near: Tensor, far: Tensor, graph: MessageGraph) -> Tensor:
        ctx.save_for_backward(near, far)
        ctx.graph = graph
        products = torch.empty_like(near)
        for (a, b), (c, d), (real, imaginary) in _by_relation(graph, far, near, products):
            torch.mul(a, c, out=real).addcmul_(b, d)
            torch.mul(a, d, out=imaginary).addcmul_(b, c, value=-1.0)
        return products

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        near, far = ctx.saved_tensors
        graph: MessageGraph = ctx.graph
        grad_near, grad_far = torch.empty_like(near), torch.zeros_like(far)
        places = iter(graph.groups.buckets)
        for (a, b), (c, d), (real, imaginary), (grad_a, grad_b) in _by_relation(
            graph, far, near, gradients[0].contiguous(), grad_near
        ):
            torch.mul(real, c, out=grad_a).addcmul_(imaginary, d)
            torch.mul(real, d, out=grad_b).addcmul_(imaginary, c, value=-1.0)
            grad_c = (real * a).addcmul_(imaginary, b, value=-1.0).sum(1)
            grad_d = (real * b).addcmul_(imaginary, a).sum(1)
            grad_far[next(places).relation_ids] = torch.cat([grad_c, grad_d], 1)
        return grad_near, grad_far, None


def _by_relation(graph: MessageGraph, far: Tensor, near: Tensor, *others: Tensor) -> Iterator[list[list[Tensor]]]:
    """Bucket by bucket the halves of ``near``, of ``far`` and of ``others``, ``[relations, rows or 1, f]`` each."""
    for bucket in graph.groups.buckets:
        rows = [t[bucket.start : bucket.stop].view(-1, bucket.length, t.shape[1]) for t in (near, *others)]
        rows.insert(1, far[bucket.relation_ids][:, None])
        yield [list(part.chunk(2, 2)) for part in rows]


class CompGCN(nn.Module, Encoder):
    """The encoder: CompGCN layers, each followed by tanh; relations are encoded as well.

    Args:
        layers: number of layers.
        out_dim: width of every layer's output; 0 is that of the embeddings.
        out_relation_dim: width of relations after the last layer, where the decoder needs another; 0: the same.
        composition: of neighbour and relation: "subtraction", "multiplication" or circular "correlation".
        normalize: what a message is divided by: "relation", "degree", "symmetric" or "none".
        message_dropout: on the messages.
        dropout: on the output of each layer.
        init: "xavier"; "silent", where messages start at 0; or "identity", where entities and relations pass at first,
            for embeddings that were trained before.
    """

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
        normalize: Normalize = "symmetric",
        message_dropout: Dropout = 0.1,
        dropout: Dropout = 0.3,
        init: Init = "xavier",
    ) -> None:
        super().__init__()
        if dim != relation_dim:
            raise ValueError(
                f"CompGCN composes entities with relations and needs relation_dim = dim, "
                f"got dim {dim} and relation_dim {relation_dim}; set model.relation_dim={dim}"
            )
        self.normalize: Normalize = normalize
        self.out_dim, self.depth = out_dim or dim, layers
        self.out_relation_dim = out_relation_dim or self.out_dim
        self.dropout = dropout
        self.init: Init = init
        widths = [dim] + [self.out_dim] * layers
        relation_widths = [*widths[1:-1], self.out_relation_dim]
        made = [
            CompGCNLayer(
                *shape,
                num_relations,
                composition=composition,
                dropout=message_dropout,
                init=init,
            )
            for shape in zip(widths, widths[1:], relation_widths, strict=False)
        ]
        self.layers, self._norms = nn.ModuleList(made), tuple(layer.norm for layer in made)

    def init_from_data(self, entities: Tensor) -> None:
        """Adapt the norms, so that ``entities`` pass all but the tanh at first, where ``init`` is "identity"."""
        if self.init == "identity":
            init_norms_through_tanh(self._norms, entities)

    def forward(self, graph: MessageGraph | None, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """``entities [N, d]``, ``relations [2R, d]`` -> ``[N, out_dim]``, ``[2R, out_relation_dim]``."""
        graph = MessageGraph.empty(len(entities), entities.device) if graph is None else graph
        for layer in self.layers:
            entities, relations = layer(entities, relations, graph)
            entities = dropout(torch.tanh(entities), self.dropout, self.training)
        return entities, relations

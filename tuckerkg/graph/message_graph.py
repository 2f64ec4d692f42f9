"""The message graph: edges folded into few rows per relation, how rows are filled and where they are summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.graph.sparse import SparseMatrix, SparseRows

Normalize = Literal["relation", "degree", "symmetric", "none"]
Order = Literal["source", "fewest"]


@dataclass(frozen=True)
class MessageGraph:
    """What a layer needs of the edges (source, relation, target) of N entities.

    A message is linear in its source and depends on nothing else but the relation. So a relation's matrix is applied
    to few rows instead of every edge: either to each distinct source, and the results are summed at the targets
    (``order`` "source"), or to the normalized sum of sources at each distinct target; with "fewest", per relation,
    whichever has fewer rows. Either way ``total = scatter [N, P'] @ (gather [P', N] @ entities, row by row times its
    relation's matrix)``, with the rows P' in the padded order of ``groups``.
    """

    num_entities: int
    num_edges: int
    groups: RowGroups
    gather: SparseMatrix  # [P', N]
    scatter: SparseMatrix  # [N, P']
    out_degree: Tensor  # [N] number of edges that leave each entity
    in_weight: Tensor  # [N] sum of 1 / c over the edges that reach each entity
    edges: Tensor  # [E, 3] (source, relation, target), for layers that need single edges, such as attention
    weights: Tensor  # [E] 1 / c of every edge
    multiplicity: Tensor | None  # [P'] number of edges that carry a row, 0 in padding; with order "source" only

    @classmethod
    def of(
        cls,
        edges: Tensor,
        num_entities: int,
        normalize: Normalize = "relation",
        dtype: torch.dtype = torch.float32,
        order: Order = "source",
        weights: Tensor | None = None,
    ) -> MessageGraph:
        """Prepare ``edges [E, 3]`` of (source, relation, target) ids.

        ``normalize`` chooses c: "relation" counts the target's edges of the same relation, as Eq. (3) has it;
        "degree" counts all edges of the target, as the authors' runs do; "symmetric" is the root of the product of
        both ends' numbers of edges, the target's that reach it and the source's that leave it; "none" is 1, a plain
        sum. ``weights [E]``, where
        given, are 1 / c themselves, for edges that are a part of those that c counts.
        """
        if order not in ("source", "fewest"):
            raise ValueError(f"order is 'source' or 'fewest', got {order!r}")
        sources, relation_ids, targets = edges.unbind(1)
        weights = (edge_weights(edges, num_entities, normalize) if weights is None else weights).to(dtype)  # [E]
        at_target = (
            _at_target(edges, num_entities) if order == "fewest" else torch.zeros_like(sources, dtype=torch.bool)
        )
        entity = torch.where(at_target, targets, sources)  # the one that a row belongs to
        rows, row_of_edge, counts = torch.unique(
            relation_ids * num_entities + entity, return_inverse=True, return_counts=True
        )
        groups = RowGroups.of(rows // max(num_entities, 1))
        row_of_edge = groups.position[row_of_edge]  # [E] in padded order
        num_rows = groups.source.numel()
        if order == "source":
            gather = _from_sources(rows % max(num_entities, 1), groups, num_entities)
            scatter = _matrix(targets, row_of_edge, weights, (num_entities, num_rows))
            multiplicity = torch.zeros(num_rows, dtype=dtype, device=edges.device)
            multiplicity[groups.position] = counts.to(dtype)
        else:
            gather, scatter = _mixed(edges, row_of_edge, at_target, weights, (num_entities, num_rows))
            multiplicity = None
        return cls(
            num_entities=num_entities,
            num_edges=len(edges),
            groups=groups,
            gather=gather,
            scatter=scatter,
            out_degree=torch.bincount(sources, minlength=num_entities).to(dtype),
            in_weight=torch.zeros(num_entities, dtype=dtype, device=edges.device).index_add_(0, targets, weights),
            edges=edges,
            weights=weights,
            multiplicity=multiplicity,
        )

    @classmethod
    def empty(cls, num_entities: int, device: torch.device | str) -> MessageGraph:
        """A graph without edges, in which every layer still sees the entities themselves."""
        return cls.of(torch.empty(0, 3, dtype=torch.long, device=device), num_entities)

    @property
    def num_rows(self) -> int:
        """Number of padded rows, P'."""
        return self.groups.source.numel()

    def to(self, device: torch.device | str) -> MessageGraph:
        """The same graph on ``device``."""
        return MessageGraph(
            self.num_entities,
            self.num_edges,
            self.groups.to(device),
            self.gather.to(device),
            self.scatter.to(device),
            self.out_degree.to(device),
            self.in_weight.to(device),
            self.edges.to(device),
            self.weights.to(device),
            None if self.multiplicity is None else self.multiplicity.to(device),
        )


class TracedGraph:
    """``edges [E, 3]`` whose weights may change and have gradients; for evaluation only."""

    def __init__(self, edges: Tensor, num_entities: int) -> None:
        sources, relation_ids, targets = edges.unbind(1)
        rows, row_of_edge = torch.unique(relation_ids * num_entities + sources, return_inverse=True)
        self.num_entities, self.edges, self.targets = num_entities, edges, targets
        self.groups = RowGroups.of(rows // max(num_entities, 1))
        self.gather = _from_sources(rows % max(num_entities, 1), self.groups, num_entities)
        self.order = torch.argsort(targets, stable=True)
        sums = SparseRows.of(targets, self.groups.position[row_of_edge], None, num_entities)
        self.columns, self.offsets = sums.columns, sums.offsets
        self.out_degree = torch.bincount(sources, minlength=num_entities)

    def weighed(self, weights: Tensor) -> MessageGraph:
        """The message graph with ``weights [E]`` of the edges in their order."""
        return MessageGraph(
            num_entities=self.num_entities,
            num_edges=len(self.targets),
            groups=self.groups,
            gather=self.gather,
            scatter=SparseMatrix(SparseRows(self.columns, self.offsets, weights[self.order]), None),
            out_degree=self.out_degree.to(weights.dtype),
            in_weight=weights.new_zeros(self.num_entities).index_add(0, self.targets, weights),
            edges=self.edges,
            weights=weights,
            multiplicity=None,
        )


def edge_weights(edges: Tensor, num_entities: int, normalize: Normalize) -> Tensor:
    """1 / c of every edge, ``[E]``, in double precision; see ``MessageGraph.of``."""
    if normalize not in get_args(Normalize):
        raise ValueError(f"normalize is {' or '.join(map(repr, get_args(Normalize)))}, got {normalize!r}")
    return 1.0 / _normalizer(edges, num_entities, normalize).double()


def _normalizer(edges: Tensor, num_entities: int, normalize: Normalize) -> Tensor:
    """c of every edge, ``[E]``."""
    sources, relation_ids, targets = edges.unbind(1)
    if normalize == "none":
        return torch.ones_like(targets)
    if normalize != "relation":
        reached = torch.bincount(targets, minlength=num_entities)[targets]
        if normalize == "degree":
            return reached
        left = torch.bincount(sources, minlength=num_entities)[sources]
        return (reached.double() * left.double()).sqrt()
    _, inverse, counts = torch.unique(relation_ids * num_entities + targets, return_inverse=True, return_counts=True)
    found: Tensor = counts[inverse]
    return found


def _at_target(edges: Tensor, num_entities: int) -> Tensor:
    """Which edges belong to a relation that has fewer distinct targets than sources, ``[E]``."""
    sources, relation_ids, targets = edges.unbind(1)
    num_relations = int(relation_ids.max()) + 1 if len(edges) else 0

    def distinct(entity: Tensor) -> Tensor:
        pairs = torch.unique(relation_ids * num_entities + entity)
        return torch.bincount(pairs // max(num_entities, 1), minlength=num_relations)

    fewer: Tensor = distinct(targets) < distinct(sources)
    return fewer[relation_ids]


def _mixed(
    edges: Tensor, row_of_edge: Tensor, at_target: Tensor, weights: Tensor, shape: tuple[int, int]
) -> tuple[SparseMatrix, SparseMatrix]:
    """Gather and scatter where some relations sum at their targets before they transform."""
    num_entities, num_rows = shape
    ones = torch.ones_like(weights)
    first = _first_of_each(row_of_edge, num_rows)  # one edge per row
    kept = torch.where(at_target, True, first)  # a source row reads its source once
    gather = _matrix(
        row_of_edge[kept], edges[kept, 0], torch.where(at_target, weights, ones)[kept], (num_rows, num_entities)
    )
    kept = torch.where(at_target, first, True)  # a target row is added to its target once
    scatter = _matrix(
        edges[kept, 2], row_of_edge[kept], torch.where(at_target, ones, weights)[kept], (num_entities, num_rows)
    )
    return gather, scatter


def _from_sources(row_entity: Tensor, groups: RowGroups, num_entities: int) -> SparseMatrix:
    """Fill every padded row from its entity, ``[P', N]``."""
    return SparseMatrix(
        SparseRows(row_entity[groups.source], None, None),
        SparseRows.of(row_entity, groups.position, None, num_entities),
    )


def _first_of_each(values: Tensor, count: int) -> Tensor:
    """A mask of the first of equal ``values``, which lie below ``count``."""
    places = torch.full((count,), len(values), dtype=torch.long, device=values.device)
    places.scatter_reduce_(0, values, torch.arange(len(values), device=values.device), "amin")
    mask = torch.zeros(len(values), dtype=torch.bool, device=values.device)
    mask[places[places < len(values)]] = True
    return mask


def _matrix(rows: Tensor, columns: Tensor, weights: Tensor, shape: tuple[int, int]) -> SparseMatrix:
    return SparseMatrix(
        SparseRows.of(rows, columns, weights, shape[0]), SparseRows.of(columns, rows, weights, shape[1])
    )

"""A classifier over an encoder, and a committee of them, each trained without another part of the labels."""

from __future__ import annotations

from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.config.build import build_encoder
from tuckerkg.config.settings import Settings
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.nn.contracts import Encoder
from tuckerkg.tasks.task import Task
from tuckerkg.types import Readout

START_STD = 0.1


class Pool(nn.Module):
    """Vectors of nodes to one of each graph, ``[N, d] -> [G, d]``: their sum, mean, or weighed by attention."""

    def __init__(self, dim: int, readout: Readout) -> None:
        super().__init__()
        if readout not in get_args(Readout):
            raise ValueError(f"readout is {', '.join(get_args(Readout))}, got {readout!r}")
        self.readout = readout
        self.attention = nn.Linear(dim, 1) if readout == "attention" else None

    def forward(self, nodes: Tensor, graph_of: Tensor, num_graphs: int) -> Tensor:
        """Pool the nodes of each graph."""
        if self.attention is not None:
            weights = self.attention(nodes)[:, 0]  # [N]
            weights = (weights - weights.max().detach()).exp()
            total = nodes.new_zeros(num_graphs).index_add(0, graph_of, weights)
            nodes = nodes * (weights / total[graph_of])[:, None]
        sums = nodes.new_zeros(num_graphs, nodes.shape[1]).index_add(0, graph_of, nodes)
        if self.readout != "mean":
            return sums
        return sums / torch.bincount(graph_of, minlength=num_graphs).clamp_min(1)[:, None]


class Classifier(nn.Module):
    """Start vectors, an encoder, a readout where graphs are classified, and a layer for the classes.

    Args:
        num_starts: different start vectors; nodes share them as ``starts_of`` says.
        num_features: numbers that nodes have, which are projected and added to their starts.
        encoder: what sends the messages.
        readout: how the nodes of a graph become one vector; None: nodes are classified.
        dropout: on the start vectors, and in front of the last layer.
    """

    encoder: Encoder

    def __init__(  # noqa: PLR0913  (by keyword)
        self, num_starts: int, num_features: int, num_relations: int, num_classes: int, encoder: Encoder, *,
        dim: int, relation_dim: int, readout: Readout | None = None, dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.starts = nn.Parameter(torch.empty(num_starts, dim))
        self.relations = nn.Parameter(torch.empty(num_relations, relation_dim))
        self.project = nn.Linear(num_features, dim, bias=False) if num_features else None
        self.encoder, self.dropout = encoder, dropout
        self.pool = None if readout is None else Pool(dim + encoder.out_dim, readout)
        self.head: nn.Module
        if readout is None:
            self.head = nn.Linear(encoder.out_dim, num_classes)
        else:
            width = dim + encoder.out_dim
            layers = (nn.BatchNorm1d(width), nn.Linear(width, dim), nn.ReLU(), nn.Dropout(dropout))
            self.head = nn.Sequential(*layers, nn.Linear(dim, num_classes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize start vectors and relations; the parts initialize themselves."""
        nn.init.normal_(self.starts, std=START_STD)
        nn.init.normal_(self.relations, std=START_STD)

    def forward(self, graph: MessageGraph, known: NodeInputs) -> Tensor:
        """Scores of every class: ``[N, C]`` for nodes, ``[G, C]`` for graphs."""
        start = F.embedding(known.starts_of, self.starts)  # [N, d]
        if self.project is not None and known.features is not None:
            start = start + self.project(known.features)
        nodes, _ = self.encoder(graph, F.dropout(start, self.dropout, self.training), self.relations)
        if self.pool is None or known.graph_of is None:
            scores: Tensor = self.head(nodes)
            return scores
        both = torch.cat([start, F.relu(nodes)], 1)  # what nodes are, and what they hear
        pooled: Tensor = self.head(self.pool(both, known.graph_of, known.num_graphs))
        return pooled


class NodeInputs:
    """What a classifier reads of the nodes beside the messages.

    Args:
        task: whose nodes.
        least: facts that a node must be in to have a start vector of its own; all others share one. Where nodes have
            types, these are the starts.
    """

    def __init__(self, task: Task, least: int) -> None:
        self.features, self.graph_of, self.num_graphs = task.features, task.graph_of, len(task.graphs)
        self.starts_of: Tensor
        if task.node_types is not None:
            self.starts_of = task.node_types
        else:
            ends = torch.from_numpy(task.triples[:, [0, 2]]).flatten()
            own = torch.bincount(ends, minlength=task.num_nodes) >= least
            self.starts_of = torch.where(own, own.cumsum(0), 0)
        self.num_starts = int(self.starts_of.max()) + 1

    @property
    def num_features(self) -> int:
        """Numbers of each node."""
        return 0 if self.features is None else self.features.shape[1]

    def to(self, device: torch.device | str) -> NodeInputs:
        """The same on ``device``; changes this object."""
        for name in ("features", "graph_of", "starts_of"):
            tensor = getattr(self, name)
            setattr(self, name, None if tensor is None else tensor.to(device))
        return self


class Committee(nn.Module):
    """Classifiers that differ in their random start and in the labels that each does not see.

    Args:
        task: what is classified.
        settings: encoder, widths, ``classify``.
    """

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__()
        self.known = NodeInputs(task, settings.classify.least)
        relations = task.num_relations * (2 if task.inverses else 1)
        dim, relation_dim = settings.model.dim, settings.model.relation_dim
        self.members = nn.ModuleList(
            Classifier(
                self.known.num_starts, self.known.num_features, relations, len(task.classes),
                build_encoder(settings, relations), dim=dim, relation_dim=relation_dim,
                readout=settings.classify.readout if task.kind == "graphs" else None,
                dropout=settings.classify.dropout,
            )
            for _ in range(settings.classify.members)
        )  # fmt: skip

    def _apply(self, move: Any, recurse: bool = True) -> Committee:
        """Move the inputs along with the weights."""
        super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        self.known.to(next(self.parameters()).device)
        return self

    def forward(self, graph: MessageGraph) -> Tensor:
        """Scores by every member, ``[K, items, C]``."""
        return torch.stack([member(graph, self.known) for member in self.members])


def message_graph(task: Task, model: Committee) -> MessageGraph:
    """The messages of all facts of a task."""
    encoder = model.members[0].encoder
    edges = torch.from_numpy(edges_of(task))
    return MessageGraph.of(edges, task.num_nodes, encoder.normalize, order=encoder.order)  # type: ignore[union-attr, arg-type]


def edges_of(task: Task) -> Any:
    """All facts as edges ``[E, 3]``, and their inverses where messages go along them; fact i is edge i, and i + n."""
    return add_inverses(task.triples, task.num_relations) if task.inverses else task.triples

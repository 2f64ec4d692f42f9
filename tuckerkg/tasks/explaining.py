"""Which facts carried a class: deletion, one by one, of those that a gradient or the counts say matter most.

The gradient is that of the probability over the weights of all messages. What counts lose is seen by counting again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuckerkg.graph.message_graph import TracedGraph, edge_weights
from tuckerkg.tasks.counts import CountClassifier
from tuckerkg.tasks.model import Committee, edges_of
from tuckerkg.tasks.probabilities import ClassProbabilities
from tuckerkg.tasks.task import Task

DELETED = 24  # facts that are deleted one by one to find their order, by the gradient, and as many by counts
RECOUNTED = 200  # nearest facts without which an item is counted again


@dataclass(frozen=True)
class CarriedBy:
    """Probability with all facts, and for the strongest facts, rows of the triples, what it is without each."""

    probability: float
    without: list[tuple[int, float]]


@dataclass(frozen=True)
class ClassExplanation:
    """Why an item has a class, in words: facts and the probability without each."""

    item: str
    told: str
    probability: float
    facts: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, item: str, told: str, found: CarriedBy, fact: Callable[[int], str]) -> ClassExplanation:
        """Facts by what ``fact`` calls them."""
        return cls(item, told, found.probability, tuple((fact(row), after) for row, after in found.without))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        facts = [{"fact": text, "probability_without": after} for text, after in self.facts]
        return {"item": self.item, "class": self.told, "probability": self.probability, "facts": facts}


def explain_item(
    task: Task, model: Committee, fitted: ClassProbabilities, item: int, place: int, count: int,
    counts: CountClassifier | None = None,
) -> CarriedBy:  # fmt: skip
    """The ``count`` facts without which the class ``place`` of an item is least probable."""
    near = _Near(task, model, item)
    device = next(model.parameters()).device

    def counted(without: int | None = None) -> Tensor | None:
        return None if counts is None else counts.scores(torch.tensor([item]), without).to(device)

    def probability(weights: Tensor, without: int | None = None) -> Tensor:
        scores = model(near.graph.weighed(weights))[:, [item]]  # [K, 1, C]
        return fitted.of(scores, counted(without))[0, place]

    model.eval()
    leaf = near.weights().float().to(device).requires_grad_()
    with torch.enable_grad():
        whole = probability(leaf)
        (gradient,) = torch.autograd.grad(whole, leaf)
    carried = (gradient * leaf).detach().double().cpu()
    total = torch.zeros(len(task.triples), dtype=torch.double).index_add_(0, near.facts, carried)
    first = total.topk(min(max(DELETED, count), len(total))).indices.tolist()
    first = [row for row in first if total[row] > 0.0]
    if counts is not None and fitted.counted:
        first += _lost_by_counts(counts, item, place, near.own_facts(item))
    with torch.no_grad():
        after = [
            (row, float(probability(near.weights(without=row).float().to(device), row))) for row in dict.fromkeys(first)
        ]
    return CarriedBy(whole.item(), sorted(after, key=lambda each: each[1])[:count])


def _lost_by_counts(counts: CountClassifier, item: int, place: int, facts: list[int]) -> list[int]:
    """The facts without which counts speak least for a class."""
    asked = torch.tensor([item])

    def margin(without: int | None) -> float:
        return float(counts.scores(asked, without)[0].log_softmax(0)[place])

    whole = margin(None)
    left = {row: margin(row) for row in facts[:RECOUNTED]}
    return [row for row in sorted(left, key=left.__getitem__) if left[row] < whole][:DELETED]


class _Near:
    """The edges whose messages reach an item through all layers; for a graph of a set, its own."""

    def __init__(self, task: Task, model: Committee, item: int) -> None:
        encoder: Any = model.members[0].encoder
        self.normalize, self.num_nodes = encoder.normalize, task.num_nodes
        edges = edges_of(task)
        self.of_graph = task.graph_of is not None
        if task.graph_of is not None:
            ids = np.flatnonzero(task.graph_of.numpy()[edges[:, 0]] == item)
        else:
            reached = np.zeros(task.num_nodes, dtype=bool)
            reached[item] = True
            for _ in range(encoder.depth - 1):
                reached[edges[reached[edges[:, 2]], 0]] = True
            ids = np.flatnonzero(reached[edges[:, 2]])
        self.edges = torch.from_numpy(edges[ids])
        self.facts = torch.from_numpy(ids % len(task.triples))
        self.graph = TracedGraph(self.edges.to(next(model.parameters()).device), task.num_nodes)

    def own_facts(self, item: int) -> list[int]:
        """Facts of the node itself; of a graph, all of its own."""
        if self.of_graph:
            return torch.unique(self.facts).tolist()  # type: ignore[no-any-return]
        own = (self.edges[:, 0] == item) | (self.edges[:, 2] == item)
        return torch.unique(self.facts[own]).tolist()  # type: ignore[no-any-return]

    def weights(self, without: int | None = None) -> Tensor:
        """1 / c of every edge; those of the fact ``without`` are 0 and do not count."""
        kept = self.facts != (-1 if without is None else without)
        weights = torch.zeros(len(self.edges), dtype=torch.double)
        weights[kept] = edge_weights(self.edges[kept], self.num_nodes, self.normalize)
        return weights

"""Graphs as tensors, as PyTorch Geometric keeps them: a ``Data`` with labelled nodes, or one for each graph of a set.

Only attributes are read, so that nothing of that library is needed: ``edge_index [2, E]``, ``y``, and, where there are
any, ``edge_type [E]``, ``x [N, f]``, ``num_nodes``, ``train_mask [N]`` and ``test_mask [N]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuckerkg.errors import TuckerkgError
from tuckerkg.tasks.reading.graph_sets import stand_twice
from tuckerkg.tasks.task import TEST, TRAIN, Task

FEWEST = 2  # classes, and labels of each to train on


def is_tensors(graph: Any) -> bool:
    """Whether a graph is one that ``task_of_tensors`` reads."""
    if isinstance(graph, Sequence) and not isinstance(graph, str):
        return bool(graph) and hasattr(graph[0], "edge_index")
    return hasattr(graph, "edge_index")


def task_of_tensors(graph: Any, target: str) -> tuple[Task, bool]:
    """The task of a ``Data`` or of a sequence of them, and whether it says what is held out.

    A node's ``y`` below 0, or not a number, is no label. Of one graph, labels of ``train_mask`` are trained on and
    those of ``test_mask`` held out; others are not read. Of a set, ``x`` that is 1 in one column and 0 elsewhere is
    the type of a node, anything else numbers of it.

    Raises:
        TuckerkgError: shapes do not fit, or there is nothing to tell apart.
    """
    if isinstance(graph, Sequence):
        return _set_of(graph, target), False
    return _nodes_of(graph, target)


@dataclass(frozen=True)
class _Read:
    """One graph: facts ``[n, 3]``, how many nodes, and numbers of each."""

    triples: np.ndarray
    num_nodes: int
    x: Tensor | None


def _read(data: Any) -> _Read:
    ends = _tensor(data, "edge_index")
    if ends is None or ends.dim() != 2 or ends.shape[0] != 2:
        raise TuckerkgError("edge_index must be [2, E]: the sources, and the targets, of all edges")
    kinds = _tensor(data, "edge_type")
    if kinds is None:
        kinds = torch.zeros(ends.shape[1], dtype=torch.long)
    if kinds.shape != ends.shape[1:]:
        raise TuckerkgError(f"edge_type must be [{ends.shape[1]:,}], as many as edges, and is {list(kinds.shape)}")
    x = _tensor(data, "x")
    count = getattr(data, "num_nodes", None) or (len(x) if x is not None else int(ends.max()) + 1)
    if x is not None and (x.dim() != 2 or len(x) != count):
        raise TuckerkgError(f"x must be [{count:,}, f], a row for each node, and is {list(x.shape)}")
    if ends.numel() and not 0 <= int(ends.min()) <= int(ends.max()) < count:
        raise TuckerkgError(f"edge_index names node {int(ends.max())}, and there are {count:,}")
    triples = torch.stack([ends[0], kinds, ends[1]], 1).long().numpy()
    return _Read(triples, int(count), None if x is None else x.float())


def _nodes_of(data: Any, target: str) -> tuple[Task, bool]:
    found = _read(data)
    y = _labels(data)
    if y.shape != (found.num_nodes,):
        raise TuckerkgError(f"y must be [{found.num_nodes:,}], a class for each node, and is {list(y.shape)}")
    train, test = _tensor(data, "train_mask"), _tensor(data, "test_mask")
    told = y >= 0
    part = torch.full(y.shape, TRAIN)
    if test is not None:
        part[test.bool()] = TEST
        told &= test.bool() | (train.bool() if train is not None else torch.ones_like(told))
    elif train is not None:
        told &= train.bool()
    labelled = torch.nonzero(told)[:, 0]
    classes, label = _classes(y[told], part[told])
    triples = np.unique(found.triples, axis=0)
    task = Task(
        kind="nodes", target=target, classes=classes, triples=triples, num_nodes=found.num_nodes,
        num_relations=int(triples[:, 1].max(initial=0)) + 1, labelled=labelled, label=label, part=part[told],
        features=found.x, inverses=not stand_twice(triples),
    )  # fmt: skip
    return task, test is not None


def _set_of(graphs: Sequence[Any], target: str) -> Task:
    found = [_read(data) for data in graphs]
    sizes = torch.tensor([each.num_nodes for each in found])
    first = (sizes.cumsum(0) - sizes).tolist()
    shifts = np.array([[start, 0, start] for start in first])
    triples = np.concatenate([each.triples + shift for each, shift in zip(found, shifts, strict=True)])  # side by side
    y = torch.stack([_label_of_graph(data) for data in graphs])
    classes, label = _classes(y, torch.full(y.shape, TRAIN))
    given = [each.x for each in found if each.x is not None]
    if given and (len(given) < len(found) or len({x.shape[1] for x in given}) > 1):
        raise TuckerkgError("x must be there for all graphs, of one width")
    x = torch.cat(given) if given else torch.ones(int(sizes.sum()), 1)
    is_type = bool(((x == 0) | (x == 1)).all()) and bool((x.sum(1) == 1).all())
    triples = np.unique(triples, axis=0)
    return Task(
        kind="graphs", target=target, classes=classes, triples=triples, num_nodes=len(x),
        num_relations=int(triples[:, 1].max(initial=0)) + 1, labelled=torch.arange(len(y)), label=label,
        part=torch.full(y.shape, TRAIN), graph_of=torch.repeat_interleave(torch.arange(len(y)), sizes),
        graphs=tuple(f"{number:0{len(str(len(y)))}}" for number in range(len(y))),
        node_types=x.argmax(1) if is_type else torch.zeros(len(x), dtype=torch.long),
        features=None if is_type else x, inverses=not stand_twice(triples),
    )  # fmt: skip


def _classes(y: Tensor, part: Tensor) -> tuple[tuple[str, ...], Tensor]:
    """Names of the classes, and the number of each label's."""
    named, label = torch.unique(y, return_inverse=True)
    counts = torch.bincount(label[part == TRAIN], minlength=len(named))
    if len(named) < FEWEST or int(counts.min()) < FEWEST:
        raise TuckerkgError(
            f"y has {len(named)} classes, the smallest with {int(counts.min()) if len(counts) else 0} labels to train "
            f"on; {FEWEST} of each are needed"
        )
    return tuple(f"{value:g}" for value in named.tolist()), label


def _labels(data: Any) -> Tensor:
    y = _tensor(data, "y")
    if y is None:
        raise TuckerkgError("y is missing: the class of each node, or of the graph")
    return torch.where(y.isnan(), -1.0, y) if y.is_floating_point() else y


def _label_of_graph(data: Any) -> Tensor:
    y = _labels(data)
    if y.numel() != 1:
        raise TuckerkgError("y of each graph of a set must be one class")
    return y.reshape(())


def _tensor(data: Any, name: str) -> Tensor | None:
    found = getattr(data, name, None)
    return found.detach().cpu() if isinstance(found, Tensor) else None

"""The label's own edges: relations of the graph that say the class of an item, and so must be left out of it.

A relation counts where it goes from most labelled items to few other nodes, and where these nodes and the classes stand
for one another: knowing one is knowing the other. Only labels to train on are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tuckerkg.tasks.task import TRAIN, Task

COVERED = 0.5  # of the labelled items that a relation reaches
AGREE = 0.98  # of the reached items whose class is that of their node, and the other way round
FEWEST = 10  # reached items


@dataclass(frozen=True)
class OwnEdges:
    """A relation that says the label, in which direction, and how well."""

    relation: int
    from_item: bool
    covered: float
    agree: float


def own_edges(task: Task) -> list[OwnEdges]:
    """Relations that say the classes of the labels to train on."""
    if task.kind != "nodes":
        return []
    items, classes = (tensor.numpy() for tensor in task.of_part(TRAIN))
    class_of = np.full(task.num_nodes, -1)
    class_of[items] = classes
    found = []
    for from_item in (True, False):
        own, other = (0, 2) if from_item else (2, 0)
        about = task.triples[class_of[task.triples[:, own]] >= 0]
        for relation in np.unique(about[:, 1]).tolist():
            rows = about[about[:, 1] == relation]
            covered = len(np.unique(rows[:, own])) / len(items)
            agree = _agreement(rows[:, other], class_of[rows[:, own]])
            if covered >= COVERED and len(rows) >= FEWEST and agree >= AGREE:
                found.append(OwnEdges(relation, from_item, covered, agree))
    return found


def _agreement(nodes: np.ndarray, classes: np.ndarray) -> float:
    """The smaller of two shares: rows of each node's main class, and rows of each class's main node."""
    _, nodes = np.unique(nodes, return_inverse=True)
    _, classes = np.unique(classes, return_inverse=True)
    if nodes.max() == 0 or nodes.max() > 2 * (classes.max() + 1):  # the same for all, or nearly one for each
        return 0.0
    counts = np.zeros((nodes.max() + 1, classes.max() + 1), int)
    np.add.at(counts, (nodes, classes), 1)
    return float(min(counts.max(1).sum(), counts.max(0).sum()) / len(nodes))

"""What is put into classes: a graph, its labelled items, which are nodes or whole graphs, and what is known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from tuckerkg.errors import RunFolderError, UnknownNameError, did_you_mean, printable
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.storage.sealed_folder import json_bytes
from tuckerkg.types import JsonObject

WORDS, TENSORS = "task.json", "task.safetensors"
TRAIN, TEST = 0, 1
TaskKind = Literal["nodes", "graphs"]


@dataclass(frozen=True)
class Task:
    """Labelled items of one graph, or of a set of graphs that lie side by side in it.

    Attributes:
        kind: whether items are nodes of the graph or graphs of the set.
        target: the column that the classes come from.
        classes: their names; a class is a position here.
        triples: all facts ``[n, 3]`` over ``num_nodes`` nodes and ``num_relations`` relations, without inverses.
        labelled: the items that have a class, ``[m]``; ``label`` is it, ``[m]``, and ``part`` TRAIN or TEST, ``[m]``.
        graph_of: of a set of graphs, the graph that each node is in, ``[N]``.
        graphs: their names.
        node_types: what is known to be of one type shares a start, ``[N]``; None: nodes start as their facts say.
        features: numbers of each node ``[N, f]``, or none.
        inverses: whether messages go against facts too; not where every edge stands in both directions.
        notes: what was done to the graph, for people: relations left out, literals turned into features.
    """

    kind: TaskKind
    target: str
    classes: tuple[str, ...]
    triples: np.ndarray
    num_nodes: int
    num_relations: int
    labelled: Tensor
    label: Tensor
    part: Tensor
    graph_of: Tensor | None = None
    graphs: tuple[str, ...] = ()
    node_types: Tensor | None = None
    features: Tensor | None = None
    inverses: bool = True
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_items(self) -> int:
        """How many nodes, or graphs, there are, labelled or not."""
        return len(self.graphs) if self.kind == "graphs" else self.num_nodes

    def of_part(self, part: int) -> tuple[Tensor, Tensor]:
        """Items and classes of the labels to train on, or of those held out."""
        chosen = self.part == part
        return self.labelled[chosen], self.label[chosen]

    def with_parts(self, test: Tensor) -> Task:
        """The same task with the labels at the rows ``test`` held out, for cross-validation."""
        part = torch.zeros_like(self.part)
        part[test] = TEST
        return replace(self, part=part)

    def files(self) -> dict[str, bytes]:
        """What a run folder keeps of it beside the triples."""
        words = {name: getattr(self, name) for name in ("kind", "target", "num_nodes", "num_relations", "inverses")}
        words |= {"classes": list(self.classes), "graphs": list(self.graphs), "notes": dict(self.notes)}
        tensors = {"labelled": self.labelled, "label": self.label, "part": self.part}
        optional = {"graph_of": self.graph_of, "node_types": self.node_types, "features": self.features}
        tensors |= {name: tensor for name, tensor in optional.items() if tensor is not None}
        contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
        return {WORDS: json_bytes(words), TENSORS: safetensors.torch.save(contiguous)}


def read_task(folder: RunFolder) -> Task:
    """The task that a run folder was made for.

    Raises:
        RunFolderError: it was made for another one, or is damaged.
    """
    words: JsonObject = folder.extra_json(WORDS)
    tensors = folder.extra_tensors(TENSORS)
    try:
        return Task(
            kind=words["kind"],
            target=words["target"],
            classes=tuple(words["classes"]),
            triples=folder.split("train"),
            num_nodes=words["num_nodes"],
            num_relations=words["num_relations"],
            graphs=tuple(words["graphs"]),
            inverses=words["inverses"],
            notes=words["notes"],
            labelled=tensors["labelled"],
            label=tensors["label"],
            part=tensors["part"],
            graph_of=tensors.get("graph_of"),
            node_types=tensors.get("node_types"),
            features=tensors.get("features"),
        )
    except KeyError as error:
        raise RunFolderError(f"{folder.path}: {WORDS} and {TENSORS} lack {error}. Train it again.") from None


def stratified_folds(label: Tensor, count: int, seed: int) -> Tensor:
    """A fold from 0 to ``count`` - 1 for every label, each class spread evenly over them, ``[m]``."""
    random = np.random.default_rng([seed, 11])
    fold = torch.zeros(len(label), dtype=torch.long)
    first = 0
    for number in torch.unique(label).tolist():
        rows = torch.from_numpy(random.permutation(torch.nonzero(label == number)[:, 0].numpy()))
        fold[rows] = (torch.arange(len(rows)) + first) % count
        first += len(rows)  # so that small classes do not all fall into the first folds
    return fold


def class_of(name: str, classes: Sequence[str]) -> int:
    """The number of a class; raises UnknownNameError with the nearest names."""
    if name not in classes:
        raise UnknownNameError(f"there is no class '{printable(name)}'.{did_you_mean(name, classes)}")
    return list(classes).index(name)


def summary(task: Task) -> str:
    """One line for people."""
    counts = torch.bincount(task.label, minlength=len(task.classes)).tolist()
    sizes = ", ".join(f"{printable(name)} {count:,}" for name, count in zip(task.classes, counts, strict=True))
    train, test = (int((task.part == part).sum()) for part in (TRAIN, TEST))
    what = f"{len(task.graphs):,} graphs" if task.kind == "graphs" else f"{task.num_nodes:,} nodes"
    return (
        f"{printable(task.target)}: {train:,} labels to train on, {test:,} held out, of {what}; "
        f"{len(task.triples):,} facts. Classes: {sizes}"
    )


def notes_of(task: Task) -> list[str]:
    """What was done to the graph, in sentences."""
    return [text for text in task.notes.get("said", ()) if isinstance(text, str)]

"""Graphs given as tensors, in the shape of PyTorch Geometric's Data."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tuckerkg
from tuckerkg.errors import TuckerkgError
from tuckerkg.tasks.classify import LabelOptions, read_task_files
from tuckerkg.tasks.reading.tensors import is_tensors
from tuckerkg.tasks.task import TEST

SMALL = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 20.0, "train.threads": 1, "classify.members": 2}


def nodes(**changes):
    """Twenty people, each in one of two clubs, nodes 20 and 21."""
    people = torch.arange(20)
    y = torch.cat([people % 2, torch.tensor([-1, -1])])
    given = {
        "edge_index": torch.stack([people, 20 + people % 2]), "edge_type": torch.zeros(20, dtype=torch.long), "y": y,
        "train_mask": torch.arange(22) < 14, "test_mask": (torch.arange(22) >= 15) & (y >= 0), "num_nodes": 22,
    }  # fmt: skip
    return SimpleNamespace(**{**given, **changes})


def rings_and_chains(**changes):
    found = []
    for number in range(16):
        size = 4 + number % 3
        ends = [(k, (k + 1) % size) for k in range(size if number % 2 else size - 1)]
        both = torch.tensor(ends + [(b, a) for a, b in ends]).T
        x = F.one_hot(torch.arange(size) % 2, 2).float()
        given = {"edge_index": both, "x": x, "y": torch.tensor([number % 2]), **changes}
        found.append(SimpleNamespace(**given))
    return found


def test_masks_say_what_is_trained_on_and_what_is_held_out():
    found = read_task_files(nodes(), LabelOptions(keep_own_edges=True))
    task = found.task
    assert task.labelled.tolist() == [*range(14), *range(15, 20)]  # 14 is in neither mask, 20 and 21 have no label
    assert task.labelled[task.part == TEST].tolist() == list(range(15, 20))
    assert task.triples.tolist() == [[person, 0, 20 + person % 2] for person in range(20)]
    assert (task.classes, task.inverses, found.nodes[:2]) == (("0", "1"), True, ("00", "01"))


def test_own_edges_are_left_out_here_too():
    found = read_task_files(nodes(), LabelOptions())
    assert len(found.task.triples) == 0
    assert "says their class" in found.task.notes["said"][0]


def test_a_set_lies_side_by_side():
    given = rings_and_chains()
    task = read_task_files(given, LabelOptions()).task
    sizes = [len(data.x) for data in given]
    first = np.cumsum([0, *sizes])
    expected = sorted(
        [int(first[n] + a), 0, int(first[n] + b)] for n, data in enumerate(given) for a, b in data.edge_index.T.tolist()
    )
    assert task.triples.tolist() == expected
    assert task.graph_of.tolist() == np.repeat(range(16), sizes).tolist()
    assert task.node_types.tolist() == [k % 2 for size in sizes for k in range(size)]
    assert (task.features, task.inverses) == (None, False)
    assert int((task.part == TEST).sum()) == 4
    numbers = [SimpleNamespace(**{**vars(data), "x": data.x * 0.5}) for data in given]
    other = read_task_files(numbers, LabelOptions()).task
    assert torch.equal(other.features, torch.cat([data.x for data in numbers]))
    assert other.node_types.max() == 0


def test_they_are_classified_like_files():
    run = tuckerkg.classify(rings_and_chains(), overrides={**SMALL, "encoder.layers": 3, "classify.counts": "sums"})
    assert run.evaluate().judgement.accuracy == 1.0
    assert run.predict(["01"])[0].best == "1"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (nodes(y=None), "y is missing"),
        (nodes(y=torch.zeros(3)), r"y must be \[22\]"),
        (nodes(y=torch.zeros(22)), "y has 1 classes"),
        (nodes(edge_index=torch.zeros(3, 20, dtype=torch.long)), r"edge_index must be \[2, E\]"),
        (nodes(edge_index=torch.full((2, 20), 30)), "edge_index names node 30, and there are 22"),
        (nodes(edge_type=torch.zeros(3)), r"edge_type must be \[20\]"),
        (nodes(x=torch.zeros(3, 2)), r"x must be \[22, f\]"),
        (rings_and_chains(y=torch.zeros(2)), "must be one class"),
        ([*rings_and_chains(), *rings_and_chains(x=None)], "x must be there for all graphs"),
    ],
)
def test_what_does_not_fit_is_said(data, said):
    assert is_tensors(data)
    with pytest.raises(TuckerkgError, match=said):
        read_task_files(data, LabelOptions())

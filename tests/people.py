"""A small graph of people who work in two groups, and molecules of two kinds, for tests of classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_people(folder: Path, *, own_edge: bool = False, people: int = 40) -> tuple[Path, Path]:
    """A graph in which people of a group mostly work on its projects, and a file of their groups."""
    random = np.random.default_rng(0)
    rows, labels = [], ["person\tgroup"]
    for number in range(people):
        group = number % 2
        labels.append(f"p{number:02}\t{'red' if group else 'blue'}")
        for project in random.choice(4, 2, replace=False):
            rows.append(f"p{number:02}\tworks_on\tproject{2 * project + group}")
        rows.append(f"p{number:02}\tlives_in\ttown{random.integers(3)}")
        rows.append(f"p{number:02}\tknows\tp{(number + 2) % people:02}")
        if own_edge:
            rows.append(f"{'red' if group else 'blue'}_team\temploys\tp{number:02}")
    graph, file = folder / "graph.tsv", folder / "people.tsv"
    graph.write_text("\n".join(rows) + "\n", encoding="utf-8")
    file.write_text("\n".join(labels) + "\n", encoding="utf-8")
    return graph, file


def write_molecules(folder: Path, count: int = 20) -> Path:
    """A set of graphs in the TU format: rings of one kind of atom, and chains with another at their end."""
    place = folder / "TOY"
    place.mkdir()
    edges, kinds, of, types, labels = [], [], [], [], []
    for number in range(count):
        size, first = 4 + number % 3, len(of) + 1
        ring = number % 2
        of += [number + 1] * size
        types += [0] * (size - 1) + [0 if ring else 1]
        pairs = [(place_, place_ + 1) for place_ in range(size - 1)] + ([(size - 1, 0)] if ring else [])
        for a, b in pairs:
            edges += [f"{first + a}, {first + b}", f"{first + b}, {first + a}"]
            kinds += ["0", "0"]
        labels.append("1" if ring else "-1")
    files = {"A": edges, "edge_labels": kinds, "graph_indicator": of, "node_labels": types, "graph_labels": labels}
    for name, lines in files.items():
        (place / f"TOY_{name}.txt").write_text("\n".join(map(str, lines)) + "\n", encoding="utf-8")
    return place

"""An explanation as a picture: the fact on top, the edges that carried it, and a path between the two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuckerkg.explain import Explanation
from tuckerkg.plots import plain, pyplot

ASKED, CARRIED, PATH = "#d1495b", "#0b6e99", "#888888"
PATHS = 2  # drawn at most

Place = tuple[float, float]


def draw_explanation(found: Explanation, path: Path) -> None:
    """Head left, tail right. Wider edges carried more; grey ones are the best paths."""
    plots = pyplot()
    figure, axes = plots.subplots(figsize=(11, 5.5))
    places = _places(found)
    _arrow(axes, places[found.head], places[found.tail], found.relation, ASKED, 2.0, style="--")
    for way in found.paths[:PATHS]:
        for start, relation, end, forwards in way.steps:
            pair = (start, end) if forwards else (end, start)
            _arrow(axes, places[pair[0]], places[pair[1]], relation, PATH, 1.0)
    most = max((edge.loss for edge in found.edges), default=0.0)
    for edge in found.edges:
        width = 1.0 + 4.0 * max(edge.loss, 0.0) / most if most > 0 else 1.0
        _arrow(axes, places[edge.head], places[edge.tail], edge.relation, CARRIED, width)
    for name, (x, y) in places.items():
        colour = ASKED if name in (found.head, found.tail) else "black"
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": colour}
        axes.text(x, y, plain(name, 32), ha="center", va="center", fontsize=8, bbox=box)
    axes.set_title(plain(f"rank {found.standing.rank:,}, probability {found.probability:.0%}", 80), fontsize=10)
    heights = [y for _, y in places.values()]
    axes.set_xlim(-0.15, 1.15)
    axes.set_ylim(min(heights) - 0.5, max(heights) + 0.5)
    axes.set_axis_off()
    figure.savefig(path, dpi=110)
    plots.close(figure)


def _places(found: Explanation) -> dict[str, Place]:
    """Head and tail on the two sides, what touches one of them beside it, the rest in the middle."""
    places: dict[str, Place] = {found.head: (0.0, 0.0)}
    places.setdefault(found.tail, (1.0, 0.0))
    columns: dict[float, list[str]] = {0.25: [], 0.5: [], 0.75: []}
    for name, x in _columns(found).items():
        if name not in places:
            columns[x].append(name)
    for x, names in columns.items():
        for row, name in enumerate(names):
            height = (row // 2 + 1) * (1 if row % 2 else -1)
            places[name] = (x, 0.8 * height)
    return places


def _columns(found: Explanation) -> dict[str, float]:
    columns: dict[str, float] = {}
    for edge in found.edges:
        for name, other in ((edge.head, edge.tail), (edge.tail, edge.head)):
            columns.setdefault(name, 0.25 if other == found.head else 0.75 if other == found.tail else 0.5)
    for way in found.paths[:PATHS]:
        middles = [step[2] for step in way.steps[:-1]]
        for place, name in enumerate(middles):
            columns.setdefault(name, (0.25, 0.75)[place] if len(middles) == 2 else 0.5)
    return columns


def _arrow(axes: Any, start: Place, end: Place, label: str, colour: str, width: float, style: str = "-") -> None:
    look = {"arrowstyle": "-|>", "color": colour, "lw": width, "linestyle": style, "shrinkA": 12, "shrinkB": 12}
    axes.annotate("", xy=end, xytext=start, arrowprops=look)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    axes.text(x, y, plain(label, 34), fontsize=6, color=colour, ha="center", va="center", bbox=box)

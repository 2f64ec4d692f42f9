"""Plots of comparisons and explanations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuckerkg.errors import TuckerkgError, printable
from tuckerkg.explain.explainer import Explanation
from tuckerkg.reports.comparison import RunComparison


def pyplot() -> Any:
    """Matplotlib's pyplot, without a screen."""
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ImportError as error:
        raise TuckerkgError("plots need matplotlib: pip install 'tuckerkg[plots]'") from error
    mpl.use("Agg")
    from matplotlib import pyplot as found  # noqa: PLC0415

    return found


def check_plot(path: Path) -> None:
    """Refuse what could not be drawn, before anything is computed."""
    pyplot()
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise TuckerkgError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    if not path.resolve().parent.is_dir():
        raise TuckerkgError(f"--plot {path}: there is no folder {path.resolve().parent}")


def plain(text: str, width: int) -> str:
    """Without signs that matplotlib reads as mathematics; cut to ``width`` from the left, where names differ least."""
    text = printable(text).replace("$", r"\$")
    return text if len(text) <= width else "..." + text[-(width - 3) :]


RELATIONS = 15  # shown at most


def draw_comparison(found: RunComparison, path: Path) -> None:
    """Left: MRR by the answer's number of training facts. Right: the relations with most questions."""
    plots = pyplot()
    figure, (left, right) = plots.subplots(1, 2, figsize=(11, 4.6))
    for place, name in enumerate(found.names):
        label = plain(name, 40)
        left.plot([part.name for part in found.degrees], [part.mrr[place] for part in found.degrees], "o-", label=label)
    left.set_xlabel("training facts about the answer")
    left.set_ylabel("MRR")
    left.tick_params(axis="x", rotation=45)
    left.legend(fontsize=8)
    left.grid(alpha=0.3)
    _relations(right, found)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plots.close(figure)


def _relations(axes: Any, found: RunComparison) -> None:
    parts = found.relations[:RELATIONS][::-1]
    height = 0.8 / len(found.names)
    for place in range(len(found.names)):
        rows = [row + 0.4 - (place + 0.5) * height for row in range(len(parts))]
        axes.barh(rows, [part.mrr[place] for part in parts], height)
    axes.set_yticks(range(len(parts)), [plain(part.name, 36) for part in parts], fontsize=7)
    axes.set_xlabel("MRR")
    axes.grid(alpha=0.3, axis="x")


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

"""A comparison of runs as a picture: by degree, and relation by relation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuckerkg.compare import Comparison
from tuckerkg.plots import plain, pyplot

RELATIONS = 15  # shown at most


def draw_comparison(found: Comparison, path: Path) -> None:
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


def _relations(axes: Any, found: Comparison) -> None:
    parts = found.relations[:RELATIONS][::-1]
    height = 0.8 / len(found.names)
    for place in range(len(found.names)):
        rows = [row + 0.4 - (place + 0.5) * height for row in range(len(parts))]
        axes.barh(rows, [part.mrr[place] for part in parts], height)
    axes.set_yticks(range(len(parts)), [plain(part.name, 36) for part in parts], fontsize=7)
    axes.set_xlabel("MRR")
    axes.grid(alpha=0.3, axis="x")

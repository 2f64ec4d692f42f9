"""A comparison of runs as a picture: by degree, and relation by relation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuckerkg.compare import Comparison
from tuckerkg.errors import TuckerkgError, printable

RELATIONS = 15  # shown at most


def check_plot(path: Path) -> None:
    """Refuses what could not be drawn, before anything is computed."""
    try:
        import matplotlib  # noqa: F401, PLC0415
    except ImportError as error:
        raise TuckerkgError("plots need matplotlib: pip install 'tuckerkg[plots]'") from error
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise TuckerkgError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    if not path.resolve().parent.is_dir():
        raise TuckerkgError(f"--plot {path}: there is no folder {path.resolve().parent}")


def draw_comparison(found: Comparison, path: Path) -> None:
    """Left: MRR by the answer's number of training facts. Right: the relations with most questions."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6))
    for place, name in enumerate(found.names):
        label = _plain(name, 40)
        left.plot([part.name for part in found.degrees], [part.mrr[place] for part in found.degrees], "o-", label=label)
    left.set_xlabel("training facts about the answer")
    left.set_ylabel("MRR")
    left.tick_params(axis="x", rotation=45)
    left.legend(fontsize=8)
    left.grid(alpha=0.3)
    _relations(right, found)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _relations(axes: Any, found: Comparison) -> None:
    parts = found.relations[:RELATIONS][::-1]
    height = 0.8 / len(found.names)
    for place in range(len(found.names)):
        rows = [row + 0.4 - (place + 0.5) * height for row in range(len(parts))]
        axes.barh(rows, [part.mrr[place] for part in parts], height)
    axes.set_yticks(range(len(parts)), [_plain(part.name, 36) for part in parts], fontsize=7)
    axes.set_xlabel("MRR")
    axes.grid(alpha=0.3, axis="x")


def _plain(text: str, width: int) -> str:
    """Without signs that matplotlib reads as mathematics; cut to ``width`` from the left, where names differ least."""
    text = printable(text).replace("$", r"\$")
    return text if len(text) <= width else "..." + text[-(width - 3) :]

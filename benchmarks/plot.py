"""Cost against size: seconds of a step against entities, seconds of reading against triples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


def draw(lines: list[dict[str, Any]], out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, stage, size, title in (
        (axes[0], "growth", r"(\d+) entities", "A training step while the graph grows"),
        (axes[1], "read", r"(\d+) distinct", "Reading a file of triples"),
    ):
        series: dict[str, list[tuple[int, float]]] = {}
        for line in lines:
            found = re.search(size, line["work"])
            if line["stage"] != stage or found is None:
                continue
            others = [] if stage == "growth" else line["against"]
            for name, seconds in [("tuckerkg", line["seconds"]), *((o["name"], o["seconds"]) for o in others)]:
                series.setdefault(name, []).append((int(found[1]), seconds))
        for name, points in series.items():
            axis.plot(*zip(*sorted(points), strict=True), marker="o", label=name)
        axis.set(
            xscale="log",
            yscale="log",
            title=title,
            ylabel="seconds",
            xlabel=size.split()[-1].replace("distinct", "triples"),
        )
        if series:
            axis.legend()
    figure.savefig(out, dpi=110)
    pyplot.close(figure)


def draw_ranks(lines: list[dict[str, Any]], out: Path) -> None:
    """What each rank held and sent, beside the formula."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = [line["ranks"] for line in lines if line["stage"] == "ranks"]
    places = range(len(found))
    sizes = " and ".join(f"{size:,}" for size in sorted({one["entities"] for one in found}))
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    before = [max(one["before_mb"]) for one in found]
    held = [one["formula_mb"] for one in found]
    axes[0].bar(places, before, width=0.5, color="0.8", label="program, before it has anything")
    axes[0].bar(places, held, width=0.5, bottom=before, color="0.6", label="tables and facts, by formula")
    axes[0].plot(places, [max(one["peak_mb"]) for one in found], "o", label="peak, measured")
    axes[0].plot(places, [one["allowed_mb"] for one in found], "_", markersize=30, label="share of the whole + 500 MB")
    axes[0].set(title="Memory of a rank", ylabel="MB")
    axes[1].plot(places, [one["formula_sent"] / 1e6 for one in found], "x", markersize=10, label="by formula")
    axes[1].plot(places, [one["sent"] / 1e6 for one in found], "o", fillstyle="none", label="counted")
    axes[1].set(title="Sent by a rank in a step", ylabel="MB", ylim=(0, None))
    for axis in axes:
        axis.set_xticks(places, [f"{one['ranks']}" for one in found])
        axis.set_xlabel(f"ranks, for {sizes} entities")
        axis.legend(fontsize=8)
    figure.savefig(out, dpi=110)
    pyplot.close(figure)

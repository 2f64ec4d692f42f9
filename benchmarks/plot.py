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

"""The paper's three figures redrawn with both curves, and MRR against minutes, from result files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuckerkg.errors import TuckerkgError
from tuckerkg.paper.printed_page import draw_printed
from tuckerkg.paper.question_page import NOTHING_MEASURED, Studies
from tuckerkg.paper.reproduce import Outcome, counted_minutes
from tuckerkg.paper.sparsity_page import GRAPHS, draw_sparsity
from tuckerkg.paper.trust_page import draw_trust
from tuckerkg.types import JsonObject

PAPER, OURS, THIRD = "#777777", "#0b6e99", "#d1495b"


def draw_figures(found: Mapping[str, Outcome], folder: Path, studies: Studies = NOTHING_MEASURED) -> list[str]:
    """Write one PNG per figure into ``folder`` and give their file names; a curve without runs shows the paper's.

    ``studies`` have the figures of scripts: whether probabilities hold, where an encoder pays, the recipe as printed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ImportError as error:
        raise TuckerkgError("figures need matplotlib: pip install 'tuckerkg[plots]'") from error
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    return [
        *([_trust(studies.trust, folder / "trust.png")] if studies.trust else []),
        *([_sparsity(studies.sparsity, folder / "sparsity.png")] if studies.sparsity else []),
        *([_printed(studies.printed, folder / "printed.png")] if studies.printed else []),
        _question(found, folder / "question.png"),
        _bases(found, folder / "bases.png"),
        _subgraphs(found, "fb15k-237", "FB15k-237", folder / "subgraph-fb15k-237.png"),
        _subgraphs(found, "wn18rr", "WN18RR", folder / "subgraph-wn18rr.png"),
        _against_minutes(found, folder / "minutes.png"),
    ]


def _trust(rows: Sequence[JsonObject], path: Path) -> str:
    figure, axes = _figure("The first 20, 100, 500 and 2,000 missing facts")
    draw_trust(rows, axes)
    _label(axes, "mean probability that was said", "share that was true")
    return _saved(figure, path)


def _sparsity(rows: Sequence[JsonObject], path: Path) -> str:
    from matplotlib import pyplot  # noqa: PLC0415

    high = len({row["dataset"] for row in rows})
    figure, panels = pyplot.subplots(high, len(GRAPHS), figsize=(9.0, 2.6 * high), sharey="row", squeeze=False)
    draw_sparsity(rows, panels)
    for axes in panels.flat:
        _label(axes, "facts of the entity that is asked about", "test MRR")
    return _saved(figure, path)


def _printed(rows: Sequence[JsonObject], path: Path) -> str:
    figure, axes = _figure("The paper's recipe as printed: validation along the way")
    draw_printed(rows, axes)
    _label(axes, "steps", "validation MRR")
    return _saved(figure, path)


def _question(found: Mapping[str, Outcome], path: Path) -> str:
    """Validation MRR over counted minutes: messages from the question beside TuckER."""
    figure, axes = _figure("Validation MRR while training")
    for name, colour, style in (
        ("fb15k-237-paths", OURS, "-"),
        ("fb15k-237-none-tucker", OURS, ":"),
        ("wn18rr-paths", THIRD, "-"),
        ("wn18rr-none-tucker-100", THIRD, ":"),
    ):
        for place, result in enumerate(found[name].results):
            minutes, mrr = zip(*result["curve"], strict=True)
            factor = counted_minutes(result) / result["minutes"]
            label = None if place else found[name].row.name
            axes.plot([factor * minute for minute in minutes], mrr, style, c=colour, alpha=0.8, label=label)
    _label(axes, "minutes on two cores, as counted", "validation MRR")
    return _saved(figure, path)


def _points(found: Mapping[str, Outcome], start: str) -> list[Outcome]:
    return sorted((item for name, item in found.items() if name.startswith(start)), key=lambda item: item.row.x or 0)


def _both_curves(axes: Any, items: list[Outcome]) -> None:
    axes.plot(
        [item.row.x for item in items], [item.row.printed("mrr") for item in items], "o--", c=PAPER, label="paper"
    )
    done = [item for item in items if item.results]
    if done:
        axes.plot([item.row.x for item in done], [item.mean() for item in done], "s-", c=OURS, label="tuckerkg")
    axes.set_ylabel("test MRR")
    axes.grid(alpha=0.3)


def _bases(found: Mapping[str, Outcome], path: Path) -> str:
    figure, axes = _figure("The number of bases, TGCN-TuckER on WN18RR")
    items = _points(found, "wn18rr-tgcn-tucker-cp-bases")
    _both_curves(axes, items)
    axes.set_xscale("log")
    axes.set_xticks([item.row.x for item in items], [str(item.row.x) for item in items])
    axes.minorticks_off()
    axes.set_xlabel("$n_b$")
    right = axes.twinx()
    enfp = [600 * (item.row.x or 0) + 21_200 for item in items]
    right.plot([item.row.x for item in items], enfp, "^:", c=THIRD, label="#ENFP", alpha=0.7)
    right.set_ylabel("#ENFP")
    lines = axes.get_lines() + right.get_lines()
    axes.legend(lines, [line.get_label() for line in lines], loc="upper left")
    return _saved(figure, path)


def _subgraphs(found: Mapping[str, Outcome], dataset: str, title: str, path: Path) -> str:
    figure, axes = _figure(f"The size of random subgraphs, TGCN-TuckER on {title}")
    _both_curves(axes, _points(found, f"{dataset}-tgcn-tucker-subgraph"))
    axes.set_xlabel("$g_s$")
    axes.legend()
    return _saved(figure, path)


def _against_minutes(found: Mapping[str, Outcome], path: Path) -> str:
    """Validation MRR of the headline runs as they train; the horizontal lines are the test MRR they ended at."""
    figure, axes = _figure("Headline runs: validation MRR while training")
    for name, colour in (("fb15k-237-tgcn-tucker", OURS), ("wn18rr-tgcn-tucker", THIRD)):
        for result in found[name].results:
            minutes, mrr = zip(*result["curve"], strict=True)
            axes.plot(minutes, mrr, "-", c=colour, alpha=0.8, label=f"{name}, seed {result['seed']}")
        ours = found[name].mean()
        if ours is not None:
            axes.axhline(ours, c=colour, ls=":", lw=1)
    _label(axes, "minutes", "validation MRR (dotted: test)")
    return _saved(figure, path)


def _label(axes: Any, below: str, left: str) -> None:
    axes.set_xlabel(below)
    axes.set_ylabel(left)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)


def _figure(title: str) -> tuple[Any, Any]:
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(5.6, 3.6))
    axes.set_title(title, fontsize=10)
    return figure, axes


def _saved(figure: Any, path: Path) -> str:
    from matplotlib import pyplot  # noqa: PLC0415

    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return path.name

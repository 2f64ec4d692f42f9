"""The part of RESULTS.md on the paper's own recipe: what it reaches as printed, with every message and with none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuckerkg.paper.claims import Outcomes
from tuckerkg.paper.markdown import as_table, short, signed
from tuckerkg.types import JsonObject

COLOURS = ("#0b6e99", "#d1495b", "#5a8f29", "#8a5aa8")


def printed_section(rows: Sequence[JsonObject], found: Outcomes) -> str:
    """From what ``scripts/measure_printed.py`` wrote; ``found`` has what the paper prints."""
    lines = []
    for row in rows:
        name = row["experiment"].removeprefix("paper-")
        printed = found[name].row.printed("mrr") if name in found else None
        ours, silent = row["test"]["mrr"], row["test_without_messages"]["mrr"]
        lines.append(
            [
                row["run"], f"`{row['experiment']}`", f"{row['steps']:,}", f"{row['best_step']:,}",
                f"{row['lr'] / row['first_lr']:.2f}", short(printed), short(ours), short(silent),
                signed(ours - silent), "–" if printed is None else signed(ours - printed), f"{row['minutes']:,.0f}",
            ]
        )  # fmt: skip
    header = ["run", "settings", "steps done", "best step", "rate left", "paper MRR", "test MRR", "messages off"]
    header += ["messages", "beside the paper", "minutes"]
    return (
        "## The paper's recipe as printed\n\n"
        "The settings of `tuckerkg/experiments/paper`, untouched: messages from the first step, random subgraphs, step "
        "decay of the rate, nothing warm. Validation is ranked twice along the way, with every message and with none, "
        "and the weights that it chose are measured on test (`scripts/measure_printed.py`). `rate left` is the share "
        "of the first learning rate at the last step: a run that is far from .01 is not at its end.\n\n"
        + as_table(header, lines)
    )


def draw_printed(rows: Sequence[JsonObject], axes: Any) -> None:
    """Validation MRR over steps: with messages (lines) and without any (dots)."""
    for place, row in enumerate(rows):
        colour = COLOURS[place % len(COLOURS)]
        steps = [point["step"] for point in row["curve"]]
        axes.plot(steps, [point["valid"] for point in row["curve"]], "-", c=colour, label=row["run"])
        silent = [(point["step"], point["valid_without_messages"]) for point in row["curve"]]
        silent = [point for point in silent if point[1] is not None]
        if silent:
            axes.plot(*zip(*silent, strict=True), ":", c=colour, label=f"{row['run']}, messages off")


def printed_file(results: Path) -> Path:
    """Where the study is."""
    return results / "studies" / "printed.json"

"""Tables and figures as Markdown, written as the paper prints them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuckerkg.paper.reproduce import Outcome


def as_table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table with a header."""
    rows = [columns, ["---"] * len(columns), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def with_deviation(item: Outcome) -> str:
    """Test MRR over seeds; where some are missing, how many there are."""
    deviation = item.deviation
    missing = f" ({len(item.results)} of {len(item.row.seeds)} seeds)" if item.results and item.is_partial else ""
    return short(item.mean()) + ("" if deviation is None else f" ± {short(deviation)}") + missing


def short(value: float | None) -> str:
    """.359 rather than 0.359, as the paper prints."""
    return "–" if value is None else f"{value:.3f}".removeprefix("0")


def signed(value: float) -> str:
    """+.012 or -.003."""
    return f"{value:+.3f}".replace("0.", ".", 1)


def number(value: float | None, form: str) -> str:
    """In a form of ``format``, or a dash."""
    return "–" if value is None else format(value, form)

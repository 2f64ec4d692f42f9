"""Labels that are too long to be asked for: the service takes names of so many characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tuckerkg.errors import InputError, Problem

if TYPE_CHECKING:
    import polars as pl

LONGEST_LABEL = 4_096  # characters
REMEDY = "A label names something: give it a short one, and keep the text elsewhere."


def refuse_long_labels(
    shown: str, columns: tuple[pl.Series, pl.Series, pl.Series], labels: list[pl.Series], numbers: npt.NDArray[np.int64]
) -> None:
    """Refuse rows with a label that nobody could ask for.

    Args:
        shown: what the file is called.
        columns: heads, relations and tails.
        labels: the distinct labels in them.
        numbers: the line of each row.

    Raises:
        InputError: with the lines.
    """
    if not any(len(part) and int(part.str.len_bytes().max() or 0) > LONGEST_LABEL for part in labels):  # type: ignore[arg-type]
        return
    problems: list[Problem] = []
    total = 0
    for name, column in zip(("head", "relation", "tail"), columns, strict=True):
        lengths = column.str.len_chars().to_numpy()
        rows = np.flatnonzero(lengths > LONGEST_LABEL)
        total += len(rows)
        for row in rows[: InputError.SHOWN]:
            what = f"the {name} has {int(lengths[row]):,} characters, a label has {LONGEST_LABEL:,} at most"
            problems.append(Problem(shown, int(numbers[row]), None, what))
    if problems:
        problems.sort(key=lambda problem: problem.line or 0)
        raise InputError(problems[: InputError.SHOWN], REMEDY, total)

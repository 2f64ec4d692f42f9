"""Which columns of a file are head, relation and tail: by position, by number, or by the names in its header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tuckerkg.data.readers.bytes import TextFile, refuse
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.errors import did_you_mean

if TYPE_CHECKING:
    from tuckerkg.data.readers.delimited import Table

FIELDS = ("head", "relation", "tail")


@dataclass(frozen=True)
class Layout:
    """Which columns are head, relation and tail: ``picks`` out of ``width`` fields, after the row ``header_row`` if
    any."""

    width: int
    picks: tuple[int, int, int]
    header_row: int | None


HEADER_WORDS = (
    frozenset({"head", "subject", "source", "src", "from", "h", "s", "head_id", "entity1", "head_entity"}),
    frozenset({"relation", "predicate", "property", "rel", "edge", "r", "p", "relation_id", "type", "label"}),
    frozenset({"tail", "object", "target", "dst", "to", "t", "o", "tail_id", "entity2", "tail_entity"}),
)


def find_layout(table: Table, text: TextFile, options: ReadOptions) -> Layout:
    """The layout that the first row with data shows; refuses a file without any."""
    candidates = ~table.blank
    if options.columns is None:
        candidates &= ~table.hashes | (table.widths == len(FIELDS))
    elif (candidates & ~table.hashes).any():
        candidates &= ~table.hashes
    rows = np.flatnonzero(candidates)
    if not len(rows):
        refuse(
            text.shown,
            "0 triples found: the file is empty or has only blank lines and comments; "
            "rows of head, relation, tail were expected",
        )
    row = int(rows[0])
    return layout_of(table.fields(row), row, int(table.line_numbers[row]), text.shown, options)


def layout_of(first: list[str], row: int, place: int, shown: str, options: ReadOptions) -> Layout:
    """What the fields of the ``first`` row, on line ``place``, say about the columns."""
    named = options.columns is not None and any(isinstance(column, str) for column in options.columns)
    if named and options.header is False:
        refuse(shown, "columns were chosen by name, which needs a header; choose them by number", place)
    picks = _picks(first, options.columns, shown, place)
    has_header = named or bool(options.header)
    if not has_header and options.header is None:
        _ask_about_header(first, picks, shown, place)
    if has_header and options.columns is None:
        _check_header_order(first, shown, place)
    width = len(FIELDS) if options.columns is None else len(first)
    return Layout(width, picks, row if has_header else None)


def _picks(first: list[str], columns: Sequence[str | int] | None, shown: str, line: int) -> tuple[int, int, int]:
    if columns is None:
        return (0, 1, 2)
    if len(columns) != len(FIELDS) or len(set(columns)) != len(FIELDS):
        refuse(shown, f"{len(set(columns))} different columns chosen, three expected: head, relation, tail", line)
    picks = [_pick(first, column, shown, line) for column in columns]
    return (picks[0], picks[1], picks[2])


def _pick(first: list[str], column: str | int, shown: str, line: int) -> int:
    if isinstance(column, int):
        if not 1 <= column <= len(first):
            refuse(shown, f"column {column} chosen, the row has columns 1 to {len(first)}", line)
        return column - 1
    names = [name.strip() for name in first]
    if names.count(column) != 1:
        problem = "no column" if column not in names else "more than one column"
        refuse(
            shown,
            f"{problem} is named {column!r}; the header has {', '.join(map(repr, names))}."
            + did_you_mean(column, names),
            line,
        )
    return names.index(column)


def _ask_about_header(first: list[str], picks: tuple[int, int, int], shown: str, line: int) -> None:
    if len(first) <= max(picks):
        return
    words = [first[pick].strip().casefold() for pick in picks]
    if all(word in known for word, known in zip(words, HEADER_WORDS, strict=True)):
        refuse(
            shown,
            f"{' '.join(words)} looks like a header, a triple was expected; "
            "pass --header if it is one, --no-header if it is a triple",
            line,
            1,
        )


def _check_header_order(first: list[str], shown: str, line: int) -> None:
    """A header that names the columns in another order must not be read as head, relation, tail."""
    words = [word.strip().casefold() for word in first]
    roles = [{role for role, known in enumerate(HEADER_WORDS) if word in known} for word in words]
    if all(roles) and roles != [{0}, {1}, {2}]:
        order = [next((i for i, role in enumerate(roles) if wanted in role), -1) + 1 for wanted in range(len(FIELDS))]
        hint = f"pass --columns {','.join(map(str, order))}" if 0 not in order else "choose them with --columns"
        named = ", ".join(words)
        refuse(shown, f"the header names the columns {named}, head, relation, tail was expected; {hint}", line)

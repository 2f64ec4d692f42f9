"""What is wrong with a bad row of text, where, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tuckerkg.data.readers.bytes import TextFile
from tuckerkg.data.readers.columns import FIELDS, Layout
from tuckerkg.data.readers.delimited import Table
from tuckerkg.errors import Problem

DELIMITERS = {"tab": "\t", "comma": ",", "space": " ", "semicolon": ";", "pipe": "|"}


@dataclass(frozen=True)
class Judge:
    """Says what is wrong with a bad row."""

    table: Table
    text: TextFile
    layout: Layout

    @cached_property
    def bad_bytes(self) -> npt.NDArray[np.bool_]:
        """Rows with a line that is no text."""
        bad = np.zeros(len(self.table.line_numbers), dtype=np.bool_)
        if self.text.bad_lines:
            numbers = np.array(sorted(self.text.bad_lines))
            first = np.searchsorted(numbers, self.table.line_numbers, "left")
            bad = first < np.searchsorted(numbers, self.table.last_lines, "right")
        return bad

    def problem(self, row: int) -> Problem:
        """The first thing that is wrong with ``row``."""
        line, last = int(self.table.line_numbers[row]), int(self.table.last_lines[row])
        for number in range(line, last + 1):
            if number in self.text.bad_lines:
                return self.text.bad_lines[number]
        if row in self.table.errors:
            return Problem(self.text.shown, line, *self.table.errors[row])
        fields = self.table.fields(row)
        if len(fields) != self.layout.width:
            what = self._wrong_width(row, len(fields))
            if not self.text.ends_with_newline and row == len(self.table.line_numbers) - 1:
                what += " (the last line has no line end: the file may be cut off)"
            return Problem(self.text.shown, line, 1, what)
        return Problem(self.text.shown, line, *self._empty_field(fields))

    def _wrong_width(self, row: int, found: int) -> str:
        delimiter = self.table.delimiter
        name = delimiter_name(delimiter)
        width = self.layout.width
        if found == 1:
            raw = self.table.raw(row)
            for other in ("\t", ",", ";", "|", " "):
                if other != delimiter and raw.count(other) >= width - 1:
                    word = delimiter_name(other)
                    return (
                        f"0 {name}s found but {raw.count(other)} {word}s, {width - 1} {name}s expected; "
                        f"if {word}s separate the columns pass --delimiter {word}"
                    )
            return f"0 {name}s found, {width - 1} expected (head, relation, tail); is the delimiter another one?"
        columns = f"{found} columns found, {width} expected"
        if found > width == len(FIELDS):
            example = "--columns 1,2,3 (columns=(1, 2, 3) in Python)"
            return f"{columns} (head, relation, tail); choose three with --columns, for example {example}"
        expected = "head, relation, tail" if width == len(FIELDS) else "as in the first row"
        return f"{columns} ({expected}); complete the row"

    def _empty_field(self, fields: list[str]) -> tuple[int, str]:
        for name, pick in zip(FIELDS, self.layout.picks, strict=True):
            if not fields[pick].strip():
                kind = "white space only" if fields[pick] else "empty"
                column = sum(len(before) + 1 for before in fields[:pick]) + 1
                return column, f"the {name} is {kind}, a label was expected; fill it in or remove the row"
        return 1, "a label is white space only; fill it in or remove the row"


def delimiter_name(delimiter: str) -> str:
    """As options name it, or the character itself."""
    return next((name for name, character in DELIMITERS.items() if character == delimiter), repr(delimiter))

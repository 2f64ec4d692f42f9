"""A text file cut into rows and fields, before they are checked: plain lines as columns, or quoted CSV records.

A file without any irregularity, which is the usual one, is parsed straight from its bytes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tuckerkg.data.readers.bytes import TextFile, refuse
from tuckerkg.errors import InputError, Problem

if TYPE_CHECKING:
    import polars as pl
from tuckerkg.data.readers.columns import FIELDS, Layout

Positions = npt.NDArray[np.uint32]
PIECE = 1 << 26  # characters handed to the line splitter at a time
# Polars takes bytes that begin like this (zlib) for compressed data, and they can begin a text just as well.
ZLIB_MAGIC = (b"x\x01", b"x^", b"x\x9c", b"x\xda")


@dataclass(frozen=True)
class LabelledColumns:
    """Heads, relations and tails, and the distinct labels in them, sorted by code point."""

    heads: pl.Series
    relations: pl.Series
    tails: pl.Series
    entity_labels: pl.Series
    relation_labels: pl.Series

    @classmethod
    def of(cls, heads: pl.Series, relations: pl.Series, tails: pl.Series) -> LabelledColumns:
        """Collect the labels of three columns of strings."""
        return cls(heads, relations, tails, sorted_labels([heads, tails]), sorted_labels([relations]))

    def positions(self) -> tuple[Positions, Positions, Positions]:
        """The columns as positions among their labels, which take a fraction of the memory of strings."""
        return (
            _positions(self.heads, self.entity_labels),
            _positions(self.relations, self.relation_labels),
            _positions(self.tails, self.entity_labels),
        )


def _positions(column: pl.Series, labels: pl.Series) -> Positions:
    """The position of each value of ``column`` among the distinct ``labels``, which contain all of them.

    By hashes, which is exact as long as no two labels share one: a value has the hash of its own label alone.
    """
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    hashes, wanted = _hashes(labels), _hashes(column)
    order = np.argsort(hashes)
    hashes = hashes[order]
    if (hashes[1:] == hashes[:-1]).any():
        return column.cast(pl.Enum(labels)).to_physical().to_numpy().astype(np.uint32)
    # The first bits of a hash give nearly its place among the sorted ones; from there it is a few steps.
    bits = len(labels).bit_length() + 1
    shift = np.uint64(64 - bits)
    starts = np.searchsorted(hashes, np.arange(1 << bits, dtype=np.uint64) << shift).astype(np.uint32)
    places = starts[wanted >> shift]
    astray = np.flatnonzero(hashes[places] != wanted)
    while len(astray):
        places[astray] += 1
        astray = astray[hashes[places[astray]] != wanted[astray]]
    return np.asarray(order.astype(np.uint32)[places])


def _hashes(column: pl.Series) -> npt.NDArray[np.uint64]:
    return column.hash().to_numpy()


def sorted_labels(columns: Sequence[pl.Series]) -> pl.Series:
    """The distinct labels of some columns of strings, sorted by code point."""
    import polars as pl  # noqa: PLC0415

    # UTF-8 bytes sort as code points do.
    return pl.concat([column.rename("label") for column in columns]).unique().sort()


def clean_columns(data: bytes, delimiter: str) -> LabelledColumns | None:
    """The columns of a text in which every line is three labels, or None: then each row must be checked.

    ``data`` is UTF-8 with LF line ends and no NUL. Nothing is taken on trust from the parser: there must be as
    many rows as lines, no field may be missing or empty, no label may hold a delimiter, and labels, delimiters
    and line ends must add up to the bytes given, which leaves no room for a further field or a skipped line.
    """
    import polars as pl  # noqa: PLC0415

    if not data or not delimiter.isascii() or data.startswith(ZLIB_MAGIC) or (delimiter in ",;" and b'"' in data):
        return None
    frame = _parsed(data, delimiter)
    if frame is None:
        return None
    ended = data.endswith(b"\n")
    if frame.height != data.count(b"\n") + (not ended) or any(column.null_count() for column in frame):
        return None
    # Summed as 64 bits: the lengths are 32 bits wide, and their sum would wrap around at 4 GB.
    label_bytes = sum(int(column.str.len_bytes().cast(pl.UInt64).sum()) for column in frame)
    if label_bytes + len(FIELDS) * frame.height != len(data) + (not ended):
        return None
    columns = LabelledColumns.of(*frame)
    for labels in (columns.entity_labels, columns.relation_labels):
        if (labels.str.strip_chars() == "").any() or labels.str.contains(delimiter, literal=True).any():
            return None
    return columns


def _parsed(data: bytes, delimiter: str) -> pl.DataFrame | None:
    import polars as pl  # noqa: PLC0415

    schema = dict.fromkeys(FIELDS, pl.String)
    try:
        return pl.read_csv(data, separator=delimiter, has_header=False, quote_char=None, schema=schema)
    except (pl.exceptions.PolarsError, OSError):
        return None


class PlainTable:
    """Lines split at every delimiter, held as columns."""

    def __init__(self, text: TextFile, delimiter: str) -> None:
        import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

        self.delimiter = delimiter
        body = text.text.removesuffix("\n")
        self.lines = pl.Series("line", list(_pieces(body)), dtype=pl.String).str.split("\n").explode()
        if not text.text:
            self.lines = self.lines.clear()
        self.line_numbers = np.arange(1, len(self.lines) + 1)
        self.last_lines = self.line_numbers
        self.blank: npt.NDArray[np.bool_] = (self.lines.str.strip_chars(" ") == "").to_numpy()
        self.hashes: npt.NDArray[np.bool_] = self.lines.str.starts_with("#").to_numpy()
        self.widths: npt.NDArray[np.int64] = (
            self.lines.str.count_matches(delimiter, literal=True).cast(pl.Int64) + 1
        ).to_numpy()
        self.errors: dict[int, tuple[int, str]] = {}

    def fields(self, row: int) -> list[str]:
        """The fields of one row."""
        return str(self.lines[row]).split(self.delimiter)

    def raw(self, row: int) -> str:
        """One row as it is in the file."""
        return str(self.lines[row])

    def columns(self, rows: npt.NDArray[np.int64], layout: Layout) -> list[pl.Series]:
        """Heads, relations and tails of the chosen rows."""
        chosen = self.lines if len(rows) == len(self.lines) else self.lines.gather(rows)
        split = chosen.str.split_exact(self.delimiter, layout.width - 1).struct.unnest()
        return [split.to_series(pick).rename(name) for pick, name in zip(layout.picks, FIELDS, strict=True)]


class QuotedTable:
    """Records of a CSV file in which quotes occur: a quoted field may hold delimiters and line ends."""

    def __init__(self, text: TextFile, delimiter: str) -> None:
        self.delimiter = delimiter
        self.source = text.text.removesuffix("\n").split("\n")
        self.records: list[list[str]] = []
        self.errors: dict[int, tuple[int, str]] = {}
        starts, ends = [], []
        for start, end, record, error in _csv_records(self.source, delimiter, text.shown):
            if error is not None:
                self.errors[len(self.records)] = (1, error)
            self.records.append(record)
            starts.append(start)
            ends.append(end)
        self.line_numbers = np.array(starts, dtype=np.int64)
        self.last_lines = np.array(ends, dtype=np.int64)
        self.blank = np.array([self._is_blank(row) for row in range(len(starts))], dtype=np.bool_)
        self.hashes = np.array([self.raw(row).startswith("#") for row in range(len(starts))], dtype=np.bool_)
        self.widths = np.array([len(record) for record in self.records], dtype=np.int64)

    def _is_blank(self, row: int) -> bool:
        return row not in self.errors and not self.raw(row).strip(" ")

    def fields(self, row: int) -> list[str]:
        """The fields of one row."""
        return self.records[row]

    def raw(self, row: int) -> str:
        """One row as it is in the file."""
        return "\n".join(self.source[self.line_numbers[row] - 1 : self.last_lines[row]])

    def columns(self, rows: npt.NDArray[np.int64], layout: Layout) -> list[pl.Series]:
        """Heads, relations and tails of the chosen rows."""
        import polars as pl  # noqa: PLC0415

        return [
            pl.Series(name, [self.records[row][pick] for row in rows], dtype=pl.String)
            for pick, name in zip(layout.picks, FIELDS, strict=True)
        ]


def _pieces(text: str) -> Iterator[str]:
    """``text`` in pieces cut at line ends: one string of a columnar library may not exceed 4 GB."""
    start = 0
    while len(text) - start > PIECE:
        end = text.rfind("\n", start, start + PIECE)
        if end < 0:
            break
        yield text[start:end]
        start = end + 1
    yield text[start:]


class UnclosedQuoteError(InputError):
    """A quote that is still open where the text ends; its record begins on line ``record``."""

    def __init__(self, shown: str, record: int, line: int, column: int) -> None:
        self.record = record
        what = 'the quote " opened here is never closed; close it, or double it if it is meant'
        super().__init__(Problem(shown, line, column, what))


def _csv_records(lines: list[str], delimiter: str, shown: str) -> Iterator[tuple[int, int, list[str], str | None]]:
    """(first line, last line, fields, error) of each record; an unclosed quote ends the reading."""
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            opened = _unclosed_quote(lines, start, delimiter)
            if opened is not None:
                # Everything after it would be swallowed by one field: there is no row to set aside.
                raise UnclosedQuoteError(shown, start, *opened) from error
            if "field limit" in str(error):
                # The reader has lost its place inside the field: what follows would be read as rows.
                refuse(shown, f"a quoted field is too long ({error}); shorten it or use TSV", start, 1)
            yield start, reader.line_num, [], f"not valid CSV: {error}"
        else:
            yield start, reader.line_num, record, None


def _unclosed_quote(lines: list[str], start: int, delimiter: str) -> tuple[int, int] | None:
    """Line and column of the quote that is still open at the end of the file, from line ``start`` on."""
    opened = False
    place, closed = (0, 0), (0, 0)
    for number in range(start, len(lines) + 1):
        line = lines[number - 1]
        for match in re.finditer('"', line):
            column = match.start() + 1
            if opened:
                opened, closed = False, (number, column)
            elif closed == (number, column - 1):
                opened = True  # a doubled quote: the field goes on
            elif column == 1 or line[column - 2] == delimiter:
                opened, place = True, (number, column)
        if not opened:
            return None  # the record ends here: its error is another one
    return place


Table = PlainTable | QuotedTable

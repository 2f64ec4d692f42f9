"""Bytes to rows: one file of triples becomes three columns of labels, with every bad row located.

TSV never gives quotes a meaning; CSV does. The usual path is columnar, without a Python loop per row: a file
of which every line is three labels goes from bytes to columns at once, any other has its rows judged.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tuckerkg.data.readers.bytes import (
    FileBytes,
    Limits,
    TextFile,
    decode,
    notes_on,
    read_bytes,
    read_text,
    refuse,
    sound_bytes,
)
from tuckerkg.data.readers.columns import Layout, find_layout, layout_of
from tuckerkg.data.readers.delimited import LabelledColumns, PlainTable, Positions, QuotedTable, Table, clean_columns
from tuckerkg.data.readers.judge import DELIMITERS, Judge
from tuckerkg.data.readers.long_labels import refuse_long_labels
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.parquet import is_parquet, read_columns, scan_parquet
from tuckerkg.data.readers.rdf import Statements, is_rdf, local_name, read_statements
from tuckerkg.data.readers.rejects import Reject
from tuckerkg.errors import InputError, Problem

if TYPE_CHECKING:
    import polars as pl


OTHER_FORMATS = (
    ".json",
    ".jsonld",
    ".jsonl",
    ".xlsx",
    ".xls",
    ".ods",
    ".npy",
    ".npz",
    ".pkl",
    ".pt",
)
SKIP_REMEDY = (
    "Nothing was written. Mend the rows, or pass --on-error=skip (on_error='skip' in Python) to set them aside and go "
    "on."
)


@dataclass(frozen=True)
class TripleFile:
    """A file and the name to show for it, where the two differ (a member of an archive)."""

    path: Path
    shown: str


@dataclass(frozen=True)
class TripleTable:
    """A table in memory, and the name to show for it."""

    frame: pl.DataFrame
    shown: str


@dataclass(frozen=True)
class Rows:
    """The good rows of one file, in file order; ``read`` counts good and rejected rows alike.

    Held as the distinct labels, sorted by code point, and the position of each row's labels among them.
    """

    shown: str
    sha256: str
    entity_labels: pl.Series
    relation_labels: pl.Series
    head_positions: Positions
    relation_positions: Positions
    tail_positions: Positions
    line_numbers: npt.NDArray[np.int64]
    rejects: tuple[Reject, ...]
    blank: int
    comments: int
    notes: tuple[str, ...]
    literals: int = 0  # RDF: statements left out because their object is no entity
    titles: Mapping[str, str] = field(default_factory=dict)  # RDF: readable names
    title_ranks: Mapping[str, int] = field(default_factory=dict)  # RDF: lower is better; none where an IRI's end serves

    @property
    def read(self) -> int:
        """Rows that were meant to be triples."""
        return len(self.line_numbers) + len(self.rejects) + self.literals

    @property
    def heads(self) -> pl.Series:
        """The labels of the heads, row by row."""
        return self.entity_labels.gather(self.head_positions)

    @property
    def relations(self) -> pl.Series:
        """The labels of the relations, row by row."""
        return self.relation_labels.gather(self.relation_positions)

    @property
    def tails(self) -> pl.Series:
        """The labels of the tails, row by row."""
        return self.entity_labels.gather(self.tail_positions)

    def triple(self, row: int) -> tuple[str, str, str]:
        """The labels of one row."""
        head, tail = (self.entity_labels[int(ends[row])] for ends in (self.head_positions, self.tail_positions))
        return head, self.relation_labels[int(self.relation_positions[row])], tail


def read_rows(source: str | os.PathLike[str] | TripleFile | TripleTable, options: ReadOptions | None = None) -> Rows:
    """Read one file of triples; raises InputError with ``file:line:column`` for what is wrong with it."""
    options = options or ReadOptions()
    if isinstance(source, TripleTable):
        return _table_rows(FileBytes(source.shown, _frame_sha256(source.frame), b""), source.frame.lazy(), options)
    file = source if isinstance(source, TripleFile) else TripleFile(Path(source), str(source))
    if options.delimiter is None and is_rdf(file.shown):
        return _rdf_rows(read_bytes(file.path, file.shown, options.limits), options)
    if options.delimiter is None and is_parquet(file.shown):
        content = read_bytes(file.path, file.shown, _one_line(options.limits))
        return _table_rows(content, scan_parquet(content, options), options)
    delimiter = find_delimiter(file, options.delimiter)
    content = read_bytes(file.path, file.shown, options.limits)
    columns = regular_columns(content, delimiter, options)
    if columns is None:
        return _judged_rows(decode(content), delimiter, options)
    notes = notes_on(content)
    content = replace(content, data=b"")  # the columns hold it all: its memory is wanted for their ids
    return _clean_rows(columns, content, notes, options)


def find_delimiter(file: TripleFile, asked: str | None) -> str:
    """The delimiter asked for by word or character, or the usual one of the file's ending."""
    if asked is not None:
        delimiter = DELIMITERS.get(asked, "\t" if asked == "\\t" else asked)
        if len(delimiter) != 1 or delimiter in '"\r\n\0':
            refuse(file.shown, f"delimiter {asked!r} is not a single character; use one of {', '.join(DELIMITERS)}")
        return delimiter
    suffixes = [suffix.lower() for suffix in Path(file.shown).suffixes if suffix.lower() != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in OTHER_FORMATS:
        refuse(file.shown, f"{suffix} files are not read; convert it to TSV: head, relation, tail separated by tabs")
    return "," if suffix == ".csv" else "\t"


def _one_line(limits: Limits) -> Limits:
    """A binary file has no lines."""
    return replace(limits, line_bytes=limits.total_bytes)


def _rdf_rows(content: FileBytes, options: ReadOptions) -> Rows:
    found = read_statements(content, keep_literals=options.keep_literals, skip_bad=options.on_error == "skip")
    refuse_bad_statements(found, options)
    if not found.heads:
        kept = (
            f": its {found.literals:,} statements have literals as objects; --keep-literals" if found.literals else ""
        )
        refuse(content.shown, f"0 facts between two entities{kept}")
    return statement_rows(content, found)


def refuse_bad_statements(found: Statements, options: ReadOptions) -> None:
    """Raise InputError for what RDF can say and a triple cannot, unless such statements are skipped."""
    if found.bad and options.on_error == "stop":
        raise InputError([problem for problem, _ in found.bad[: InputError.SHOWN]], SKIP_REMEDY, total=len(found.bad))


def statement_rows(content: FileBytes, found: Statements) -> Rows:
    """The statements of an RDF file, or of a block of one, as rows."""
    import polars as pl  # noqa: PLC0415

    columns = LabelledColumns.of(
        *(pl.Series(part, dtype=pl.String) for part in (found.heads, found.relations, found.tails))
    )
    notes = [f"{found.graphs:,} named graphs read as one"] if found.graphs else []
    rows = _rows(columns, content, np.array(found.numbers, dtype=np.int64), tuple(notes))
    rejects = tuple(Reject(problem, raw) for problem, raw in found.bad)
    titles = _readable(found.titles, rows)
    return replace(rows, rejects=rejects, literals=found.literals, titles=titles, title_ranks=found.title_ranks)


def _readable(titles: Mapping[str, str], rows: Rows) -> dict[str, str]:
    """Titles of the file, and the ends of IRIs for labels that have none."""
    found = dict(titles)
    for label in [*rows.entity_labels.to_list(), *rows.relation_labels.to_list()]:
        name = local_name(label)
        if name is not None:
            found.setdefault(label, name)
    return found


def _frame_sha256(frame: pl.DataFrame) -> str:
    return hashlib.sha256(frame.hash_rows(0).to_numpy().tobytes()).hexdigest()


def _table_rows(content: FileBytes, frame: pl.LazyFrame, options: ReadOptions) -> Rows:
    rows = table_rows(content, frame, options)
    if not len(rows.line_numbers):
        refuse(content.shown, f"0 triples: {len(rows.rejects):,} rows, none of them whole")
    return rows


def table_rows(content: FileBytes, frame: pl.LazyFrame, options: ReadOptions) -> Rows:
    """The rows of a table, or of a part of one; there may be none."""
    columns, numbers, bad = read_columns(content.shown, frame, options)
    rows = _rows(LabelledColumns.of(*columns), content, numbers, ())
    return replace(rows, rejects=tuple(Reject(problem, raw) for problem, raw in bad))


def regular_columns(content: FileBytes, delimiter: str, options: ReadOptions) -> LabelledColumns | None:
    """The columns of a file without any irregularity, as nearly all are; None for any other."""
    if options.columns is not None:
        return None
    data = sound_bytes(content)
    return None if data is None else clean_columns(data, delimiter)


def _clean_rows(columns: LabelledColumns, content: FileBytes, notes: tuple[str, ...], options: ReadOptions) -> Rows:
    first = [columns.heads[0], columns.relations[0], columns.tails[0]]
    return regular_rows(columns, content, layout_of(first, 0, 1, content.shown, options), notes)


def regular_rows(columns: LabelledColumns, content: FileBytes, layout: Layout, notes: tuple[str, ...]) -> Rows:
    """The rows of a text in which every line is three labels."""
    if layout.header_row is not None:
        columns = LabelledColumns.of(columns.heads[1:], columns.relations[1:], columns.tails[1:])
    number = 1 if layout.header_row is None else 2
    return _rows(columns, content, np.arange(number, number + len(columns.heads)), notes)


def _judged_rows(text: TextFile, delimiter: str, options: ReadOptions) -> Rows:
    """The rows of any file, each one examined."""
    quoted = delimiter in ",;" and '"' in text.text
    table: Table = QuotedTable(text, delimiter) if quoted else PlainTable(text, delimiter)
    return judged_table(table, text, find_layout(table, text, options), options)


def judged_table(table: Table, text: TextFile, layout: Layout, options: ReadOptions) -> Rows:
    """The rows of a table whose columns are known, each one examined."""
    comments = table.hashes & (table.widths != layout.width) & ~table.blank
    wanted = ~table.blank & ~comments
    if layout.header_row is not None:
        wanted[: layout.header_row + 1] = False
    judge = Judge(table, text, layout)
    bad = (table.widths != layout.width) | judge.bad_bytes
    bad[list(table.errors)] = True
    good: npt.NDArray[np.int64] = np.flatnonzero(wanted & ~bad)
    columns = table.columns(good, layout)
    empty = np.zeros(len(good), dtype=np.bool_)
    for column in columns:
        empty |= (column.str.strip_chars() == "").to_numpy()
    rejected = np.sort(np.concatenate([np.flatnonzero(wanted & bad), good[empty]]))
    if len(rejected) and options.on_error == "stop":
        shown = [judge.problem(int(row)) for row in rejected[: InputError.SHOWN]]
        raise InputError(shown, SKIP_REMEDY, total=len(rejected))
    if empty.any():
        columns = [column.filter(~empty) for column in columns]
        good = good[~empty]
    rows = _rows(LabelledColumns.of(*columns), text, table.line_numbers[good], text.notes)
    return replace(
        rows,
        rejects=tuple(Reject(judge.problem(int(row)), table.raw(int(row))) for row in rejected),
        blank=int(table.blank.sum()),
        comments=int(comments.sum()),
    )


def _rows(
    columns: LabelledColumns, file: FileBytes | TextFile, numbers: npt.NDArray[np.int64], notes: tuple[str, ...]
) -> Rows:
    """Good rows alone, with the line number of each."""
    named = (columns.heads, columns.relations, columns.tails)
    refuse_long_labels(file.shown, named, [columns.entity_labels, columns.relation_labels], numbers)
    heads, relations, tails = columns.positions()
    return Rows(
        shown=file.shown,
        sha256=file.sha256,
        entity_labels=columns.entity_labels,
        relation_labels=columns.relation_labels,
        head_positions=heads,
        relation_positions=relations,
        tail_positions=tails,
        line_numbers=numbers,
        rejects=(),
        blank=0,
        comments=0,
        notes=notes,
    )


def read_titles(source: str | os.PathLike[str] | TripleFile, limits: Limits | None = None) -> dict[str, str]:
    """Readable names: lines of a label, a tab and a title. Of two titles for a label the first holds."""
    file = source if isinstance(source, TripleFile) else TripleFile(Path(source), str(source))
    text = read_text(file.path, file.shown, limits)
    if text.bad_lines:
        raise InputError(list(text.bad_lines.values()))
    titles: dict[str, str] = {}
    problems = []
    for number, line in enumerate(text.text.split("\n"), 1):
        label, tab, title = line.partition("\t")
        if tab and label.strip() and title.strip():
            titles.setdefault(label, title.strip())
        elif line.strip():
            what = "a label, a tab and a title were expected; complete the line"
            problems.append(Problem(file.shown, number, 1, what))
    if problems:
        raise InputError(problems)
    return titles

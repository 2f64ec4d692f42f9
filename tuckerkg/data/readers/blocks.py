"""A file of any size to rows, block by block, each read exactly as if it were a part of the whole file.

Text is cut at line ends, quoted CSV between records, Parquet between rows; what the beginning of a file decides (its
columns, its header, whether it has quotes) holds for all of it. N-Triples and N-Quads have a statement a line; the
other formats of RDF cannot be cut and are refused.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tuckerkg.data.readers.bytes import (
    FileBytes,
    TextFile,
    decode,
    notes_on,
    open_blocks,
    refuse,
    stream_bytes,
)
from tuckerkg.data.readers.columns import FIELDS, Layout, find_layout, layout_of
from tuckerkg.data.readers.delimited import PlainTable, QuotedTable, Table, UnclosedQuoteError
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.readers.parquet import is_parquet, scan_file
from tuckerkg.data.readers.rdf import BY_LINE, Terms, rdf_format, read_block
from tuckerkg.data.readers.read import (
    Rows,
    TripleFile,
    find_delimiter,
    judged_table,
    refuse_bad_statements,
    regular_columns,
    regular_rows,
    statement_rows,
    table_rows,
)
from tuckerkg.errors import InputError, Problem

if TYPE_CHECKING:
    import polars as pl

UTF16_SAMPLE = 2048  # bytes at the beginning that tell UTF-16; the first block has them all
LONGEST_RECORD = 1 << 26  # bytes of a CSV record whose quote is still open
ROW_BYTES = 64  # of a row of Parquet, roughly
STOPPED = "Reading stopped there: what follows was not checked."


class Blocks(ABC):
    """The rows of one file, block by block; ``sha256`` and ``notes`` are known when all have been read."""

    def __init__(self, file: TripleFile, options: ReadOptions, size: int) -> None:
        self.file, self.options, self.size = file, options, size
        self.done = 0  # bytes of the source that were read
        self.sha256 = ""
        self.notes: tuple[str, ...] = ()

    @abstractmethod
    def __iter__(self) -> Iterator[Rows]:
        """Blocks with the line numbers of the file; raises InputError, its lines those of the file too."""

    def _pieces(self, digest: hashlib._Hash) -> Iterator[bytes]:
        return stream_bytes(self.file.path, self.file.shown, self.options.limits, digest)

    def _note(self, notes: Iterable[str]) -> None:
        self.notes = tuple(dict.fromkeys([*self.notes, *notes]))


def read_blocks(file: TripleFile, options: ReadOptions, size: int) -> Blocks:
    """Read a file in blocks of about ``size`` bytes."""
    if options.delimiter is None and is_parquet(file.shown):
        return _ParquetBlocks(file, options, size)
    name = rdf_format(file.shown) if options.delimiter is None else None
    if name in BY_LINE:
        return _StatementBlocks(file, options, size)
    if name is not None:
        refuse(file.shown, "this format of RDF cannot be read in parts; convert it to N-Triples (.nt)")
    return _TextBlocks(file, options, size)


def cut_at_line_ends(pieces: Iterable[bytes], size: int, first: int = 0) -> Iterator[bytes]:
    """Join and cut ``pieces`` into blocks of whole lines, about ``size`` bytes each, the first ``first`` at least."""
    held: list[bytes] = []
    length, least = 0, max(size, first)
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length < least:
            continue
        data = b"".join(held)
        start = 0
        while len(data) - start >= least:
            end = data.rfind(b"\n", start, start + least) + 1 or data.find(b"\n", start + least) + 1
            if not end:
                break
            yield data[start:end]
            start, least = end, size
        held = [data[start:]]
        length = len(held[0])
    if length:
        yield b"".join(held)


class _TextBlocks(Blocks):
    """TSV and CSV."""

    def __iter__(self) -> Iterator[Rows]:
        self.delimiter = find_delimiter(self.file, self.options.delimiter)
        self.quoted = self._has_quotes()
        self.layout: Layout | None = None
        digest = hashlib.sha256()
        lines = before = 0
        rest = b""
        for data, last in _marked_last(cut_at_line_ends(self._pieces(digest), self.size, UTF16_SAMPLE)):
            block = FileBytes(self.file.shown, "", rest + data, before)
            try:
                taken, rows = self._read(block, last)
            except InputError as error:
                raise _moved(error, lines, last) from error
            rest = block.data[taken:]
            if rows is not None:
                yield _moved_rows(rows, lines)
            before += taken
            self.done = before
            lines += block.data.count(b"\n", 0, taken)
        self.sha256 = digest.hexdigest()

    def _read(self, block: FileBytes, last: bool) -> tuple[int, Rows | None]:
        """How many bytes of the block were read, and their rows; the others belong to the next block."""
        if not self.quoted:
            columns = regular_columns(block, self.delimiter, self.options)
            if columns is not None:
                self._note(notes_on(block))
                first = [columns.heads[0], columns.relations[0], columns.tails[0]]
                layout = self.layout or layout_of(first, 0, 1, block.shown, self.options)
                self.layout = replace(layout, header_row=None)
                return len(block.data), regular_rows(columns, block, layout, ())
        text = decode(block)
        try:
            table: Table = (QuotedTable if self.quoted else PlainTable)(text, self.delimiter)
        except UnclosedQuoteError as error:
            if last:
                raise
            return self._read_closed(block, error)
        if self.layout is None and not last and not self._shows_layout(table):
            return 0, None
        self._note(notes_on(block))
        return len(block.data), self._judged(table, text)

    def _judged(self, table: Table, text: TextFile) -> Rows:
        layout = self.layout or find_layout(table, text, self.options)
        self.layout = replace(layout, header_row=None)
        return judged_table(table, text, layout, self.options)

    def _read_closed(self, block: FileBytes, error: UnclosedQuoteError) -> tuple[int, Rows | None]:
        """The records before the one that the end of the block cuts."""
        end = 0
        for _ in range(error.record - 1):
            end = block.data.index(b"\n", end) + 1
        if len(block.data) - end > LONGEST_RECORD:
            place = error.problems[0]
            what = f'the quote " opened here is not closed within {LONGEST_RECORD:,} bytes; close it'
            refuse(block.shown, what, place.line, place.column)
        return self._read(replace(block, data=block.data[:end]), last=False) if end else (0, None)

    def _shows_layout(self, table: Table) -> bool:
        """Whether a row is there that the columns can be told from, whatever follows."""
        rows = ~table.hashes
        if self.options.columns is None:
            rows |= table.widths == len(FIELDS)
        return bool((rows & ~table.blank).any())

    def _has_quotes(self) -> bool:
        # One quote anywhere makes the whole file quoted CSV, so it has to be known before the first row.
        return self.delimiter in ",;" and any(b'"' in piece for piece in self._pieces(hashlib.sha256()))


class _StatementBlocks(Blocks):
    """N-Triples and N-Quads."""

    def __iter__(self) -> Iterator[Rows]:
        terms = Terms(self.file.shown)
        digest = hashlib.sha256()
        lines = facts = literals = 0
        for data, last in _marked_last(cut_at_line_ends(self._pieces(digest), self.size)):
            block = FileBytes(self.file.shown, "", data, self.done)
            try:
                rows = self._read(block, terms)
            except InputError as error:
                raise _moved(error, lines, last) from error
            facts += len(rows.line_numbers)
            literals += rows.literals
            yield _moved_rows(rows, lines)
            lines += data.count(b"\n")
            self.done += len(data)
        self.sha256 = digest.hexdigest()
        if not facts:
            kept = f": its {literals:,} statements have literals as objects; --keep-literals" if literals else ""
            refuse(self.file.shown, f"0 facts between two entities{kept}")
        if terms.graphs:
            self._note([f"{len(terms.graphs):,} named graphs read as one"])

    def _read(self, block: FileBytes, terms: Terms) -> Rows:
        skip = self.options.on_error == "skip"
        found = read_block(block, terms, keep_literals=self.options.keep_literals, skip_bad=skip)
        refuse_bad_statements(found, self.options)
        return statement_rows(block, found)


class _ParquetBlocks(Blocks):
    """Parquet."""

    def __iter__(self) -> Iterator[Rows]:
        digest = hashlib.sha256()
        for piece in open_blocks(self.file.path, self.file.shown):
            digest.update(piece)
        self.sha256 = digest.hexdigest()
        frame, count = scan_file(self.file.path, self.file.shown)
        size, step = self.file.path.stat().st_size, max(1, self.size // ROW_BYTES)
        good = bad = 0
        for start in range(0, max(count, 1), step):
            rows = self._read(frame, start, step, start + step >= count)
            good += len(rows.line_numbers)
            bad += len(rows.rejects)
            self.done = size * min(start + step, count) // max(count, 1)
            yield rows
        if not good:
            refuse(self.file.shown, f"0 triples: {bad:,} rows, none of them whole")

    def _read(self, frame: pl.LazyFrame, start: int, step: int, last: bool) -> Rows:
        content = FileBytes(self.file.shown, "", b"")
        try:
            rows = _moved_rows(table_rows(content, frame.slice(start, step), self.options), start)
        except InputError as error:
            raise _moved(error, start, last) from error
        return replace(rows, rejects=tuple(replace(each, raw=f"row {each.problem.line}") for each in rows.rejects))


def _marked_last(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each block, and whether it is the last; an empty file is one empty block."""
    held = None
    for block in blocks:
        if held is not None:
            yield held, False
        held = block
    yield held or b"", True


def _moved_problem(problem: Problem, lines: int) -> Problem:
    return problem if problem.line is None else replace(problem, line=problem.line + lines)


def _moved(error: InputError, lines: int, last: bool) -> InputError:
    """An error of a block as one of its file; unless it was the last block, nobody knows how many more there are."""
    remedy = error.remedy if last else f"{error.remedy}\n{STOPPED}".strip()
    return InputError([_moved_problem(problem, lines) for problem in error.problems], remedy, error.total)


def _moved_rows(rows: Rows, lines: int) -> Rows:
    rejects = tuple(replace(reject, problem=_moved_problem(reject.problem, lines)) for reject in rows.rejects)
    return replace(rows, line_numbers=rows.line_numbers + lines, rejects=rejects)

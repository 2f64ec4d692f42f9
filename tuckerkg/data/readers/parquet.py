"""Parquet files and other tables to rows: three columns of strings, chosen by name or number. Nothing runs code."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from tuckerkg.data.readers.bytes import FileBytes, refuse
from tuckerkg.data.readers.columns import FIELDS
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.errors import InputError, Problem, did_you_mean, printable

if TYPE_CHECKING:
    import polars as pl


SUFFIX = ".parquet"
KNOWN_NAMES = (FIELDS, ("subject", "predicate", "object"), ("source", "relation", "target"), ("h", "r", "t"))
MAGIC = b"PAR1"
MOST_ROWS = 1 << 31


def is_parquet(shown: str) -> bool:
    """Whether the name of a file says that it is Parquet."""
    return shown.lower().endswith(SUFFIX)


def scan_parquet(content: FileBytes, options: ReadOptions) -> pl.LazyFrame:
    """The table of a file, of which nothing is read yet; raises InputError where it is not Parquet, or too large."""
    data = content.data
    _check_marks(content.shown, data[: len(MAGIC)], data[-len(MAGIC) :])
    frame, _ = _scan(content.shown, io.BytesIO(data), min(MOST_ROWS, options.limits.total_bytes))
    return frame


def scan_file(path: Path, shown: str) -> tuple[pl.LazyFrame, int]:
    """The table of a file that is not held in memory, and its number of rows."""
    with path.open("rb") as file:
        first = file.read(len(MAGIC))
        file.seek(max(0, path.stat().st_size - len(MAGIC)))
        _check_marks(shown, first, file.read())
    return _scan(shown, path, MOST_ROWS)


def _check_marks(shown: str, first: bytes, last: bytes) -> None:
    if not first == last == MAGIC:
        refuse(shown, "not Parquet, or cut off: the mark at its end is missing; write or copy the file again")


def _scan(shown: str, source: io.BytesIO | Path, most_rows: int) -> tuple[pl.LazyFrame, int]:
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    try:
        frame = pl.scan_parquet(source, glob=False)
        rows = int(frame.select(pl.len()).collect().item())
    except Exception as error:  # polars has no common class for a damaged file
        _refuse_damaged(shown, error)
    if rows > most_rows:
        refuse(shown, f"says that it has {rows:,} rows, more than can be read; is it damaged?")
    return frame, rows


def read_columns(
    shown: str, frame: pl.LazyFrame, options: ReadOptions
) -> tuple[list[pl.Series], npt.NDArray[np.int64], list[Any]]:
    """Heads, relations and tails of the good rows, each row's number from 1, and the bad rows with their problem.

    Raises InputError where the columns cannot be told apart or hold no strings; and, unless bad rows are skipped, for a
    row with nothing in one of the three.
    """
    import polars as pl  # noqa: PLC0415

    try:
        schema = frame.collect_schema()
        names = _chosen(shown, list(schema), options)
        for name in names:
            _check_type(shown, name, schema[name], options.integers)
        wanted = [pl.col(name).cast(pl.String).alias(field) for field, name in zip(FIELDS, names, strict=True)]
        columns = frame.select(wanted).collect().get_columns()
    except InputError:
        raise
    except Exception as error:
        _refuse_damaged(shown, error)
    empty = [column.is_null() | (column.str.strip_chars() == "").fill_null(True) for column in columns]
    bad = empty[0] | empty[1] | empty[2]
    problems = [_problem(shown, int(row), empty, names) for row in np.flatnonzero(bad.to_numpy())]
    if problems and options.on_error == "stop":
        remedy = (
            "Nothing was written. Mend the rows, or pass --on-error=skip (on_error='skip' in Python) to set them aside."
        )
        raise InputError([problem for problem, _ in problems[: InputError.SHOWN]], remedy, total=len(problems))
    good = np.flatnonzero(~bad.to_numpy())
    return [column.filter(~bad) for column in columns], good + 1, problems


def _refuse_damaged(shown: str, error: Exception) -> NoReturn:
    cause = printable(str(error).splitlines()[0]) if str(error) else type(error).__name__
    refuse(shown, f"cannot be read as Parquet: {cause}; write it again")


def _chosen(shown: str, names: list[str], options: ReadOptions) -> list[str]:
    """The names of the three columns: those asked for, well-known ones, or the only three."""
    listed = ", ".join(printable(name) for name in names)
    if options.columns is not None:
        return [_column(shown, names, wanted, listed) for wanted in options.columns]
    folded = {name.casefold(): name for name in names}
    for known in KNOWN_NAMES:
        if all(name in folded for name in known):
            return [folded[name] for name in known]
    if len(names) != len(FIELDS):
        refuse(
            shown,
            f"has the columns {listed}; say which are head, relation and tail: --columns NAME,NAME,NAME "
            "(columns=(NAME, NAME, NAME) in Python)",
        )
    return names


def _column(shown: str, names: list[str], wanted: str | int, listed: str) -> str:
    if str(wanted) in names:
        return str(wanted)
    number = int(wanted) if str(wanted).isdigit() else 0
    if not 1 <= number <= len(names):
        hint = did_you_mean(str(wanted), names)
        refuse(shown, f"has no column {printable(str(wanted))}.{hint} Its columns: {listed}")
    return names[number - 1]


def _check_type(shown: str, name: str, kind: Any, integers: bool) -> None:
    import polars as pl  # noqa: PLC0415

    if kind == pl.String or kind in (pl.Categorical, pl.Enum) or (integers and kind.is_integer()):
        return
    if kind.is_integer():
        remedy = "if these numbers are names pass --integers"
    else:
        remedy = "labels must be strings: convert the column"
    refuse(shown, f"the column {printable(name)} holds {kind}; {remedy}")


def _problem(shown: str, row: int, empty: list[pl.Series], names: list[str]) -> tuple[Problem, str]:
    place = next(number for number, marks in enumerate(empty) if marks[row])
    what = f"nothing in the column {printable(names[place])} ({FIELDS[place]}); fill it in or remove the row"
    return Problem(shown, row + 1, place + 1, what), f"row {row + 1}"

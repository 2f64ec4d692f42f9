"""A file of labels: which column names the items, which one their classes, and which labels are held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.readers.bytes import read_bytes
from tuckerkg.errors import InputError, Problem, TuckerkgError, did_you_mean, printable

if TYPE_CHECKING:
    import polars as pl

HELD_OUT = {"test": True, "held-out": True, "train": False, "training": False, "valid": False, "validation": False}
SHOWN = 5  # unknown names in a message
SMALLEST_CLASS = 2


@dataclass(frozen=True)
class LabelRow:
    """A labelled item, by name."""

    item: str
    label: str
    held_out: bool
    line: int
    fold: str = ""


def read_table(path: Path, delimiter: str | None = None) -> pl.DataFrame:
    """A table of texts with a header: TSV, CSV or Parquet.

    Raises:
        InputError: it cannot be read, or is not a table; the message has the line.
    """
    import polars as pl  # noqa: PLC0415  (half a second that --help need not wait for)

    if path.suffix == ".parquet":
        try:
            return pl.read_parquet(path).select(pl.all().cast(pl.String))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError([Problem(str(path), None, None, str(error).partition("\n")[0])]) from None
    data = bytes(read_bytes(path).data)
    first = data.partition(b"\n")[0]
    separator = delimiter or max("\t,;", key=lambda mark: first.count(mark.encode()))
    try:
        return pl.read_csv(data, separator=separator, infer_schema=False, truncate_ragged_lines=False)
    except pl.exceptions.PolarsError as error:
        raise InputError([Problem(str(path), None, None, f"is no table: {str(error).partition(chr(10))[0]}")]) from None


def read_labels(
    path: Path, target: str, names: Vocabulary, *, column: str | None = None, split: str | None = None,
    fold: str | None = None, held_out: bool = False, delimiter: str | None = None,
) -> list[LabelRow]:  # fmt: skip
    """The labels of a file.

    Args:
        path: the file.
        target: the column with the classes.
        names: what items are called.
        column: the column that names them; None: the one most of whose values are such names.
        split: a column that says train or test.
        fold: a column that names the part of a cross-validation.
        held_out: all labels of this file are held out.

    Raises:
        InputError: a column is not there, an item is unknown or labelled twice, or a label is missing; names the lines.
    """
    table = read_table(path, delimiter)
    if not len(table):
        raise InputError([Problem(str(path), None, None, "has no row")])
    _check_column(path, target, table.columns)
    place = _item_column(path, table, names, target) if column is None else column
    _check_column(path, place, table.columns)
    for each in (split, fold):
        if each is not None:
            _check_column(path, each, table.columns)
    rows: list[LabelRow] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    folds = table[fold].to_list() if fold is not None else [""] * len(table)
    parts = table[split].to_list() if split is not None else [None] * len(table)
    for line, (item, label, part) in enumerate(
        zip(table[place].to_list(), table[target].to_list(), parts, strict=True), start=2
    ):
        own_fold = folds[line - 2]
        wrong = _wrong(item, label, part, names, seen) or ("" if own_fold is not None else "its fold is empty")
        if wrong:
            problems.append(Problem(str(path), line, None, wrong))
            continue
        seen[item] = line
        rows.append(LabelRow(item, label, held_out if part is None else HELD_OUT[part.strip().lower()], line, own_fold))
    if problems:
        remedy = "Remove these rows, or name the column of the items by --item-column."
        raise InputError(problems, remedy, len(problems))
    return rows


def classes_of(rows: Sequence[LabelRow]) -> tuple[str, ...]:
    """The classes in order.

    Raises:
        TuckerkgError: there are fewer than two, or one has a single label.
    """
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.label] = counts.get(row.label, 0) + (not row.held_out)
    if len(counts) < SMALLEST_CLASS:
        raise TuckerkgError(f"the target has one value, {printable(next(iter(counts)))}; it needs two")
    rare = [name for name, count in counts.items() if count < SMALLEST_CLASS]
    if rare:
        raise TuckerkgError(
            f"{len(rare)} of {len(counts)} classes have fewer than {SMALLEST_CLASS} labels to train on, for example "
            f"{printable(rare[0])}: remove them, or give a target with fewer values"
        )
    return tuple(sorted(counts))


def _wrong(item: str | None, label: str | None, part: str | None, names: Vocabulary, seen: dict[str, int]) -> str:
    if item is None or item not in names:
        return f"there is no '{printable(str(item))}' in the graph"
    if item in seen:
        return f"'{printable(item)}' has a label in line {seen[item]} already"
    if label is None or not label.strip():
        return f"'{printable(item)}' has no label"
    if part is not None and part.strip().lower() not in HELD_OUT:
        return f"'{printable(part)}' is no part, expected {', '.join(HELD_OUT)}"
    return ""


def _check_column(path: Path, column: str, columns: Sequence[str]) -> None:
    if column not in columns:
        known = ", ".join(printable(name) for name in columns)
        problem = f"has no column '{printable(column)}'.{did_you_mean(column, columns)} It has {known}"
        raise InputError([Problem(str(path), None, None, problem)])


def _item_column(path: Path, table: pl.DataFrame, names: Vocabulary, target: str) -> str:
    """The column most of whose values are names of items."""
    shares = {
        name: sum(value in names for value in table[name].to_list()) / max(len(table), 1)
        for name in table.columns
        if name != target
    }
    best = max(shares, key=lambda name: shares[name], default=None)
    if best is None or shares[best] == 0.0:
        raise InputError(
            [Problem(str(path), None, None, "no column names things of the graph")],
            "Name it by --item-column, and write its values as the graph does.",
        )
    return best

"""Predicted facts to files: TSV, CSV, JSON, JSON lines, Parquet, and N-Triples with each statement's confidence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.answers.predictions import Prediction, Predictions
from tuckerkg.storage.sealed_folder import write_atomic

if TYPE_CHECKING:
    import polars as pl

TEXTS = ("head", "relation", "tail", "head_label", "relation_label", "tail_label", "by", "note")  # what people wrote
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DOUBLE = "http://www.w3.org/2001/XMLSchema#double"
OURS = "urn:tuckerkg:"
FORMULA = ("=", "+", "-", "@")  # a spreadsheet takes a cell that starts so for a formula
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_IRI = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*:[^\s<>"{}|^`\\]+""")


def check_output(path: Path, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse a file that could not be written, or that is one of ``inputs``, before anything is computed."""
    if path.suffix.lower() not in WRITERS:
        raise TuckerkgError(f"--out {path}: the name must end in {', '.join(WRITERS)}")
    if not path.resolve().parent.is_dir():
        raise TuckerkgError(f"--out {path}: there is no folder {path.resolve().parent}")
    if path.is_dir():
        raise TuckerkgError(f"--out {path}: is a folder; name a file")
    for file in inputs:
        if file is not None and path.exists() and file.exists() and path.samefile(file):
            raise TuckerkgError(f"--out {path}: is read here and would be overwritten; name another file")


def write_predictions(facts: Sequence[Prediction] | pl.DataFrame, path: Path, *, guard: bool = True) -> None:
    """Write ``facts`` in the format of the file's ending, whole or not at all; ``guard`` as in ``tsv``.

    A frame has the columns of a prediction, and may have others in front, such as ``question`` and ``rank``.
    """
    check_output(path)
    kind, frame = path.suffix.lower(), as_frame(facts)
    try:
        write_atomic(path, GUARDED[kind](frame, guard=guard) if kind in GUARDED else WRITERS[kind](frame))
    except OSError as error:
        raise TuckerkgError(f"--out {path}: cannot be written: {error.strerror}") from error


def as_frame(facts: Sequence[Prediction] | pl.DataFrame) -> pl.DataFrame:
    """Facts as a frame, a column for each field."""
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    return facts if isinstance(facts, pl.DataFrame) else Predictions(facts).to_frame()


def tsv(facts: Sequence[Prediction] | pl.DataFrame, *, guard: bool = True) -> bytes:
    """With a header; tabs, line ends and other control characters inside names are escaped: ``\\t``, ``\\x1b``.

    ``guard`` puts an apostrophe before a name that a spreadsheet would run as a formula.
    """
    return ("\n".join(map("\t".join, _rows_of_cells(as_frame(facts), guard))) + "\n").encode()


def comma_separated(facts: Sequence[Prediction] | pl.DataFrame, *, guard: bool = True) -> bytes:
    """As ``tsv`` with commas, and quotation marks where they are needed."""
    import csv  # noqa: PLC0415
    import io  # noqa: PLC0415

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_rows_of_cells(as_frame(facts), guard))
    return text.getvalue().encode()


def _rows_of_cells(frame: pl.DataFrame, guard: bool) -> Iterator[Sequence[str]]:
    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    columns = []
    for name in frame.columns:
        values = frame[name].to_list()
        if name in TEXTS:
            cells = {value: _cell(value, guard=guard) for value in set(values)}
            columns.append([cells[value] for value in values])
        elif frame.schema[name] == pl.String:
            columns.append([value or "" for value in values])
        else:
            columns.append([_number(value) for value in values])
    yield frame.columns
    yield from zip(*columns, strict=True)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(int(value))


def _cell(name: str, *, guard: bool) -> str:
    cell = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), name)
    return "'" + cell if guard and cell.startswith(FORMULA) else cell


def _json(frame: pl.DataFrame) -> bytes:
    return (json.dumps(frame.to_dicts(), indent=2, ensure_ascii=False) + "\n").encode()


def _json_lines(frame: pl.DataFrame) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in frame.iter_rows(named=True)).encode()


def _parquet(frame: pl.DataFrame) -> bytes:
    import io  # noqa: PLC0415

    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _n_triples(frame: pl.DataFrame) -> bytes:
    """Each fact as a statement, and about it a node that names its parts and its probability (RDF reification)."""
    lines = []
    rows = frame.select("head_label", "relation_label", "tail_label", "probability").iter_rows()
    for number, (head_label, relation_label, tail_label, probability) in enumerate(rows, 1):
        head, tail = (rdf_term(label, "entity") for label in (head_label, tail_label))
        relation = rdf_term(relation_label, "relation")
        about = f"_:prediction{number}"
        lines += [
            f"{head} {relation} {tail} .",
            f"{about} <{RDF}type> <{RDF}Statement> .",
            f"{about} <{RDF}subject> {head} .",
            f"{about} <{RDF}predicate> {relation} .",
            f"{about} <{RDF}object> {tail} .",
        ]
        if probability is not None:
            lines.append(f'{about} <{OURS}probability> "{probability:.6g}"^^<{DOUBLE}> .')
    return ("\n".join(lines) + "\n").encode() if lines else b""


def rdf_term(label: str, kind: str) -> str:
    """IRIs, blank nodes and literals as they are; any other label as an IRI of its own, percent-encoded."""
    if label.startswith("_:") and label[2:].replace("-", "").replace("_", "").isalnum():
        return label
    if label.startswith('"') and kind == "entity" and _is_literal(label):
        return label
    if _IRI.fullmatch(label) and label.isprintable():
        return f"<{label}>"
    return f"<{OURS}{kind}:{quote(label, safe='')}>"


def _is_literal(label: str) -> bool:
    """Whether ``label`` is a literal as RDF writes it."""
    import pyoxigraph  # noqa: PLC0415

    try:
        return bool(list(pyoxigraph.parse(f"<x:a> <x:b> {label} .".encode(), format=pyoxigraph.RdfFormat.N_TRIPLES)))
    except SyntaxError:
        return False


WRITERS: dict[str, Callable[[pl.DataFrame], bytes]] = {
    ".tsv": tsv,
    ".csv": comma_separated,
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
    ".nt": _n_triples,
}
GUARDED = {".tsv": tsv, ".csv": comma_separated}  # what spreadsheets open

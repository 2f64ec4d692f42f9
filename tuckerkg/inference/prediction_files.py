"""Predicted facts to files: TSV, JSON, JSON lines, Parquet, and N-Triples with the confidence of each statement."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.predictions import Prediction
from tuckerkg.storage.sealed_folder import write_atomic

COLUMNS = ("head", "relation", "tail", "score", "probability", "known")
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DOUBLE = "http://www.w3.org/2001/XMLSchema#double"
OURS = "urn:tuckerkg:"
FORMULA = ("=", "+", "-", "@")  # a spreadsheet takes a cell that starts so for a formula
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_IRI = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*:[^\s<>"{}|^`\\]+""")


def check_output(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    if path.suffix.lower() not in WRITERS:
        raise TuckerkgError(f"--out {path}: the name must end in {', '.join(WRITERS)}")
    if not path.resolve().parent.is_dir():
        raise TuckerkgError(f"--out {path}: there is no folder {path.resolve().parent}")
    if path.is_dir():
        raise TuckerkgError(f"--out {path}: is a folder; name a file")


def write_predictions(facts: Sequence[Prediction], path: Path, *, guard: bool = True) -> None:
    """Write ``facts`` in the format of the file's ending, whole or not at all; ``guard`` as in ``tsv``."""
    check_output(path)
    kind = path.suffix.lower()
    try:
        write_atomic(path, tsv(facts, guard=guard) if kind == ".tsv" else WRITERS[kind](facts))
    except OSError as error:
        raise TuckerkgError(f"--out {path}: cannot be written: {error.strerror}") from error


def tsv(facts: Sequence[Prediction], *, guard: bool = True) -> bytes:
    """With a header; tabs, line ends and other control characters inside names are escaped: ``\\t``, ``\\x1b``.

    ``guard`` puts an apostrophe before a name that a spreadsheet would run as a formula.
    """
    lines = ["\t".join(COLUMNS)]
    for fact in facts:
        names = [_cell(name, guard=guard) for name in (fact.head, fact.relation, fact.tail)]
        lines.append("\t".join([*names, f"{fact.score:.6g}", f"{fact.probability:.6g}", str(int(fact.known))]))
    return ("\n".join(lines) + "\n").encode()


def _cell(name: str, *, guard: bool) -> str:
    cell = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), name)
    return "'" + cell if guard and cell.startswith(FORMULA) else cell


def _json(facts: Sequence[Prediction]) -> bytes:
    return (json.dumps([fact.as_dict() for fact in facts], indent=2, ensure_ascii=False) + "\n").encode()


def _json_lines(facts: Sequence[Prediction]) -> bytes:
    return "".join(json.dumps(fact.as_dict(), ensure_ascii=False) + "\n" for fact in facts).encode()


def _parquet(facts: Sequence[Prediction]) -> bytes:
    import io  # noqa: PLC0415

    import polars as pl  # noqa: PLC0415 - half a second that --help need not wait for

    schema = dict.fromkeys(("head", "relation", "tail"), pl.String) | {
        "score": pl.Float64,
        "probability": pl.Float64,
        "known": pl.Boolean,
        **dict.fromkeys(("head_label", "relation_label", "tail_label"), pl.String),
    }
    buffer = io.BytesIO()
    pl.DataFrame([fact.as_dict() for fact in facts], schema=schema).write_parquet(buffer)
    return buffer.getvalue()


def _n_triples(facts: Sequence[Prediction]) -> bytes:
    """Each fact as a statement, and about it a node that names its parts and its probability (RDF reification)."""
    lines = []
    for number, fact in enumerate(facts, 1):
        head, tail = (_term(label, "entity") for label in (fact.head_label, fact.tail_label))
        relation = _term(fact.relation_label, "relation")
        about = f"_:prediction{number}"
        lines += [
            f"{head} {relation} {tail} .",
            f"{about} <{RDF}type> <{RDF}Statement> .",
            f"{about} <{RDF}subject> {head} .",
            f"{about} <{RDF}predicate> {relation} .",
            f"{about} <{RDF}object> {tail} .",
            f'{about} <{OURS}probability> "{fact.probability:.6g}"^^<{DOUBLE}> .',
        ]
    return ("\n".join(lines) + "\n").encode() if lines else b""


def _term(label: str, kind: str) -> str:
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


WRITERS: dict[str, Callable[[Sequence[Prediction]], bytes]] = {
    ".tsv": tsv,
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
    ".nt": _n_triples,
}

"""A graph out of a store into a file that every verb reads."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from tuckerkg.errors import TuckerkgError, printable
from tuckerkg.storage.sealed_folder import explained, write_atomic
from tuckerkg.stores.neo4j import Database, Relationship
from tuckerkg.stores.sparql import Endpoint
from tuckerkg.types import ProgressFunction

SHOWN = 5  # of what is missing


@dataclass(frozen=True)
class Pulled:
    """What was read.

    Attributes:
        facts: statements or relationships in the file.
        left_out: statements with blank nodes.
        names: a file of readable names, where they are not the keys themselves.
    """

    facts: int
    left_out: int = 0
    names: Path | None = None


def pull_sparql(endpoint: Endpoint, out: Path, progress: ProgressFunction = lambda done, total: None) -> Pulled:
    """Read an endpoint to N-Triples. An interrupted reading continues after the last whole subject.

    Raises:
        TuckerkgError: the endpoint refuses; or what it gave is not what it counted, and nothing is written.
    """
    check_out(out, (".nt",))
    source = {"address": endpoint.address.url, "graph": endpoint.graph}
    partial, place = (out.with_name(out.name + ending) for ending in (".partial", ".partial.json"))
    total, blank = endpoint.counts()
    begun = _begun(place, partial, source)
    facts = begun.facts
    with explained(f"Cannot write {partial}"), partial.open("ab") as file:
        file.truncate(begun.bytes)
        for part in endpoint.statements(begun.after):
            file.write(_lines(part.rows))
            facts += len(part.rows)
            file.flush()
            os.fsync(file.fileno())
            state = {**source, "facts": facts, "after": part.subject, "bytes": file.tell()}
            write_atomic(place, json.dumps(state).encode())
            progress(min(facts, total - blank), total - blank)
    if facts != total - blank:
        _drop(partial, place)
        raise TuckerkgError(
            f"{endpoint.address.url}: counted {total - blank:,} statements without blank nodes and gave {facts:,}. It "
            "changed while it was read, or hides some: try again, or export it to a file"
        )
    with explained(f"Cannot write {out}"):
        partial.replace(out)
    place.unlink(missing_ok=True)
    return Pulled(facts, blank)


def pull_neo4j(database: Database, out: Path, progress: ProgressFunction = lambda done, total: None) -> Pulled:
    """Read a database to a file of three columns, and readable names beside it where titles differ from keys.

    Raises:
        TuckerkgError: the database refuses; nodes have no key, which are named; or a name has no place in a file of
            lines. Nothing is written then.
    """
    check_out(out, (".tsv", ".parquet"))
    total = max(database.count(), 1)
    columns = _Columns()
    for place, row in enumerate(database.relationships(), start=1):
        columns.take(row)
        if place % 1_000 == 0:
            progress(min(place, total), total)
    progress(total, total)
    _check_named(columns.unnamed, database)
    with explained(f"Cannot write {out}"):
        write_atomic(out, columns.parquet() if out.suffix.lower() == ".parquet" else columns.tsv())
    if not columns.titles:
        return Pulled(len(columns.heads))
    names = out.with_name(out.stem + ".names.tsv")
    lines = (f"{label}\t{' '.join(title.split())}\n" for label, title in columns.titles.items())
    with explained(f"Cannot write {names}"):
        write_atomic(names, "".join(lines).encode())
    return Pulled(len(columns.heads), names=names)


class _Columns:
    """Relationships as columns, and readable names by key."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.relations: list[str] = []
        self.tails: list[str] = []
        self.titles: dict[str, str] = {}
        self.unnamed: list[str] = []

    def take(self, row: Relationship) -> None:
        """One more."""
        if row.head is None or row.tail is None:
            self.unnamed.append(f"({row.head or '?'})-[{row.relation}]->({row.tail or '?'})")
            return
        self.heads.append(row.head)
        self.relations.append(row.relation)
        self.tails.append(row.tail)
        for label, title in ((row.head, row.head_title), (row.tail, row.tail_title)):
            if title is not None and title != label:
                self.titles[label] = title

    def parquet(self) -> bytes:
        """As Parquet, which holds any name."""
        import io  # noqa: PLC0415

        import polars as pl  # noqa: PLC0415

        buffer = io.BytesIO()
        pl.DataFrame({"head": self.heads, "relation": self.relations, "tail": self.tails}).write_parquet(buffer)
        return buffer.getvalue()

    def tsv(self) -> bytes:
        """As lines of three names.

        Raises:
            TuckerkgError: a name holds a tab or a line end.
        """
        for name in {*self.heads, *self.relations, *self.tails}:
            if any(character in name for character in "\t\n\r"):
                raise TuckerkgError(f"the name {printable(name)} holds a tab or a line end: write a .parquet file")
        rows = zip(self.heads, self.relations, self.tails, strict=True)
        return "".join("\t".join(row) + "\n" for row in rows).encode()


def check_out(out: Path, endings: tuple[str, ...]) -> None:
    """Refuse a file that could not be written, before anything is read."""
    if out.suffix.lower() not in endings:
        raise TuckerkgError(f"--out {out}: the name must end in {' or '.join(endings)}")
    if not out.resolve().parent.is_dir():
        raise TuckerkgError(f"--out {out}: there is no folder {out.resolve().parent}")
    if out.is_dir():
        raise TuckerkgError(f"--out {out}: is a folder; name a file")


def _check_named(unnamed: list[str], database: Database) -> None:
    if unnamed:
        raise TuckerkgError(
            f"{len(unnamed):,} relationships have an end without the property {database.naming.key!r}, such as "
            f"{printable(', '.join(unnamed[:SHOWN]))}. Name another property with --key, or the nodes with --node-label"
        )


@dataclass(frozen=True)
class _Begun:
    """How far a reading came: statements and bytes that are written, and the subject after which it continues."""

    facts: int = 0
    bytes: int = 0
    after: str | None = None


def _begun(place: Path, partial: Path, source: dict[str, str | None]) -> _Begun:
    """An interrupted reading of the same source, or the beginning."""
    try:
        state = json.loads(place.read_text(encoding="utf-8"))
        found = _Begun(int(state["facts"]), int(state["bytes"]), str(state["after"]))
        same = all(state.get(name) == value for name, value in source.items())
        return found if same and partial.stat().st_size >= found.bytes else _Begun()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return _Begun()


def _drop(*files: Path) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _lines(rows: list[tuple[object, object, object]]) -> bytes:
    return "".join(f"{subject} {predicate} {value} .\n" for subject, predicate, value in rows).encode()

"""A Neo4j database, or another one that speaks Bolt: relationships as triples, and decided facts written to it.

A node is named by one of its properties, its key: ids of nodes change when a database is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuckerkg.errors import TuckerkgError, printable
from tuckerkg.stores.address import Address

if TYPE_CHECKING:
    import neo4j

BATCH = 1_000  # facts of one transaction, and records of one answer
CONNECT_SECONDS = 10.0

Row = Mapping[str, Any]
"""``head`` and ``tail``, the keys of nodes, and ``properties`` of the relationship between them."""


@dataclass(frozen=True)
class Naming:
    """How nodes are named.

    Attributes:
        key: the property that names a node.
        title: the property that people read; None: the key.
        label: the label of the nodes in question; None: all. With one, an index on the key is used.
    """

    key: str = "name"
    title: str | None = None
    label: str | None = None

    def node(self, variable: str) -> str:
        """A pattern for a node."""
        return f"({variable})" if self.label is None else f"({variable}:{quoted(self.label)})"


@dataclass(frozen=True)
class Relationship:
    """One relationship; ends without a key are None."""

    head: str | None
    relation: str
    tail: str | None
    head_title: str | None
    tail_title: str | None


class Database:
    """Reads and writes one database.

    Args:
        address: where it answers.
        name: of the database; None: the server's own choice.
        naming: how nodes are named.
    """

    def __init__(self, address: Address, name: str | None = None, naming: Naming | None = None) -> None:
        self.address, self.name, self.naming = address, name, naming or Naming()

    def count(self) -> int:
        """How many relationships there are."""
        with self._session() as session:
            found = session.run(f"MATCH {self._pattern} RETURN count(r) AS n").single(strict=True)
            return int(found["n"])

    def relationships(self) -> Iterator[Relationship]:
        """All relationships, in the order of the server."""
        naming = self.naming
        title = quoted(naming.title or naming.key)
        query = (
            f"MATCH {self._pattern} RETURN a.{quoted(naming.key)} AS head, type(r) AS relation, "
            f"b.{quoted(naming.key)} AS tail, a.{title} AS head_title, b.{title} AS tail_title"
        )
        with self._session() as session:
            for record in session.run(query):
                head, relation, tail, *titles = (None if value is None else str(value) for value in record.values())
                yield Relationship(head, str(relation), tail, *titles)

    def write(self, relation: str, rows: Sequence[Row]) -> int:
        """Make relationships of one type between nodes that exist, or change those that are there.

        Returns:
            How many of ``rows`` found both nodes.
        """
        return self._in_batches(f"MERGE (a)-[r:{quoted(relation)}]->(b) SET r += row.properties", rows)

    def remove(self, relation: str, rows: Sequence[Row], source: str) -> int:
        """Delete relationships of one type that came from ``source``, and leave all others.

        Returns:
            How many of ``rows`` found both nodes.
        """
        there = f"OPTIONAL MATCH (a)-[r:{quoted(relation)} {{source: $source}}]->(b) DELETE r"
        return self._in_batches(there, rows, source=source)

    def _in_batches(self, change: str, rows: Sequence[Row], **values: str) -> int:
        key = quoted(self.naming.key)
        query = (
            f"UNWIND $rows AS row MATCH {self.naming.node('a')} WHERE a.{key} = row.head "
            f"MATCH {self.naming.node('b')} WHERE b.{key} = row.tail {change} RETURN count(DISTINCT row) AS n"
        )
        done = 0
        with self._session() as session:
            for first in range(0, len(rows), BATCH):
                part = [dict(row) for row in rows[first : first + BATCH]]
                done += session.execute_write(_count_of, query, {"rows": part, **values})
        return done

    @property
    def _pattern(self) -> str:
        return f"{self.naming.node('a')}-[r]->{self.naming.node('b')}"

    @contextmanager
    def _session(self) -> Iterator[neo4j.Session]:
        try:
            import neo4j  # noqa: PLC0415
            from neo4j.exceptions import DriverError, Neo4jError  # noqa: PLC0415
        except ImportError as error:
            raise TuckerkgError(f"reading Neo4j needs {error.name}: pip install 'tuckerkg[neo4j]'") from error
        signed = None if self.address.user is None else (self.address.user, self.address.password)
        try:
            with (
                neo4j.GraphDatabase.driver(
                    self.address.url, auth=signed, connection_timeout=CONNECT_SECONDS, user_agent="tuckerkg"
                ) as driver,
                driver.session(database=self.name, fetch_size=BATCH) as session,
            ):
                yield session
        except (DriverError, Neo4jError, OSError) as error:
            said = printable(str(error))[:300]
            remedy = " Give --user NAME." if "auth" in said.lower() and self.address.user is None else ""
            raise TuckerkgError(f"{self.address.url}: {said}.{remedy}") from None


def _count_of(work: neo4j.ManagedTransaction, query: str, values: dict[str, Any]) -> int:
    return int(work.run(query, values).single(strict=True)["n"])


def quoted(name: str) -> str:
    """A name of a property, label or type as Cypher writes any such name."""
    return "`" + name.replace("\\u0060", "`").replace("`", "``") + "`"

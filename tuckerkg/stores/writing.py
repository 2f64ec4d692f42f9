"""Decided facts back into a store, each with its confidence, who decided it and when."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from tuckerkg.stores.neo4j import Database, Row
from tuckerkg.stores.sparql import Endpoint
from tuckerkg.types import ProgressFunction

GRAPH = "urn:tuckerkg:decided"
OURS = "urn:tuckerkg:"
SOURCE = "tuckerkg"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
BATCH = 200  # facts of one update

TermFunction = Callable[[str, str], str]


@dataclass(frozen=True)
class DecidedFact:
    """A fact by its labels, and what was decided about it."""

    head: str
    relation: str
    tail: str
    choice: str
    by: str
    at: str
    confidence: float | None


def write_sparql(
    endpoint: Endpoint,
    facts: Sequence[DecidedFact],
    term: TermFunction,
    progress: ProgressFunction = lambda done, total: None,
) -> int:
    """Write facts into a named graph; accepted ones as statements, and about each a node that says the rest.

    Writing the same facts again changes nothing, and a later decision takes the place of an earlier one.

    Args:
        term: how a label stands in RDF: ``term(label, "entity" or "relation")``.
    """
    graph = endpoint.graph or f"<{GRAPH}>"
    for first in range(0, len(facts), BATCH):
        part = facts[first : first + BATCH]
        updates = []
        for fact in part:
            head, tail = (term(label, "entity") for label in (fact.head, fact.tail))
            relation, about = term(fact.relation, "relation"), _node(fact)
            held = f"{head} {relation} {tail} ."
            updates += [
                f"DELETE WHERE {{ GRAPH {graph} {{ {about} ?p ?o }} }}",
                f"DELETE DATA {{ GRAPH {graph} {{ {held} }} }}",
                f"INSERT DATA {{ GRAPH {graph} {{ {held if fact.choice == 'accept' else ''} "
                f"{about} <{RDF}type> <{RDF}Statement> ; <{RDF}subject> {head} ; <{RDF}predicate> {relation} ; "
                f"<{RDF}object> {tail} ; {_said(fact)} }} }}",
            ]
        endpoint.update(" ;\n".join(updates))
        progress(min(first + BATCH, len(facts)), len(facts))
    return len(facts)


def write_neo4j(
    database: Database, facts: Sequence[DecidedFact], progress: ProgressFunction = lambda done, total: None
) -> int:
    """Write accepted facts as relationships between nodes that the database has.

    Of facts that are not accepted, or not any more, the relationships that were written here are deleted.

    Returns:
        Of how many facts the database has both nodes.
    """
    found = done = 0
    ordered = sorted(facts, key=lambda fact: (fact.relation, fact.choice == "accept"))
    for (relation, accepted), group in groupby(ordered, key=lambda fact: (fact.relation, fact.choice == "accept")):
        rows = [_row(fact) for fact in group]
        found += database.write(relation, rows) if accepted else database.remove(relation, rows, SOURCE)
        done += len(rows)
        progress(done, len(facts))
    return found


def _row(fact: DecidedFact) -> Row:
    said = {"decided_by": fact.by, "decided_at": fact.at, "confidence": fact.confidence}
    return {"head": fact.head, "tail": fact.tail, "properties": {"source": SOURCE, **said}}


def _node(fact: DecidedFact) -> str:
    """The same IRI for the same fact, whoever decides it."""
    key = "\n".join((fact.head, fact.relation, fact.tail)).encode()
    return f"<{OURS}decision:{hashlib.sha256(key).hexdigest()}>"


def _said(fact: DecidedFact) -> str:
    import pyoxigraph  # noqa: PLC0415

    says = [
        (f"{OURS}decision", pyoxigraph.Literal(fact.choice)),
        (f"{OURS}by", pyoxigraph.Literal(fact.by)),
        (f"{OURS}at", pyoxigraph.Literal(fact.at, datatype=pyoxigraph.NamedNode(f"{XSD}dateTime"))),
    ]
    if fact.confidence is not None:
        value = pyoxigraph.Literal(f"{fact.confidence:.6g}", datatype=pyoxigraph.NamedNode(f"{XSD}double"))
        says.append((f"{OURS}probability", value))
    return " ; ".join(f"<{predicate}> {value}" for predicate, value in says) + " ."

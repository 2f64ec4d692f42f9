"""A graph out of a SPARQL endpoint and decided facts into it; the engine is pyoxigraph's, the network is real."""

from __future__ import annotations

import json
import subprocess
import sys

import pyoxigraph
import pytest
from sparql_endpoints import Habits, endpoint

from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.answers.files import rdf_term
from tuckerkg.stores.address import PASSWORD, Address, parse_address
from tuckerkg.stores.pulling import pull_sparql
from tuckerkg.stores.sparql import Endpoint
from tuckerkg.stores.writing import GRAPH, DecidedFact, write_sparql

EX = "http://example.org/"
NAMED = f"{EX}part"


def graph() -> str:
    lines = [f"<{EX}e{i:02}> <{EX}r{i % 3}> <{EX}e{(7 * i + j) % 40:02}> ." for i in range(40) for j in range(i % 5)]
    lines += [f'<{EX}e{i:02}> <{EX}name> "name {i} \\"with\\nline\\""@en .' for i in range(40)]
    lines += [f"<{EX}hub> <{EX}has> <{EX}e{i:02}> ." for i in range(33)]  # more than a page
    lines += [f"_:b{i} <{EX}r0> <{EX}e00> ." for i in range(4)] + [f"<{EX}e01> <{EX}r0> _:b1 ."]
    return "\n".join(lines)


def facts_of(text: str) -> set[str]:
    return {str(quad.triple) for quad in pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.N_TRIPLES)}


@pytest.fixture
def store() -> pyoxigraph.Store:
    found = pyoxigraph.Store()
    found.load(graph(), format=pyoxigraph.RdfFormat.N_TRIPLES)
    return found


def without_blank() -> set[str]:
    return facts_of("\n".join(line for line in graph().split("\n") if "_:" not in line))


@pytest.mark.parametrize(("page", "most"), [(10_000, None), (10, None), (10_000, 7), (1, None), (33, 33)])
def test_every_statement_arrives_whatever_the_page_and_the_servers_own_limit(store, tmp_path, page, most):
    out = tmp_path / "graph.nt"
    with endpoint(store, Habits(most=most)) as address:
        pulled = pull_sparql(Endpoint(parse_address(address), page=page), out)
    assert facts_of(out.read_text()) == without_blank()
    assert len(out.read_text().splitlines()) == pulled.facts == len(without_blank())
    assert pulled.left_out == 5
    assert [path.name for path in tmp_path.iterdir()] == ["graph.nt"]


def test_a_named_graph_is_read_alone(store, tmp_path):
    store.update(f"INSERT DATA {{ GRAPH <{NAMED}> {{ <{EX}a> <{EX}b> <{EX}c> }} }}")
    with endpoint(store, Habits()) as address:
        pull_sparql(Endpoint(parse_address(address), NAMED), tmp_path / "part.nt")
    assert (tmp_path / "part.nt").read_text() == f"<{EX}a> <{EX}b> <{EX}c> .\n"


def test_an_interrupted_reading_continues_and_gives_the_same_file(store, tmp_path):
    with endpoint(store, Habits()) as address:
        pull_sparql(Endpoint(parse_address(address), page=10), tmp_path / "whole.nt")

        class Stop(Exception):
            pass

        calls = 0

        def stop(done: int, total: int) -> None:
            nonlocal calls
            calls += 1
            if calls == 5:
                raise Stop

        out = tmp_path / "graph.nt"
        with pytest.raises(Stop):
            pull_sparql(Endpoint(parse_address(address), page=10), out, stop)
        assert not out.exists()
        with (tmp_path / "graph.nt.partial").open("a") as file:
            file.write("<half a line")  # written, but not noted as read
        done = json.loads((tmp_path / "graph.nt.partial.json").read_text())["facts"]
        assert done > 0
        pull_sparql(Endpoint(parse_address(address), page=10), out)
    assert out.read_bytes() == (tmp_path / "whole.nt").read_bytes()


def test_an_endpoint_that_hides_statements_is_refused_and_nothing_is_written(store, tmp_path):
    with endpoint(store, Habits(hidden=2)) as address, pytest.raises(TuckerkgError, match=r"counted .* and gave"):
        pull_sparql(Endpoint(parse_address(address), page=10), tmp_path / "graph.nt")
    assert list(tmp_path.iterdir()) == []


def test_a_busy_endpoint_is_asked_again_after_the_time_it_names(store, tmp_path):
    waited = []
    with endpoint(store, Habits(busy=2)) as address:
        pull_sparql(Endpoint(parse_address(address), pause=waited.append), tmp_path / "graph.nt")
    assert waited == [2.0, 2.0]


def test_what_the_endpoint_refuses_is_said(store, tmp_path, monkeypatch):
    out = tmp_path / "graph.nt"
    with endpoint(store, Habits(password="of-someone")) as address:
        with pytest.raises(TuckerkgError, match=r"401.*Give --user NAME"):
            pull_sparql(Endpoint(parse_address(address)), out)
        with pytest.raises(TuckerkgError, match=PASSWORD):
            pull_sparql(Endpoint(parse_address(address, "someone")), out)
        monkeypatch.setenv(PASSWORD, "of-someone")
        assert pull_sparql(Endpoint(parse_address(address, "someone")), out).facts > 0
    with endpoint(store, Habits(text="<html>")) as address, pytest.raises(TuckerkgError, match="no table of results"):
        pull_sparql(Endpoint(parse_address(address)), out)
    nobody = Endpoint(Address("http://127.0.0.1:9/sparql", "sparql"), pause=lambda seconds: None)
    with pytest.raises(TuckerkgError, match="no answer"):
        pull_sparql(nobody, out)


@pytest.mark.parametrize(
    "text", ["", "graph.nt", "ftp://host/x", "http://", "http://[", "https://me:secret@host/sparql"]
)
def test_an_address_that_is_none_is_refused_without_its_password(text):
    with pytest.raises(TuckerkgError) as refused:
        parse_address(text)
    assert "secret" not in str(refused.value)


def test_a_graph_that_is_no_iri_is_refused():
    for text in ("part", "http://example.org/a b", "x:> } DROP ALL"):
        with pytest.raises(TuckerkgError, match="is no IRI"):
            Endpoint(parse_address("http://host/sparql"), text)


# ------------------------------------------------------------------------------------------ back


def decided(choice: str, head: str = f"{EX}e00", confidence: float | None = 0.75) -> DecidedFact:
    return DecidedFact(head, f"{EX}r1", f"{EX}e09", choice, 'some "one"', "2026-01-02T03:04:05+00:00", confidence)


def said(store: pyoxigraph.Store) -> list[tuple[str, ...]]:
    query = (
        f"SELECT ?s ?choice ?by ?p WHERE {{ GRAPH <{GRAPH}> {{ ?x <urn:tuckerkg:decision> ?choice ; "
        "<urn:tuckerkg:by> ?by ; <http://www.w3.org/1999/02/22-rdf-syntax-ns#subject> ?s "
        "OPTIONAL { ?x <urn:tuckerkg:probability> ?p } } }"
    )
    return [
        tuple("" if row[n] is None else row[n].value for n in ("s", "choice", "by", "p")) for row in store.query(query)
    ]


def holds(store: pyoxigraph.Store, fact: DecidedFact) -> bool:
    head, relation, tail = (
        rdf_term(fact.head, "entity"),
        rdf_term(fact.relation, "relation"),
        rdf_term(fact.tail, "entity"),
    )
    return bool(store.query(f"ASK {{ GRAPH <{GRAPH}> {{ {head} {relation} {tail} }} }}"))


def test_accepted_facts_are_written_once_with_their_confidence(store):
    with endpoint(store, Habits()) as address:
        asked = Endpoint(parse_address(address))
        for _ in range(2):
            write_sparql(asked, [decided("accept"), decided("reject", f"{EX}e01", None)], rdf_term)
    assert sorted(said(store)) == [
        (f"{EX}e00", "accept", 'some "one"', "0.75"),
        (f"{EX}e01", "reject", 'some "one"', ""),
    ]
    assert holds(store, decided("accept"))
    assert not holds(store, decided("reject", f"{EX}e01"))


def test_a_later_decision_takes_the_place_of_an_earlier_one(store):
    with endpoint(store, Habits()) as address:
        asked = Endpoint(parse_address(address))
        write_sparql(asked, [decided("accept")], rdf_term)
        write_sparql(asked, [decided("reject")], rdf_term)
    assert [row[1] for row in said(store)] == ["reject"]
    assert not holds(store, decided("reject"))


def test_labels_that_are_no_iris_cannot_change_the_update(store):
    hostile = "> } } ; DROP ALL ; INSERT DATA { GRAPH <x:y> { <x:a> <x:b> <x:c"
    before = len(store)
    with endpoint(store, Habits()) as address:
        write_sparql(Endpoint(parse_address(address)), [decided("accept", hostile)], rdf_term)
    assert len(store) == before + 9  # the fact, and what is said of it
    assert holds(store, decided("accept", hostile))


def tuckerkg(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tuckerkg", *map(str, words)], capture_output=True, text=True, check=False
    )


def test_the_command_line_reads_and_writes_back(store, tmp_path, toy_run):
    out = tmp_path / "graph.nt"
    run = toy_run.save(tmp_path / "run")
    with endpoint(store, Habits()) as address:
        pulled = tuckerkg("pull", address, "--out", out)
        assert f"{len(without_blank()):,} facts written to {out}" in pulled.stdout.replace("\n", "")
        assert "5 statements with blank nodes were left out" in pulled.stderr
        tuckerkg("decide", run, "--fact", "e003", "plus1", "e004", "--by", "someone")
        written = tuckerkg("decisions", run, "--only", "accept", "--to", address)
        assert "1 decisions written" in written.stdout
    refused = tuckerkg("pull", "graph.nt", "--out", out)
    assert refused.returncode == 2
    assert "is no address of a store" in refused.stderr
    assert [row[:3] for row in said(store)] == [("urn:tuckerkg:entity:e003", "accept", "someone")]

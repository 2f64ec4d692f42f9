"""Relationships out of Neo4j and decided facts into it: the driver is real, the database a server of its protocol."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import polars as pl
import pytest
from bolt_servers import Answer, Conversation, bolt_server

from tuckerkg.errors import TuckerkgError
from tuckerkg.stores.address import PASSWORD, parse_address
from tuckerkg.stores.neo4j import BATCH, Database, Naming, quoted
from tuckerkg.stores.pulling import pull_neo4j
from tuckerkg.stores.writing import DecidedFact, write_neo4j

COLUMNS = ["head", "relation", "tail", "head_title", "tail_title"]


def holding(*rows: tuple[Any, ...]) -> Conversation:
    """A database with these relationships."""

    def answer(query: str, values: dict[str, Any]) -> Answer:
        if "count(r)" in query:
            return ["n"], [[len(rows)]]
        if "UNWIND" in query:
            return ["n"], [[sum(row["head"] != "nobody" for row in values["rows"])]]
        return COLUMNS, [list(row) for row in rows]

    return Conversation(answer)


def test_relationships_become_triples_and_titles_names(tmp_path):
    rows = [(f"Q{i}", "KNOWS", f"Q{i + 1}", f"person {i}", f"person\t{i + 1}") for i in range(2 * BATCH + 7)]
    with bolt_server(holding(*rows)) as address:
        out = tmp_path / "graph.tsv"
        pulled = pull_neo4j(Database(parse_address(address), naming=Naming("id", "name")), out)
    assert out.read_text().splitlines() == [f"Q{i}\tKNOWS\tQ{i + 1}" for i in range(len(rows))]
    assert pulled.facts == len(rows)
    assert pulled.names == tmp_path / "graph.names.tsv"
    assert "Q7\tperson 7\n" in pulled.names.read_text()


def test_the_query_names_key_title_and_label_quoted(tmp_path):
    conversation = holding(("a", "R", "b", "a", "b"))
    with bolt_server(conversation) as address:
        naming = Naming("my id", "na`me", "Per son")
        pull_neo4j(Database(parse_address(address), naming=naming), tmp_path / "graph.tsv")
    query = conversation.asked[-1][0]
    assert "MATCH (a:`Per son`)-[r]->(b:`Per son`) RETURN a.`my id` AS head" in query
    assert "b.`na``me` AS tail_title" in query


def test_numbers_are_names_too(tmp_path):
    with bolt_server(holding((1, "R", 2.5, None, None))) as address:
        pull_neo4j(Database(parse_address(address)), tmp_path / "graph.tsv")
    assert (tmp_path / "graph.tsv").read_text() == "1\tR\t2.5\n"


def test_nodes_without_a_key_are_named_and_nothing_is_written(tmp_path):
    with (
        bolt_server(holding(("a", "R", "b", "a", "b"), ("a", "S", None, "a", None))) as address,
        pytest.raises(TuckerkgError, match=r"1 relationships have an end without the property 'name'.*-\[S\]->\(\?"),
    ):
        pull_neo4j(Database(parse_address(address)), tmp_path / "graph.tsv")
    assert list(tmp_path.iterdir()) == []


def test_a_name_with_a_tab_needs_parquet(tmp_path):
    with bolt_server(holding(("a\tb", "R", "c", "a\tb", "c"))) as address:
        database = Database(parse_address(address))
        with pytest.raises(TuckerkgError, match=r"write a \.parquet file"):
            pull_neo4j(database, tmp_path / "graph.tsv")
        pull_neo4j(database, tmp_path / "graph.parquet")
    assert pl.read_parquet(tmp_path / "graph.parquet").rows() == [("a\tb", "R", "c")]


def test_what_the_database_refuses_is_said(tmp_path, monkeypatch):
    conversation = holding()
    conversation.password = "right"
    with bolt_server(conversation) as address:
        with pytest.raises(TuckerkgError, match=r"authentication failure.*Give --user NAME"):
            Database(parse_address(address)).count()
        monkeypatch.setenv(PASSWORD, "right")
        assert Database(parse_address(address, "neo4j")).count() == 0

    def refusing(query: str, values: dict[str, Any]) -> Answer:
        raise ValueError("no such property")

    with bolt_server(Conversation(refusing)) as address, pytest.raises(TuckerkgError, match="no such property"):
        Database(parse_address(address)).count()
    with pytest.raises(TuckerkgError, match=r"127\.0\.0\.1:9"):
        Database(parse_address("bolt://127.0.0.1:9")).count()


def decided(head: str, relation: str, choice: str = "accept") -> DecidedFact:
    return DecidedFact(head, relation, "z", choice, "someone", "2026-01-02T03:04:05+00:00", 0.5)


def test_accepted_facts_are_merged_and_others_taken_away():
    conversation = holding()
    facts = [
        decided("a", "R"),
        decided("b", "S`; MATCH (n) DELETE n"),
        decided("nobody", "R"),
        decided("c", "R", "reject"),
    ]
    with bolt_server(conversation) as address:
        found = write_neo4j(Database(parse_address(address), naming=Naming("id")), facts)
    assert found == 3  # the database has no node of one
    merged = [(query, values) for query, values in conversation.asked if "MERGE" in query]
    assert [[row["head"] for row in values["rows"]] for _, values in merged] == [["a", "nobody"], ["b"]]
    assert "MERGE (a)-[r:`R`]->(b)" in merged[0][0]
    assert "[r:`S``; MATCH (n) DELETE n`]" in merged[1][0]
    assert merged[0][1]["rows"][0]["properties"] == {
        "source": "tuckerkg",
        "decided_by": "someone",
        "decided_at": "2026-01-02T03:04:05+00:00",
        "confidence": 0.5,
    }
    ((query, values),) = [each for each in conversation.asked if "DELETE r" in each[0]]
    assert "{source: $source}" in query  # relationships of others stay
    assert ([row["head"] for row in values["rows"]], values["source"]) == (["c"], "tuckerkg")


def test_a_name_cannot_end_its_quotes():
    assert quoted("a`b\\u0060c") == "`a``b``c`"


def test_the_command_line_reads_and_writes_back(tmp_path, toy_run):
    run, out = toy_run.save(tmp_path / "run"), tmp_path / "graph.tsv"

    def tuckerkg(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tuckerkg", *map(str, words)], capture_output=True, text=True, check=False
        )

    tuckerkg("decide", run, "--fact", "e003", "plus1", "e004", "--by", "someone")
    with bolt_server(holding(("a", "R", "b", "A", "b"))) as address:
        pulled = tuckerkg("pull", address, "--out", out, "--title", "title")
        assert "1 facts written" in pulled.stdout
        assert "--entity-names" in pulled.stderr
        assert "1 decisions written" in tuckerkg("decisions", run, "--to", address).stdout
    assert out.read_text() == "a\tR\tb\n"

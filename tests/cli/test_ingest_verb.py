"""The verb ingest, and the verbs that open what it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("duckdb")

from tuckerkg.cli.app import app
from tuckerkg.errors import TuckerkgError

SMALL = [f"--set={each}" for each in ("train.epochs=2.0", "model.dim=8", "model.relation_dim=8", "train.threads=1")]


def run(*words: object) -> str:
    shown = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    return shown.output


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "facts.csv"
    rows = [f"e{i % 20},r{i % 3},e{(i + i % 3 + 1) % 20}" for i in range(60)]
    path.write_text("subject,predicate,object\n" + "\n".join([*rows, rows[0]]) + "\n")
    return path


def test_a_graph_is_ingested_inspected_trained_and_evaluated(file: Path) -> None:
    shown = run("ingest", file, "--header", "--out", "graph", "--threads", 1, "--memory", "300MB", "--shards", 4)
    assert "train: 60 triples from" in shown
    assert "1 duplicates dropped" in shown
    assert "graph: 20 entities, 3 relations, 60 / 0 / 0 triples to train, validate, test, in 4 shards" in shown
    ours = json.loads(run("inspect", "graph", "--json"))
    theirs = json.loads(run("inspect", file, "--header", "--json"))
    assert ours["counts"] == theirs["counts"]
    run("train", "graph", "--out", "run", "--encoder", "none", "--decoder", "distmult", *SMALL)
    evaluated = json.loads(run("evaluate", "run", "--json"))
    assert evaluated
    assert "e" in run("predict", "run", "--head", "e1", "--relation", "r1")


def test_a_share_is_held_out(file: Path) -> None:
    shown = run("ingest", file, "--header", "--out", "graph", "--threads", 1, "--split", "0.7,0.2,0.1", "--seed", 3)
    assert "/ 0 / 0" not in shown


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("looks like a header", []),
        ("three shares were expected, such as 0.98,0.01,0.01", ["--header", "--split", "much"]),
        ("--on-error is 'ignore', expected stop or skip", ["--on-error", "ignore"]),
    ],
)
def test_mistakes_are_answered_in_words(file: Path, words: str, given: list[str]) -> None:
    with pytest.raises(TuckerkgError, match=words):
        run("ingest", file, "--out", "graph", "--threads", 1, *given)
    assert not Path("graph").exists()


def test_the_help_teaches() -> None:
    shown = " ".join(run("ingest", "--help").split())
    for words in ("--memory", "--shards", "--split", "tuckerkg train", "N-Triples", "continues"):
        assert words in shown

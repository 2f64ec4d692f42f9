"""Answers in files, questions from files: every format holds every fact, bad questions are named by line."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pyoxigraph
import pytest
from graphs import toy_dataset
from typer.testing import CliRunner

from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.data.labels import Vocabulary
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.errors import InputError, TuckerkgError
from tuckerkg.inference.answers.files import check_output, write_predictions
from tuckerkg.inference.answers.predictions import Prediction, Predictions
from tuckerkg.inference.query_files import ask_file, score_file
from tuckerkg.training.callbacks import NullCallback

FACT = Prediction("Ann", "knows", "Bob", 1.25, 0.75, "both", False, "http://x/ann", "http://x/knows", "http://x/bob")
ODD = replace(FACT, head="a\tb\nc", head_label='odd "name" <x>', relation_label="is a", tail_label="_:g-1")
LITERAL = replace(FACT, tail_label='"42"^^<http://www.w3.org/2001/XMLSchema#integer>')
FACTS = [FACT, ODD, LITERAL]


def test_tables_hold_every_fact(tmp_path):
    for name in ("a.json", "a.jsonl", "a.parquet"):
        write_predictions(FACTS, tmp_path / name)
    expected = [fact.as_dict() for fact in FACTS]
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == expected
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == expected
    assert pl.read_parquet(tmp_path / "a.parquet").to_dicts() == expected


def test_tsv_has_one_line_per_fact_whatever_names_hold(tmp_path):
    write_predictions(FACTS, tmp_path / "a.tsv")
    rows = [line.split("\t") for line in (tmp_path / "a.tsv").read_text(encoding="utf-8").splitlines()]
    assert [len(row) for row in rows] == [10] * 4
    assert rows[2][0] == "a\\tb\\nc"


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "a=1"])
def test_s9_no_name_reaches_a_spreadsheet_as_a_formula(tmp_path, name):
    write_predictions([replace(FACT, tail=name)], tmp_path / "a.tsv")
    cell = (tmp_path / "a.tsv").read_bytes().decode().split("\n")[1].split("\t")[2]
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert cell.removeprefix("'").replace("\\t", "\t").replace("\\r", "\r") == name
    write_predictions([replace(FACT, tail=name)], tmp_path / "b.tsv", guard=False)
    plain = (tmp_path / "b.tsv").read_bytes().decode().split("\n")[1].split("\t")[2]
    assert plain == name.replace("\t", "\\t").replace("\r", "\\r")


def test_s9_the_command_guards_unless_told_not_to(tmp_path):
    data = toy_dataset()
    named = replace(data, entities=Vocabulary(tuple(f"={label}" for label in data.entities.labels)))
    quick = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 1.0, "encoder": "none", "train.threads": 1}
    run = api.train(named, out=tmp_path / "run", overrides=quick, callback=NullCallback())
    (tmp_path / "facts.tsv").write_text("=e000\tplus1\t=e001\n", encoding="utf-8")
    asked = ["predict", str(run.path), "--head", "=e000", "--relation", "plus1", "-k", "1", "--format", "tsv"]
    scored = ["score", str(run.path), str(tmp_path / "facts.tsv"), "--format", "tsv"]
    for command in (asked, scored):
        for more, written in (([], "'=e000"), (["--unguarded"], "=e000")):
            told = CliRunner().invoke(app, [*command, *more])
            cells = set(told.stdout.replace("\n", "\t").split("\t"))
            assert {cell for cell in cells if cell.endswith("=e000")} == {written}, told.output


def test_n_triples_state_the_fact_and_its_probability(tmp_path):
    write_predictions(FACTS, tmp_path / "a.nt")
    quads = list(pyoxigraph.parse(path=str(tmp_path / "a.nt")))
    facts = [quad for quad in quads if not str(quad.subject).startswith("_:prediction")]
    assert [str(quad.subject) for quad in facts] == [
        "<http://x/ann>",
        "<urn:tuckerkg:entity:odd%20%22name%22%20%3Cx%3E>",
        "<http://x/ann>",
    ]
    assert str(facts[1].object) == "_:g-1"
    assert str(facts[2].object) == LITERAL.tail_label
    said = [float(quad.object.value) for quad in quads if quad.predicate.value == "urn:tuckerkg:probability"]
    assert said == [0.75] * 3


@pytest.mark.parametrize("facts", [[], FACTS])
def test_no_facts_are_a_file_too(tmp_path, facts):
    for name in ("a.tsv", "a.json", "a.jsonl", "a.parquet", "a.nt"):
        write_predictions(facts, tmp_path / name)
        assert (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["a.xlsx", "a", "missing/a.tsv"])
def test_a_file_that_cannot_be_written_is_refused_first(tmp_path, name):
    with pytest.raises(TuckerkgError, match="--out"):
        check_output(tmp_path / name)


def test_questions_of_a_file_are_answered_together_as_one_by_one(toy_run, tmp_path):
    file = tmp_path / "ask.tsv"
    rows = ["e001\tplus1\t?", "", "?\tplus2\te004", "e001\t?\te003", "e001\tplus1\t?"]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    progress = []
    found = ask_file(toy_run, file, ReadOptions(header=False), 2, progress=lambda *done: progress.append(done))
    first, second = toy_run.predict("e001", "plus1", k=2), toy_run.predict(relation="plus2", tail="e004", k=2)
    expected = [*first, *second, *toy_run.predict("e001", tail="e003", k=2), *first]
    named, numbers = ("head_label", "relation_label", "tail_label", "known"), ("score", "probability")
    alone = Predictions(expected).to_frame()
    assert found.frame.select(named).rows() == alone.select(named).rows()
    for name in numbers:
        assert found.frame[name].to_list() == pytest.approx(alone[name].to_list(), rel=1e-4)
    assert found.frame["question"].to_list() == [1, 1, 3, 3, 4, 4, 5, 5]
    assert found.frame["rank"].to_list() == [1, 2] * 4
    assert found.questions == 4
    assert progress[-1] == (3, 3)  # the same question is asked once


def test_questions_with_fewer_answers_keep_their_numbers(toy_run, tmp_path):
    file = tmp_path / "ask.tsv"
    file.write_text("e001\t?\te003\ne002\tplus1\t?\n", encoding="utf-8")
    found = ask_file(toy_run, file, ReadOptions(header=False), 50).frame
    counts = dict(zip(*found["question"].value_counts(sort=True).to_dict(as_series=False).values(), strict=True))
    alone = toy_run.predict("e001", tail="e003", k=50), toy_run.predict("e002", "plus1", k=50)
    assert counts == {1: len(alone[0]), 2: len(alone[1])}


def test_a_question_with_an_unknown_name_is_set_aside_where_that_is_asked_for(toy_run, tmp_path):
    file, rejects = tmp_path / "ask.tsv", tmp_path / "rejected.tsv"
    file.write_text("e001\tplus1\t?\nnobody\tplus9\t?\ne002\tplus1\t?\n?\tplus1\t?\n", encoding="utf-8")
    skipping = ReadOptions(header=False, on_error="skip", rejects=rejects)
    found = ask_file(toy_run, file, skipping, 1)
    assert found.frame["question"].to_list() == [1, 3]
    assert found.questions == 2
    said = rejects.read_text(encoding="utf-8").splitlines()
    assert [row.split("\t")[1] for row in said[1:]] == ["2", "4"]
    assert "'nobody'" in said[1]
    assert "'plus9'" in said[1]
    assert len(score_file(toy_run, file, skipping).frame) == 0
    assert len(rejects.read_text(encoding="utf-8").splitlines()) == 5


def test_an_output_never_overwrites_an_input(toy_run, tmp_path):
    file = tmp_path / "ask.tsv"
    file.write_text("e001\tplus1\t?\n", encoding="utf-8")
    (tmp_path / "link.tsv").symlink_to(file)
    for out in (file, tmp_path / "link.tsv"):
        for asked in (
            ["predict", str(toy_run.path), "--questions", str(file)],
            ["score", str(toy_run.path), str(file)],
        ):
            told = CliRunner().invoke(app, [*asked, "--out", str(out)])
            assert "name another file" in str(told.exception)
    assert file.read_text(encoding="utf-8") == "e001\tplus1\t?\n"


def test_answers_can_be_fed_back_by_their_labels(toy_run, tmp_path):
    """Titles may be shared; the labels beside them are not."""
    (tmp_path / "ask.tsv").write_text("e001\tplus1\t?\n", encoding="utf-8")
    out = tmp_path / "answers.tsv"
    asked = ["predict", str(toy_run.path), "--questions", str(tmp_path / "ask.tsv"), "--out", str(out)]
    assert CliRunner().invoke(app, asked).exit_code == 0
    again = ["score", str(toy_run.path), str(out), "--columns", "head_label,relation_label,tail_label", "--header"]
    told = CliRunner().invoke(app, [*again, "--format", "json"])
    assert told.exit_code == 0, told.output
    before = pl.read_csv(out, separator="\t")
    scores = [row["score"] for row in json.loads(told.stdout)]
    assert scores == pytest.approx(before["score"].to_list(), rel=1e-4)


def test_bad_questions_are_named_by_line_before_any_is_asked(toy_run, tmp_path):
    file = tmp_path / "ask.tsv"
    file.write_text("e001\tplus1\t?\n?\tplus2\t?\ne999\tplus1\t?\ne001\tplus1\te002\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        ask_file(toy_run, file, ReadOptions(header=False), 2)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4]
    assert "Nearest" in str(caught.value)


def test_the_command_asks_and_writes(toy_run, tmp_path):
    (tmp_path / "ask.tsv").write_text("e001\tplus1\t?\n", encoding="utf-8")
    asked = ["predict", str(toy_run.path), "--questions", str(tmp_path / "ask.tsv"), "-k", "3"]
    told = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "a.jsonl")])
    assert told.exit_code == 0, told.output
    assert "3 facts written" in told.output
    assert len((tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()) == 3
    for more in (["--head", "e001"], ["--top-missing", "3"]):
        refused = CliRunner().invoke(app, [*asked, *more])
        assert isinstance(refused.exception, TuckerkgError)

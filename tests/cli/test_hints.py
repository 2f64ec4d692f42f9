"""Calls that nearly were right: what they are told, and that nothing is done silently."""

from __future__ import annotations

import pytest
from graphs import data_folder
from typer.testing import CliRunner

import tuckerkg
from tuckerkg.cli.app import app
from tuckerkg.errors import TuckerkgError
from tuckerkg.nn import model


@pytest.fixture
def graph(tmp_path):
    """Two rings of entities by id, with a file of names."""
    rows = [f"Q{i}\tP{step}\tQ{(i + step) % 12}\n" for step in (1, 2) for i in range(12)]
    (tmp_path / "graph.tsv").write_text("".join(rows), encoding="utf-8")
    (tmp_path / "names.tsv").write_text("".join(f"Q{i}\ttown {i}\n" for i in range(12)), encoding="utf-8")
    (tmp_path / "relations.tsv").write_text("P1\tnext to\n", encoding="utf-8")
    return tmp_path / "graph.tsv"


def said(*arguments: object) -> str:
    """What a call that fails says."""
    with pytest.raises(TuckerkgError) as caught:
        app(list(map(str, arguments)), standalone_mode=False)
    return str(caught.value)


def test_an_unknown_option_that_is_a_setting_is_answered_with_the_settings_name(graph):
    assert "--set train.epochs=3" in said("train", graph, "--epochs", "3")
    assert "--set train.lr=VALUE" in said("train", graph, "--lr")
    assert "No such option" in CliRunner().invoke(app, ["train", str(graph), "--nothing"]).output
    assert "No such option" in CliRunner().invoke(app, ["evaluate", str(graph), "--lr", "1"]).output  # has no --set


def test_a_regularizer_without_a_weight_is_refused(graph):
    assert "regularizer.n3=0.05" in said("train", graph, "--set", "kind=embedding", "--set", "regularizer=n3")


def test_an_address_is_not_taken_for_a_file():
    assert "https://example.org/graph.tsv: is an address" in said("train", "https://example.org/graph.tsv")


def test_a_device_that_is_not_there_is_named_and_a_run_from_there_is_opened_here(graph, tmp_path):
    quick = ["--set", "kind=embedding", "--set", "train.epochs=1.0", "--set", "train.threads=1"]
    asked = ["train", graph, *quick, "--set", "train.device=cuda:77", "--out", tmp_path / "run"]
    assert "set train.device to cpu, or to auto" in said(*asked)
    assert model.device_to_answer("cuda:77") == model.choose_device("auto")
    assert model.device_to_answer("cpu").type == "cpu"


def test_as_many_seeds_as_asked_for(graph, tmp_path):
    quick = ["--set", "kind=embedding", "--set", "train.epochs=1.0", "--set", "train.threads=1"]
    told = CliRunner().invoke(app, ["train", str(graph), *quick, "--seeds", "2", "--out", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    assert [tuckerkg.load(tmp_path / f"run-seed{seed}").settings.train.seed for seed in (0, 1)] == [0, 1]
    assert "one of the two" in said("train", graph, *quick, "--seeds", "2", "--seed", "1")


def test_names_for_a_single_file_of_ids(graph, tmp_path):
    names = [
        "--entity-names",
        str(graph.with_name("names.tsv")),
        "--relation-names",
        str(graph.with_name("relations.tsv")),
    ]
    quick = ["--set", "kind=embedding", "--set", "train.epochs=1.0", "--set", "train.threads=1"]
    told = CliRunner().invoke(app, ["train", str(graph), *names, *quick, "--out", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    fact = tuckerkg.load(tmp_path / "run").predict("town 3", "next to", k=1)[0]
    assert fact.tail.startswith("town ")
    assert fact.tail_label.startswith("Q")
    assert CliRunner().invoke(app, ["inspect", str(graph), *names]).exit_code == 0


def test_inspect_reads_what_train_reads_and_says_what_was_left_out(tmp_path):
    (tmp_path / "rows.csv").write_text("who;what;whom\na;r;b\nb;r\nb;r;c\nc;r;a\n", encoding="utf-8")
    shape = ["--header", "--delimiter", ";", "--on-error", "skip", "--rejects", str(tmp_path / "aside.tsv")]
    told = CliRunner().invoke(app, ["inspect", str(tmp_path / "rows.csv"), *shape])
    assert told.exit_code == 0, told.output
    assert "1 rejected" in told.stdout
    assert (tmp_path / "aside.tsv").exists()


def test_literals_that_were_left_out_are_counted_by_inspect():
    told = CliRunner().invoke(app, ["inspect", str(data_folder() / "aifb" / "aifb_fixed_complete.n3")])
    assert "literals left out" in told.stdout


def test_options_of_a_file_of_questions_are_not_ignored_without_one(graph):
    for option in (["--header"], ["--columns", "1,2,3"], ["--on-error", "skip"]):
        assert "--questions and --graph: give one of them too" in said("predict", graph, "--head", "Q1", *option)


def test_names_for_a_known_dataset_take_the_place_of_its_own(tmp_path):
    names = tmp_path / "names.tsv"
    names.write_text("France\tla France\n", encoding="utf-8")
    assert tuckerkg.load_dataset("countries", entity_titles=names).entity_titles["France"] == "la France"

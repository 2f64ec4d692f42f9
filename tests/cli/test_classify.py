"""`tuckerkg classify`, and what other verbs say of its runs."""

from __future__ import annotations

import json

import pytest
from people import write_people
from typer.testing import CliRunner

from tuckerkg.cli.app import app

SMALL = ("--set", "model.dim=8", "--set", "model.relation_dim=8", "--set", "train.epochs=10.0", "--set",
         "train.threads=1", "--set", "classify.members=2", "--set", "encoder.bases=4")  # fmt: skip


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    graph, labels = write_people(folder, own_edge=True)
    about = ("--labels", labels, "--target", "group", "--out", folder / "run", "--encoder", "rgcn")
    shown = invoke("classify", graph, *about, *SMALL)
    assert shown.exit_code == 0, shown.output
    return folder, shown.output


def test_it_says_what_it_read_left_out_and_reached(trained):
    folder, output = trained
    assert "32 labels to train on, 8 held out" in output
    assert "relation employs to 100% of the labelled nodes says their class" in output
    assert "held-out labels:" in output
    assert (folder / "run" / "settings.json").is_file()


def test_verbs_that_ask_a_run_know_it(trained, tmp_path):
    folder, _ = trained
    run = folder / "run"
    shown = invoke("predict", run, "--item", "p00", "--format", "json")
    (found,) = json.loads(shown.output)
    assert found["item"] == "p00"
    assert set(found["probabilities"]) == {"blue", "red"}
    for ending in ("tsv", "csv", "json", "parquet"):
        assert invoke("predict", run, "--out", tmp_path / f"c.{ending}").exit_code == 0
        assert (tmp_path / f"c.{ending}").stat().st_size > 0
    assert "must end in" in str(invoke("predict", run, "--out", tmp_path / "c.nt").exception)
    assert json.loads(invoke("explain", run, "p00", "--json").output)["item"] == "p00"
    judged = json.loads(invoke("evaluate", run, "--json").output)
    assert judged["test"]["count"] == 8
    for ending in ("html", "md"):
        assert invoke("report", run, "--out", tmp_path / f"r.{ending}").exit_code == 0
        assert "held-out labels" in (tmp_path / f"r.{ending}").read_text()
    assert json.loads(invoke("compare", run, run, "--json").output)[0]["accuracy"] == judged["test"]["accuracy"]


def test_verbs_about_facts_refuse_it_in_words(trained):
    folder, _ = trained
    for words in (("score", folder / "run", folder / "graph.tsv"), ("export", folder / "run", "v.npz")):
        assert "puts nodes into classes; ask it by predict" in str(invoke(*words).exception)
    assert "continue it by tuckerkg classify --resume" in str(invoke("train", "--resume", folder / "run").exception)
    assert "there is no node 'p99'" in str(invoke("predict", folder / "run", "--item", "p99").exception)


def test_cross_validation_and_seeds(trained):
    folder, _ = trained
    labels = ("--labels", folder / "people.tsv", "--target", "group")
    asked = ("classify", folder / "graph.tsv", *labels, "--encoder", "rgcn", *SMALL, "--json")
    found = json.loads(invoke(*asked, "--folds", "4").stdout)
    assert found["over"] == "4 folds"
    assert sum(each["count"] for each in found["each"]) == 40
    seeds = json.loads(invoke(*asked, "--seeds", "2", "--out", folder / "several").stdout)
    assert len(seeds["each"]) == 2
    assert (folder / "several-seed1" / "settings.json").is_file()


def test_settings_come_from_a_file_and_parts_from_a_column(trained, tmp_path):
    folder, _ = trained
    file, labels = tmp_path / "own.toml", tmp_path / "people.csv"
    file.write_text('[model]\ndim = 6\n[encoder]\nname = "rgcn"\nbases = 2\n[classify]\ncounts = "sums"\nmembers = 2\n')
    shared = ("classify", folder / "graph.tsv", "--target", "group", "--settings", file, "--set", "train.epochs=2.0")
    shown = invoke(*shared, "--labels", folder / "people.tsv", "--out", tmp_path / "run")
    assert shown.exit_code == 0, shown.output + str(shown.exception)
    assert "alone: encoder" in shown.output
    written = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert (written["model"]["dim"], written["encoder"]["name"], written["train"]["epochs"]) == (6, "rgcn", 2.0)
    assert json.loads(invoke("evaluate", tmp_path / "run", "--json").output)["alone"]["counts"]["test"] > 0.5
    assert invoke("report", tmp_path / "run", "--out", tmp_path / "r.md").exit_code == 0
    assert "counts alone" in (tmp_path / "r.md").read_text()
    labels.write_text(
        "item,group,part\n" + "".join(f"p{n:02},{'red' if n % 2 else 'blue'},{n // 2 % 4}\n" for n in range(40))
    )
    found = json.loads(invoke(*shared, "--labels", labels, "--fold-column", "part", "--json").stdout)
    assert [each["count"] for each in found["each"]] == [10, 10, 10, 10]


def test_a_finished_run_is_resumed_to_the_same_figures(trained):
    folder, output = trained
    shown = invoke("classify", "--resume", folder / "run", "--json")
    assert shown.exit_code == 0, shown.output + str(shown.exception)
    found = json.loads(shown.stdout)
    assert f"{found['test']['accuracy']:.1%} of 8 right" in output


def test_settings_are_searched_on_labels_that_members_do_not_see(trained, tmp_path):
    folder, _ = trained
    space = tmp_path / "space.toml"
    space.write_text('[vary]\n"model.dim" = [4, 8]\n')
    shown = invoke("tune", folder / "run", "--space", space, "--trials", "2", "--folder", tmp_path / "study")
    assert shown.exit_code == 0, shown.output + str(shown.exception)
    kept = json.loads((tmp_path / "study" / "study.json").read_text())
    assert len(kept["trials"]) == 2


def test_wrong_calls_are_answered_in_words(trained):
    folder, _ = trained
    graph = folder / "graph.tsv"
    assert "labels are needed" in str(invoke("classify", graph).exception)
    assert "give a graph" in str(invoke("classify").exception)
    labels = ("--labels", folder / "people.tsv", "--target", "group", "--literals", "x", "--out", folder / "n")
    assert "expected nodes, features or none" in str(invoke("classify", graph, *labels).exception)
    assert "--resume takes everything" in str(invoke("classify", graph, "--resume", folder / "run").exception)

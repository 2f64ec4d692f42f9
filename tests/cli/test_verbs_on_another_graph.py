"""The verbs and the service answer for a graph that a run was not trained on."""

from __future__ import annotations

import json

import pytest
from other_graphs import DATA, OTHER, SPLITS, M, named, scorer_of, write
from typer.testing import CliRunner

from tuckerkg.cli.app import app
from tuckerkg.data.dataset import Dataset
from tuckerkg.errors import TuckerkgError


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "rings", **{name: named(OTHER, OTHER.split(name)) for name in SPLITS})


@pytest.fixture
def opened(toy_run, tmp_path, monkeypatch):
    """A run folder whose run scores with path counts, also on the command line."""
    import tuckerkg.inference.run as module

    kept, before = toy_run.save(tmp_path / "run"), module.load

    def load(path, **options):
        loaded = before(path, **options)
        loaded.given_scorer = scorer_of("path counts")
        return loaded

    monkeypatch.setattr(module, "load", load)
    return kept


def shown(*words: object, status: int = 0) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == status, found.output
    return found.output


def test_evaluate_shows_both_test_sets_and_keeps_them_apart(opened, folder):
    (opened / "evaluation-test.json").write_text("{}")
    said = shown("evaluate", opened, "--graph", folder)
    assert "rings: test split" in said
    assert "rings: valid+test split" in said
    assert said.count("Hits@10 of 50 is 0.") + said.count("Hits@10 of 50 is 1.") == 2
    assert "that none of the graph's facts name" in said
    assert (opened / "evaluation-test.json").read_text() == "{}"
    kept = json.loads((opened / "evaluation-rings-test.json").read_text())
    both = json.loads((opened / "evaluation-rings-valid+test.json").read_text())
    assert (kept["graph"], kept["split"], both["split"]) == ("rings", "test", "valid+test")
    assert both["queries"] == 2 * (len(OTHER.valid) + len(OTHER.test))
    assert 0.0 < kept["hits@10_of_50"] <= 1.0


def test_evaluate_gives_json_with_the_test_split_first(opened, folder):
    found = json.loads(shown("evaluate", opened, "--graph", folder, "--json", "--calibration"))
    assert (found["graph"], found["split"], found["queries"]) == ("rings", "test", 2 * len(OTHER.test))
    assert found["valid+test"]["queries"] == 2 * (len(OTHER.valid) + len(OTHER.test))
    assert found["calibrated"]["ece"] >= 0.0
    one = json.loads(shown("evaluate", opened, "--graph", folder, "--json", "--split", "valid"))
    assert one["split"] == "valid"
    assert "valid+test" not in one


def test_a_graph_without_a_test_split_is_evaluated_on_what_it_has(opened, folder):
    (folder / "test.tsv").unlink()
    assert json.loads(shown("evaluate", opened, "--graph", folder, "--json"))["split"] == "valid"
    (folder / "valid.tsv").unlink()
    assert "nothing is held out of this graph as test" in run_program("evaluate", opened, "--graph", folder)


def run_program(*words: object) -> str:
    """What a user sees of an error."""
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(found.exception, TuckerkgError)
    return str(found.exception)


def test_the_other_verbs_take_a_graph(opened, folder, tmp_path):
    (tmp_path / "ask.tsv").write_text("f001\tplus1\tf009\n")
    predicted = json.loads(
        shown("predict", opened, "--graph", folder, "--head", "f004", "--relation", "plus2", "--format", "json")
    )
    assert {fact["head_label"] for fact in predicted} == {"f004"}
    scored = json.loads(shown("score", opened, tmp_path / "ask.tsv", "--graph", folder, "--format", "json"))
    assert [fact["tail"] for fact in scored] == ["f009"]
    explained = json.loads(shown("explain", opened, "f001", "plus1", "f002", "--graph", folder, "--json"))
    assert explained["candidates"] == M


def test_the_command_line_refuses_an_embedding_model(toy_run, folder):
    assert "has none for the entities of another graph" in run_program("evaluate", toy_run.path, "--graph", folder)


def test_the_service_shows_the_graph(opened, folder):
    from tuckerkg.cli.options import load_run
    from tuckerkg.serve.engine.engine import Engine
    from tuckerkg.serve.schemas.asked import Asked, AskedWhy

    (opened / "evaluation-test.json").write_text("{}")
    engine = Engine(load_run(opened, graph=str(folder)))
    assert engine.page.about.model["graph"] == "rings"
    assert engine.page.about.model["trained on"] == DATA.name
    assert engine.page.about.counts.entities == M
    assert engine.page.about.test is None
    assert engine.page.about.calibration is not None
    assert engine.around.search("f00", 5).total == 10
    (answers,) = engine.answer([Asked(head="f004", relation="plus2", k=2, typed=False)])
    assert all(fact["head_label"] == "f004" for fact in answers)
    assert engine.explaining.explain(AskedWhy(head="f001", relation="plus1", tail="f002")).candidates == M
    engine.close()
    shown("evaluate", opened, "--graph", folder)
    assert Engine(load_run(opened, graph=str(folder))).page.about.test is not None
    (folder / "test.tsv").unlink()
    (folder / "valid.tsv").unlink()
    bare = Engine(load_run(opened, graph=str(folder)))
    assert (bare.page.about.test, bare.page.about.calibration) == (None, None)


def test_a_graph_of_any_layout_is_read_with_the_options_of_train(path_run, tmp_path):
    rows = [f"{tail};x;{relation};{head}" for head, relation, tail in named(OTHER, OTHER.train)]
    (tmp_path / "graph.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    layout = ["--delimiter", "semicolon", "--columns", "4,3,1", "--no-header"]
    graph = ["--graph", str(tmp_path / "graph.csv")]
    asked = ["predict", str(path_run.path), *graph, "--head", "f004", "--relation", "plus2", "--format", "json"]
    found = CliRunner().invoke(app, [*asked, *layout[:4]])
    assert found.exit_code == 0, found.output
    other = path_run.on(Dataset.from_triples(named(OTHER, OTHER.train), split=None))
    expected = other.predict("f004", "plus2")
    assert [row["tail_label"] for row in json.loads(found.stdout)] == [fact.tail_label for fact in expected]
    head, relation, tail = named(OTHER, OTHER.train)[0]
    found = CliRunner().invoke(app, ["explain", str(path_run.path), head, relation, tail, *graph, *layout, "--json"])
    assert found.exit_code == 0, found.output
    for verb in (["explain", str(path_run.path), head, relation, tail], ["evaluate", str(path_run.path)]):
        refused = CliRunner().invoke(app, [*verb, "--delimiter", "semicolon"])
        assert "are for the files of --graph" in str(refused.exception)

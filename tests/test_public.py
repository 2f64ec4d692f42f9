"""The public names, and what a user of them meets."""

from __future__ import annotations

import ast
import inspect
from importlib import metadata
from pathlib import Path

import pytest
import torch
from graphs import toy_dataset
from torch import nn

import tuckerkg
from tuckerkg.training.callbacks import NullCallback

SMALL = {"model.dim": 8, "model.relation_dim": 8, "train.evaluate_every": 1.0, "train.threads": 1}
QUIET = {"overrides": SMALL, "epochs": 2.0, "callback": NullCallback()}


def test_type_checkers_see_the_names_that_python_gives():
    tree = ast.parse(Path(tuckerkg.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    given = {name: (f"tuckerkg.{module}", attribute) for name, (module, attribute) in tuckerkg._HOMES.items()}
    assert seen == given
    assert set(tuckerkg.__all__) == set(given) <= set(dir(tuckerkg))


def test_every_component_is_public():
    classes = [getattr(tuckerkg, name) for name in tuckerkg.__all__]
    for registry in (tuckerkg.ENCODERS, tuckerkg.DECODERS, tuckerkg.LOSSES):
        for name, component in registry.items():
            if ":" not in name and component.__module__.startswith("tuckerkg."):
                assert component in classes, name


def test_every_public_function_and_class_has_a_docstring():
    for name in tuckerkg.__all__:
        thing = getattr(tuckerkg, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        tuckerkg.trian  # noqa: B018


def test_the_three_lines_of_the_readme(tmp_path):
    run = tuckerkg.train("countries", out=tmp_path / "run", **QUIET)
    assert 0 < run.evaluate("test").mrr < 1
    frame = tuckerkg.load(tmp_path / "run").predict(head="France", relation="borders").to_frame()
    assert frame.shape == (10, 10)
    assert frame["probability"].is_between(0, 1).all()


def test_a_run_without_a_folder_is_temporary_until_it_is_saved(tmp_path):
    run = tuckerkg.train(toy_dataset(), encoder="none", **QUIET)
    path = run.path
    assert path.is_dir()
    run.save(tmp_path / "kept")
    with pytest.raises(tuckerkg.TuckerkgError, match="already holds a run"):
        run.save(tmp_path / "kept")
    expected = run.evaluate("test").mrr
    del run
    assert not path.exists()
    assert tuckerkg.load(tmp_path / "kept").evaluate("test").mrr == expected


def test_a_run_without_a_folder_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(tuckerkg.TuckerkgError, match="needs relation_dim"):
        tuckerkg.train(toy_dataset(), encoder="none", decoder="distmult", overrides={"model.relation_dim": 7})
    assert not list(tmp_path.iterdir())


def test_several_seeds_have_mean_and_deviation(tmp_path):
    runs = tuckerkg.train_seeds(toy_dataset(), seeds=(0, 1), out=tmp_path, encoder="none", **QUIET)
    mrrs = [run.evaluate("test").mrr for run in runs]
    summary = runs.summary()
    assert summary.mean["mrr"] == pytest.approx(sum(mrrs) / 2)
    assert summary.deviation["mrr"] == pytest.approx(abs(mrrs[0] - mrrs[1]) / 2**0.5)
    assert "± " in str(summary)
    assert "<table>" in summary._repr_html_()
    assert summary.to_frame().columns == ["metric", "mean", "deviation"]
    assert [run.settings.train.seed for run in runs] == [0, 1]
    assert (tmp_path / "seed1").is_dir()


class Shift(nn.Module, tuckerkg.Encoder):
    """Adds a learnt vector.

    Args:
        scale: of the vector at the start.
    """

    uses_graph = False

    def __init__(self, dim, relation_dim, num_relations, *, scale: float = 0.1):
        super().__init__()
        self.out_dim, self.out_relation_dim = dim, relation_dim
        self.shift = nn.Parameter(scale * torch.ones(dim))

    def forward(self, graph, entities, relations):
        return entities + self.shift, relations


def test_a_class_is_an_encoder_and_its_run_opens_again(tmp_path):
    changes = {**QUIET, "overrides": {**SMALL, "encoder.scale": 0.5}}
    run = tuckerkg.train(toy_dataset(), encoder=Shift, out=tmp_path / "run", **changes)
    assert run.settings.encoder.options == {"scale": 0.5}
    assert tuckerkg.load(tmp_path / "run").evaluate().mrr == run.evaluate().mrr


def test_an_instance_is_an_encoder_and_stays_as_it_was(tmp_path):
    instance = Shift(8, 8, 6, scale=3.0)
    run = tuckerkg.train(toy_dataset(), encoder=instance, out=tmp_path / "run", **QUIET)
    assert torch.equal(instance.shift, 3.0 * torch.ones(8))
    assert not torch.equal(run.model.encoder.shift, instance.shift)
    assert tuckerkg.load(tmp_path / "run").evaluate().mrr == run.evaluate().mrr
    tuckerkg.register("encoder", Shift)  # the name is that of the class: leave the class behind it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataset": 3.5}, "float is not a graph"),
        ({"dataset": "umlz"}, "unknown dataset 'umlz'"),
        ({"encoder": 5}, "encoder: expected a name, a class or an instance"),
        ({"encoder": "tgcm"}, "Did you mean 'tgcn'"),
        ({"overrides": [("train.lr", 1)]}, "overrides: expected a mapping"),
        ({"overrides": {"train.learning_rate": 1.0}}, "train.learning_rate: unknown key"),
        ({"epochs": -1.0}, "train.epochs"),
        ({"seed": "one"}, "train.seed"),
        ({"settings": tuckerkg.load_settings(), "epochs": 3.0}, "change them there"),
        ({"settings": "no-such-experiment"}, "neither a settings file nor a shipped experiment"),
        ({"start": "no/run"}, "there is no such folder"),
    ],
)
def test_wrong_arguments_get_the_packages_own_errors(arguments, message, tmp_path):
    with pytest.raises(tuckerkg.TuckerkgError, match=message):
        tuckerkg.train(**{"dataset": toy_dataset(), "out": tmp_path / "run", "callback": NullCallback(), **arguments})


def test_wrong_questions_get_the_packages_own_errors(toy_run):
    for question in ({"head": 5, "relation": "r0"}, {"head": "e0"}, {"head": "e001", "relation": "r0", "k": 0}, {}):
        with pytest.raises(tuckerkg.TuckerkgError):
            toy_run.predict(**question)
    with pytest.raises(tuckerkg.TuckerkgError, match="there is no split 'tets'"):
        toy_run.evaluate("tets")
    with pytest.raises(tuckerkg.TuckerkgError, match="what is 'entity'"):
        toy_run.vectors("entity")
    with pytest.raises(tuckerkg.TuckerkgError, match="no seed"):
        tuckerkg.train_seeds(toy_dataset(), seeds=())


def test_results_show_themselves_in_a_notebook(toy_run):
    entities, relations = toy_run.entities.labels, toy_run.relations.labels
    shown = [
        toy_run.evaluate("test"),
        toy_run.predict(head=entities[0], relation=relations[0]),
        toy_run.explain(entities[0], relations[0], entities[1]),
        tuckerkg.inspect(toy_dataset()),
        tuckerkg.compare([toy_run, toy_run]),
    ]
    for thing in shown:
        html = thing._repr_html_()
        assert html.startswith("<")
        assert html.count("<tr>") == html.count("</tr>")


def test_vectors_are_a_frame_and_a_file(toy_run, tmp_path):
    frame = toy_run.vectors("relations")
    assert frame["label"].to_list() == [*toy_run.relations.labels, *(f"{r}^-1" for r in toy_run.relations.labels)]
    assert torch.equal(torch.from_numpy(frame["vector"].to_numpy().copy()), toy_run.model.relations.detach())
    assert toy_run.export(tmp_path / "v.parquet").is_file()


def test_facts_are_added_from_a_list(toy_run, tmp_path):
    kept = tuckerkg.load(toy_run.save(tmp_path / "run"))
    entities, relations = kept.entities.labels, kept.relations.labels
    newer = kept.add([("brand new", relations[0], entities[0]), (entities[1], relations[0], "brand new")])
    assert newer.version == 2
    assert "brand new" in newer.entities.labels
    assert newer.added.report["facts"] == 2
    assert newer.predict(head="brand new", relation=relations[0], k=3)


def test_version_agrees_with_the_metadata():
    assert metadata.version("tuckerkg") == tuckerkg.__version__

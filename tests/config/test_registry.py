"""Components of users: plugins by file and module, entry points, and nothing that a run folder could make happen."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest
from graphs import toy_dataset
from typer.testing import CliRunner

import tuckerkg
from tuckerkg.__main__ import main
from tuckerkg.cli.app import app
from tuckerkg.config import registry
from tuckerkg.config.registry import REGISTRIES, find_component, load_plugin
from tuckerkg.errors import SettingsError

PLUGIN = """
import torch
from torch import nn

import tuckerkg

print("imported")


class Double(nn.Module, tuckerkg.Encoder):
    uses_graph = False

    def __init__(self, dim, relation_dim, num_relations, *, factor: float = 2.0):
        super().__init__()
        self.out_dim, self.out_relation_dim, self.factor = dim, relation_dim, factor

    def forward(self, graph, entities, relations):
        return self.factor * entities, relations


class Sum(nn.Module, tuckerkg.Decoder):
    def __init__(self, dim, relation_dim):
        super().__init__()

    def query(self, heads, relations, relation_ids, groups=None):
        return heads + relations[relation_ids]
"""
SMALL = [
    "--set",
    "train.epochs=1.0",
    "--set",
    "model.dim=8",
    "--set",
    "model.relation_dim=8",
    "--set",
    "train.threads=1",
]


@pytest.fixture(autouse=True)
def untouched(monkeypatch):
    """Leave registries and modules as they were."""
    for section in REGISTRIES:
        monkeypatch.setitem(REGISTRIES, section, dict(REGISTRIES[section]))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("plugin_of_"):
            del sys.modules[name]


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugin_of_mine.py").write_text(PLUGIN)
    return "plugin_of_mine"


@pytest.mark.parametrize("source", ["plugin_of_mine", "plugin_of_mine.py"])
def test_a_module_or_a_file_is_imported(plugin, source):
    load_plugin(source)
    assert find_component("encoder", "double") is find_component("encoder", "plugin_of_mine:Double")
    assert find_component("decoder", "sum").__name__ == "Sum"


def test_dicts_give_other_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugin_of_names.py").write_text(PLUGIN + '\nENCODERS = {"twice": Double}\n')
    load_plugin("plugin_of_names")
    assert find_component("encoder", "twice").__name__ == "Double"


def test_runs_made_on_the_command_line_open_again(plugin):
    def invoke(*words):
        return CliRunner().invoke(app, list(words))

    made = invoke(
        "train", "countries", "--plugin", plugin, "--encoder", "double", "--decoder", "sum", "--out", "run", *SMALL
    )
    assert made.exit_code == 0, made.output
    for words in (["evaluate", "run"], ["predict", "run", "--head", "France"], ["train", "--resume", "run"]):
        shown = invoke(*words, "--plugin", plugin)
        assert shown.exit_code == 0, shown.output
    assert tuckerkg.load("run").settings.plugins == (plugin,)


def test_a_run_folder_imports_nothing(plugin, capsys, monkeypatch):
    """Without --plugin the run is refused, and the module is not imported."""
    load_plugin(plugin)
    tuckerkg.train(
        toy_dataset(),
        encoder=sys.modules[plugin].Double,
        out="run",
        overrides={"model.dim": 8, "model.relation_dim": 8, "train.threads": 1},
        epochs=1.0,
        callback=tuckerkg.NullCallback(),
    )
    del sys.modules[plugin]
    for names in REGISTRIES.values():
        for name in [name for name in names if "Double" in name or name == "double"]:
            del names[name]
    capsys.readouterr()
    with pytest.raises(SettingsError, match="pass --plugin plugin_of_mine"):
        tuckerkg.load("run")
    monkeypatch.setattr(sys, "argv", ["tuckerkg", "evaluate", "run"])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert "--plugin plugin_of_mine" in shown.err
    assert "imported" not in shown.out
    assert plugin not in sys.modules


def test_entry_points_offer_components(plugin, monkeypatch):
    point = EntryPoint("mine", "plugin_of_mine:Double", "tuckerkg.encoders")
    monkeypatch.syspath_prepend(".")
    asked = []

    def entry_points(**wanted):
        asked.append(wanted)
        return [point] if wanted == {"group": "tuckerkg.encoders", "name": "mine"} else []

    monkeypatch.setattr(registry, "entry_points", entry_points)
    assert find_component("encoder", "mine").__name__ == "Double"
    with pytest.raises(SettingsError, match="does not exist"):
        find_component("decoder", "mine")
    assert asked[-1]["group"] == "tuckerkg.decoders"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "has no class that subclasses"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("1 / 0", "ZeroDivisionError"),
        ("class Broken(:", "SyntaxError"),
    ],
)
def test_a_bad_plugin_is_one_message(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugin_of_bad.py").write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_plugin("plugin_of_bad.py")
    with pytest.raises(SettingsError, match="no such file"):
        load_plugin("plugin_of_nobody.py")


def test_a_component_that_lacks_a_part_is_refused_before_training(tmp_path):
    from torch import nn

    class Bare(nn.Module):
        def __init__(self, dim, relation_dim, num_relations):
            super().__init__()
            self.out_dim = dim

    with pytest.raises(SettingsError, match="lacks out_relation_dim, uses_graph"):
        tuckerkg.train(toy_dataset(), encoder=Bare, out=tmp_path / "run", callback=tuckerkg.NullCallback())
    assert not (tmp_path / "run").exists()

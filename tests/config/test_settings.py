"""Settings: files, overrides, and refusals that name key, value and what is allowed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tuckerkg.config.build import build_model
from tuckerkg.config.settings import parse_settings, settings_of_run
from tuckerkg.config.toml import experiment_files, experiment_name, find_settings, load_settings, parse_override
from tuckerkg.errors import SettingsError
from tuckerkg.storage.run_folder import RunFolder


def test_defaults_describe_every_option_of_every_component():
    settings = load_settings()
    assert settings.encoder.name == "tgcn"
    assert settings.encoder.options["layers"] == 2
    assert settings.as_dict()["loss"] == {"name": "softmax", "temperature": 1.0, "label_smoothing": 0.0}


def test_settings_survive_json():
    settings = load_settings(None, {"encoder.bases": 7, "train.lr": 0.5, "evaluate.hits": [1, 5]})
    assert parse_settings(json.loads(json.dumps(settings.as_dict()))) == settings


def test_overrides_beat_the_file_and_another_component_drops_old_options(tmp_path):
    file = tmp_path / "my.toml"
    file.write_text('dataset = "umls"\n[encoder]\nname = "tgcn"\nbases = 5\n[train]\nlr = 0.1\n')
    settings = load_settings(file, {"train.lr": 0.2, "train.seed": 3})
    assert (settings.dataset, settings.train.lr, settings.train.seed) == ("umls", 0.2, 3)
    assert settings.experiment == "my"
    assert settings.encoder.options["bases"] == 5
    assert load_settings(file, {"encoder": "none"}).encoder.name == "none"
    assert load_settings(file, {"encoder": "tgcn"}).encoder.options["bases"] == 5
    assert load_settings(file, {"encoder.name": "none"}).encoder.name == "none"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.lr=0.01", ("train.lr", 0.01)),
        ("train.lr=1e-3", ("train.lr", 0.001)),
        ("encoder.output_norm=false", ("encoder.output_norm", False)),
        ("encoder.name=none", ("encoder.name", "none")),
        ("evaluate.hits=[1, 2]", ("evaluate.hits", [1, 2])),
    ],
)
def test_overrides_are_read_as_toml(text, expected):
    assert parse_override(text) == expected


def test_an_override_without_a_value_is_refused():
    with pytest.raises(SettingsError, match=r"expected section\.key=value"):
        parse_override("train.lr")


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("train.learnrate", "Known here"),
        ("train.epoch", "Did you mean 'epochs'"),
        ("encoder.input_droput", "Did you mean 'input_dropout'"),
        ("trian.lr", "Did you mean 'train'"),
    ],
)
def test_b53_an_unknown_key_is_refused_with_the_nearest_name(key, hint):
    with pytest.raises(SettingsError, match=hint):
        load_settings(None, {key: 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train.lr", "0.1x"),
        ("batch.remove_own_edges", "off"),
        ("batch.remove_own_edges", 1),
        ("encoder.output_norm", "NO"),
        ("model.dim", 10.5),
        ("model.dim", "100"),
        ("train", 3),
        ("encoder", 3),
    ],
)
def test_b54_a_wrong_type_names_key_and_value(key, value):
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {key: value})
    assert key.split(".", maxsplit=1)[0] in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("train.lr", 0.0, "greater than 0"),
        ("train.lr", float("nan"), "finite"),
        ("model.dim", 0, "greater than or equal to 1"),
        ("encoder.input_dropout", 1.5, "less than 1"),
        ("encoder.layers", 0, "greater than or equal to 1"),
        ("batch.queries", -1, "greater than or equal to 1"),
        ("loss.temperature", 0.0, "greater than 0"),
        ("train.schedule", "cosine", "'constant', 'step' or 'one-cycle'"),
        ("evaluate.hits", [0], "from 1 on"),
    ],
)
def test_b55_a_value_out_of_range_shows_the_range(key, value, allowed):
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {key: value})
    assert key in str(caught.value)
    assert allowed in str(caught.value)


def test_b56_a_duplicate_key_and_other_syntax_are_refused_with_the_line(tmp_path):
    file = tmp_path / "double.toml"
    file.write_text("[train]\nlr = 0.1\nlr = 0.2\n")
    with pytest.raises(SettingsError, match=r"double\.toml: not valid TOML.*line 3"):
        load_settings(file)
    file.write_text("train: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(SettingsError, match="not valid TOML"):
        load_settings(file)


def test_a_missing_component_or_file_gets_the_nearest_name():
    with pytest.raises(SettingsError, match="Did you mean 'tucker'"):
        load_settings(None, {"decoder": "tuker"})
    with pytest.raises(SettingsError, match="neither a settings file nor a shipped experiment"):
        load_settings("no-such-file.toml")


def test_distmult_says_which_widths_it_needs():
    settings = load_settings(None, {"decoder": "distmult", "model.relation_dim": 50})
    with pytest.raises(SettingsError, match=r"set model\.relation_dim=100"):
        build_model(settings, 5, 2)


@pytest.mark.parametrize("file", experiment_files(), ids=experiment_name)
def test_every_shipped_experiment_loads_and_builds(file):
    settings = load_settings(file)
    assert settings.experiment == experiment_name(file)
    build_model(settings, 5, 2)


def test_experiments_are_found_by_name_and_by_path():
    files = experiment_files()
    assert len({experiment_name(file) for file in files}) == len(files)
    file = find_settings("wn18rr-tgcn-tucker")
    assert file.parts[-3:] == ("experiments", "wn18rr", "tgcn-tucker.toml")
    for name in ("wn18rr/tgcn-tucker", "wn18rr-tgcn-tucker.toml", str(file)):
        assert load_settings(name) == load_settings("wn18rr-tgcn-tucker")


def test_what_an_experiment_starts_from_is_shipped_with_the_same_widths():
    started = [load_settings(file) for file in experiment_files()]
    started = [settings for settings in started if settings.start.run]
    assert started
    for settings in started:
        former = load_settings(settings.start.run)
        assert (former.dataset, former.model.dim) == (settings.dataset, settings.model.dim), settings.experiment


def test_a_start_and_the_regularizers_are_filled_in():
    settings = load_settings(None, {"start": "runs/before", "start.tables": "interleaved", "regularizer.dura": 0.1})
    assert (settings.start.run, settings.start.tables) == ("runs/before", "interleaved")
    assert settings.regularizer == {"l2": 0.0, "l2_encoded": 0.0, "orthogonality": 0.0, "n3": 0.0, "dura": 0.1}
    with pytest.raises(SettingsError, match=r"regularizer\.durra: unknown key\. Did you mean 'dura'"):
        load_settings(None, {"regularizer.durra": 0.1})


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ([{"messages": 0.5}, {}], r"phase\.0\.epochs: every phase but the last"),
        ([{"epochs": 0.0}], r"phase\.0\.epochs.*greater than 0"),
        ([{"messages": 1.5}], r"phase\.0\.messages.*less than or equal to 1"),
        ([{"candidates": -1}], r"phase\.0\.candidates.*greater than or equal to 0"),
        ([{"mesages": 0.5}], r"phase\.0\.mesages: unknown key\. Did you mean 'messages'"),
    ],
)
def test_phases_that_cannot_be_are_refused(phases, said):
    with pytest.raises(SettingsError, match=said):
        load_settings(None, {"phase": phases})


def test_a_blend_has_no_model_to_build():
    settings = load_settings(None, {"kind": "blend"})
    with pytest.raises(SettingsError, match="nothing to train itself; train its members, then blend them again"):
        build_model(settings, 3, 1)
    with pytest.raises(SettingsError, match="kind = 'blent'"):
        load_settings(None, {"kind": "blent"})


@pytest.mark.parametrize(("version", "said"), [("99.0", "update tuckerkg"), ("0.0.1", "unknown key")])
def test_a_run_of_a_newer_version_is_named_as_such(tmp_path, monkeypatch, version, said):
    monkeypatch.setattr("tuckerkg.storage.run_folder.VERSION", version)
    empty = np.empty((0, 3), dtype=np.int64)
    folder = RunFolder.create(tmp_path / "run", {"wings": 2}, entities=["a"], relations=["r"], splits={"train": empty})
    assert folder.made_by() == version
    with pytest.raises(SettingsError, match=said) as caught:
        settings_of_run(folder)
    assert ("update" in str(caught.value)) == (version == "99.0")

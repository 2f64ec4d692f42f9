"""The reference of settings: every setting has a meaning, its range and its default."""

from __future__ import annotations

from typer.testing import CliRunner

from tuckerkg.cli.app import app
from tuckerkg.config.reference import described, reference_markdown, settings_reference
from tuckerkg.config.settings import DEFAULTS, Settings
from tuckerkg.nn.encoders.tgcn import TGCN


def test_every_setting_has_a_meaning():
    for entry in settings_reference():
        assert len(entry.meaning) > 10, entry
        assert entry.values, entry


def test_every_setting_is_there():
    keys = {entry.key for entry in settings_reference()}
    for section, values in Settings().as_dict().items():
        if section in ("phase", *DEFAULTS):
            continue
        names = [f"{section}.{key}" for key in values] if isinstance(values, dict) else [section]
        assert set(names) <= keys
    assert {"encoder.layers", "decoder.dropout", "loss.temperature", "batch.queries", "phase.messages"} <= keys


def test_options_stay_few():
    options = [entry for entry in settings_reference() if "." in entry.key and not entry.key.endswith(".name")]
    assert len(options) < 120


def test_ranges_and_defaults_come_from_the_code():
    found = {(entry.key, entry.of): entry for entry in settings_reference()}
    assert found["train.lr", ""].values == "number above 0"
    assert found["train.lr", ""].default == "0.003"
    assert found["encoder.dropout", "rgcn"].values == "number from 0 below 1"
    assert found["encoder.init", "tgcn"].values == "xavier, silent, identity"
    assert found["batch.remove_own_edges", "whole"].values == "true, false"
    assert found["phase.messages", ""].values == "number from 0 to 1"
    assert found["decoder.name", ""].default == "tucker"


def test_meanings_are_read_from_docstrings():
    assert described(TGCN)["bases"] == "rank of the CP core, n_b in Eq. (7); 0 is the full core of Eq. (3)."


def test_it_is_printed_and_written():
    shown = CliRunner().invoke(app, ["settings", "--explain"])
    assert shown.exit_code == 0
    assert "train.evaluate_every = 5.0" in shown.output
    assert "| `train.evaluate_every` | number above 0 | `5.0` |" in reference_markdown()

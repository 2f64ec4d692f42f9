"""What reports, the service and result files say a run is: encoder and decoder, or messages from the question."""

from __future__ import annotations

import json

import pytest
from graphs import toy_dataset
from typer.testing import CliRunner

from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.config.describe import component_names, describe_model
from tuckerkg.config.settings import Settings
from tuckerkg.config.toml import load_settings
from tuckerkg.paper.result_file import result_of
from tuckerkg.reports.html import write_report
from tuckerkg.reports.run_report import report_of
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.training.callbacks import NullCallback

SMALL = {"kind": "paths", "paths.width": 8, "paths.layers": 3, "train.steps": 12, "train.threads": 1}


@pytest.fixture(scope="module")
def path_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("paths") / "run"
    return api.train(toy_dataset(), out=out, overrides=SMALL, callback=NullCallback())


def invoke(*words: object, status: int = 0) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == status, found.output
    return found.output


def test_a_path_run_says_how_its_messages_go(path_run):
    assert path_run.describe() == {
        "model": "messages from the question",
        "layers": "3",
        "width": "8",
        "core": "CP, Eq. (7), relations as the question sees them",
        "hidden in training": "the fact that is asked for",
    }
    settings = load_settings(None, {"kind": "paths", "paths.core": "tucker", "paths.hide": "pair"})
    said = describe_model(settings)
    assert (said["core"], said["hidden in training"]) == ("full, Eq. (3)", "every edge between head and answer")


def test_a_run_with_embeddings_says_what_it_is_made_of(toy_run):
    assert toy_run.describe() == {"encoder": "none", "decoder": "tucker", "width": "8 (relations 8)"}
    assert describe_model(Settings(kind="blend")) == {}
    assert component_names(Settings(kind="blend")) == ("blend", "none")


def test_report_and_card_show_it_with_the_parameters(path_run, tmp_path):
    found = report_of(path_run)
    counts = path_run.counts()
    assert found.facts["model"] == "messages from the question"
    assert found.facts["parameters"] == f"{counts.efp + counts.nfp:,} (none of an entity)"
    assert not {"encoder", "decoder", "loss"} & set(found.facts)
    for name in ("page.html", "card.md"):
        write_report(found, tmp_path / name)
        assert "messages from the question" in (tmp_path / name).read_text()


def test_the_service_shows_it(path_run):
    engine = Engine(path_run)
    facts = engine.page.about.model
    engine.close()
    counts = path_run.counts()
    assert (facts["layers"], facts["core"]) == (3, "CP, Eq. (7), relations as the question sees them")
    assert facts["parameters"] == counts.efp + counts.nfp
    assert "encoder" not in facts


def test_a_result_file_names_the_kind(path_run):
    result = result_of(path_run, path_run.evaluate("valid"), path_run.evaluate("test"))
    assert (result["encoder"], result["decoder"], result["experiment"]) == ("paths", "none", "ring-paths")
    assert result["parameters"] == path_run.counts().as_dict()


def test_params_counts_a_path_model_and_says_what_of(path_run):
    words = ["params", "countries", "--set", "kind=paths", "--set", "paths.width=8"]
    counts = json.loads(invoke(*words, "--json"))
    assert counts["efp"] % 8 == 0
    said = invoke(*words)
    assert "entities have none" in said
    assert f"{counts['efp']:,}" in said
    assert "N d_e" in invoke("params", "countries")


def test_an_export_of_a_path_run_is_refused_in_words(path_run, tmp_path):
    found = CliRunner().invoke(app, ["export", str(path_run.path), str(tmp_path / "v.npz")])
    assert found.exit_code != 0
    assert "has no vectors, it scores each question by itself" in str(found.exception)
    assert not (tmp_path / "v.npz").exists()

"""Starting from another run: what is taken over, what counts, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from graphs import toy_dataset
from typer.testing import CliRunner

from tuckerkg import api
from tuckerkg.checkpoint import RunFolder
from tuckerkg.cli import app
from tuckerkg.config import load_settings
from tuckerkg.errors import SettingsError, TuckerkgError
from tuckerkg.run import load
from tuckerkg.training import Silent
from tuckerkg.warm import _paired, start_from

SMALL = {
    "model.dim": 8, "model.relation_dim": 8, "decoder.norm": False,
    "train.epochs": 6.0, "train.evaluate_every": 3.0, "train.threads": 1,
}  # fmt: skip
IDENTITY = {"encoder.start": "identity", "encoder.activation": "none", "train.lr": 1e-9}


@pytest.fixture(scope="module")
def decoder_alone(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("warm") / "alone"
    api.train(toy_dataset(), out=path, encoder="none", overrides={**SMALL, "train.lr": 0.03}, observer=Silent())
    return path


@pytest.mark.parametrize("output_norm", [True, False])
def test_an_identity_encoder_on_top_starts_exactly_where_the_decoder_ended(decoder_alone, tmp_path, output_norm):
    before = load(decoder_alone)
    run = api.train(
        toy_dataset(), out=tmp_path / "top", encoder="tgcn", observer=Silent(), start=decoder_alone,
        overrides={**SMALL, **IDENTITY, "encoder.output_norm": output_norm},
    )  # fmt: skip
    heads, relation_ids = torch.arange(5), torch.tensor([0, 1, 2, 3, 4])
    ours, theirs = (found.encoded.scores(heads, relation_ids) for found in (run, before))
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert run.metrics[0]["step"] == 0
    assert run.metrics[0]["valid"]["mrr"] == pytest.approx(before.state["best_mrr"])


def test_with_a_first_look_later_on_the_start_cannot_be_the_best(decoder_alone, tmp_path):
    run = api.train(
        toy_dataset(), out=tmp_path / "top", encoder="tgcn", observer=Silent(), start=decoder_alone,
        overrides={**SMALL, **IDENTITY, "train.evaluate_from": 3.0},
    )  # fmt: skip
    assert [look["epoch"] for look in run.metrics] == [3.0, 6.0]
    assert run.state["best_step"] > 0


@pytest.mark.parametrize("norm", [True, False])
def test_where_only_the_encoder_learns_the_rest_stays_bit_for_bit(tmp_path, norm):
    quick = {**SMALL, "decoder.norm": norm, "train.lr": 0.03}
    alone = api.train(toy_dataset(), out=tmp_path / "alone", encoder="none", overrides=quick, observer=Silent())
    run = api.train(
        toy_dataset(), out=tmp_path / "top", encoder="tgcn", observer=Silent(), start=alone.path,
        overrides={**IDENTITY, **quick, "train.evaluate_from": 3.0, "train.learns": "encoder"},
    )  # fmt: skip
    before, after = alone.folder.best().weights, run.folder.best().weights
    same = {name for name in after if name in before and torch.equal(before[name], after[name])}
    assert {name for name in before if not name.startswith("encoder.")} == same
    gain = after["encoder.layers.0.message_norm.weight"]
    assert gain.abs().min() > 0  # it starts at 0


def test_an_encoder_that_has_nothing_to_learn_cannot_be_all_that_learns():
    with pytest.raises(SettingsError, match=r"train\.learns.*nothing to learn"):
        load_settings(None, {"encoder": "none", "train.learns": "encoder"})


def test_the_minutes_before_count_and_the_origin_is_kept(decoder_alone, tmp_path):
    run = api.train(
        toy_dataset(), out=tmp_path / "on", encoder="none", overrides=SMALL, observer=Silent(), start=decoder_alone
    )
    former = RunFolder.open(decoder_alone).load()
    newest = run.folder.load()
    assert newest.state["minutes"] > former.state["minutes"]
    assert newest.state["started_from"] == "alone"
    assert run.metrics[0]["minutes"] >= former.state["minutes"] - 1e-4


def test_going_on_after_a_stop_does_not_need_the_former_run(decoder_alone, tmp_path):
    settings = load_settings(None, {**SMALL, "encoder": "none", "dataset": "ring"})
    folder = api.prepare(toy_dataset(), settings, tmp_path / "child")
    assert start_from(folder, RunFolder.open(decoder_alone)) == []
    assert api.resume(RunFolder.open(tmp_path / "child"), Silent()).metrics[0]["step"] == 0


@pytest.mark.parametrize(
    ("dataset", "changes", "said"),
    [
        (toy_dataset(), {"model.dim": 6, "model.relation_dim": 6}, "equal widths"),
        (toy_dataset(30), {}, "other entities"),
        (replace(toy_dataset(), valid=toy_dataset().test, test=toy_dataset().valid), {}, "another valid split"),
    ],
)
def test_other_widths_names_and_splits_are_refused(decoder_alone, tmp_path, dataset, changes, said):
    settings = load_settings(None, {**SMALL, "encoder": "none", "dataset": "ring", **changes})
    folder = api.prepare(dataset, settings, tmp_path / "child")
    with pytest.raises(TuckerkgError, match=said):
        start_from(folder, RunFolder.open(decoder_alone))


def test_an_experiment_that_goes_on_from_another_says_so_where_it_does_not(tmp_path):
    quick = [f"--set={key}={str(value).lower()}" for key, value in {**SMALL, "batch.queries": 2048}.items()]
    plain = ["train", "--encoder", "none", *quick]
    alone = CliRunner().invoke(app, [*plain, "--out", str(tmp_path / "a")])
    assert alone.exit_code == 0, alone.output
    assert "made to go on" not in alone.output
    named = [*plain, "--set=experiment=wn18rr-none-conve"]
    told = CliRunner().invoke(app, [*named, "--out", str(tmp_path / "b")])
    assert "made to go on from a run of wn18rr-none-complex" in " ".join(told.output.split())
    given = CliRunner().invoke(app, [*named, "--out", str(tmp_path / "c"), "--start-from", str(tmp_path / "a")])
    assert given.exit_code == 0, given.output
    assert "made to go on" not in given.output


def test_paired_tables_have_both_halves_side_by_side(decoder_alone, tmp_path):
    settings = load_settings(None, {**SMALL, "encoder": "none", "dataset": "ring", "train.start_tables": "paired"})
    folder = api.prepare(toy_dataset(), settings, tmp_path / "child")
    former = RunFolder.open(decoder_alone)
    start_from(folder, former)
    ours, theirs = folder.load().weights, former.best().weights
    for name in ("entities", "relations"):
        for place in range(4):
            assert torch.equal(ours[name][:, 2 * place], theirs[name][:, place])
            assert torch.equal(ours[name][:, 2 * place + 1], theirs[name][:, 4 + place])
    with pytest.raises(TuckerkgError, match="no two halves"):
        _paired(torch.zeros(2, 5))


def test_a_run_that_has_begun_is_not_overwritten(decoder_alone):
    with pytest.raises(TuckerkgError, match="already begun"):
        start_from(RunFolder.open(decoder_alone), RunFolder.open(decoder_alone))


def test_the_command_line_names_what_starts_afresh_and_refuses_a_folder_that_is_no_run(tmp_path):
    quick = [f"--set={key}={str(value).lower()}" for key, value in {**SMALL, "batch.queries": 2048}.items()]
    runner = CliRunner()
    alone = runner.invoke(app, ["train", "--encoder", "none", "--out", str(tmp_path / "a"), *quick])
    assert alone.exit_code == 0, alone.output
    told = runner.invoke(app, ["train", "--out", str(tmp_path / "b"), "--start-from", str(tmp_path / "a"), *quick])
    assert told.exit_code == 0, told.output
    assert "afresh: encoder.layers.0.bias" in told.output
    assert "start: valid MRR" in told.output
    assert "nan" not in told.output
    refused = runner.invoke(app, ["train", "--out", str(tmp_path / "c"), "--start-from", str(tmp_path / "no"), *quick])
    assert isinstance(refused.exception, TuckerkgError) or refused.exit_code == 2
    assert not (tmp_path / "c").exists()

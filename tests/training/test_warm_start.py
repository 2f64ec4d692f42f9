"""Starting from another run: what is taken over, what counts, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from graphs import toy_dataset
from typer.testing import CliRunner

from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.config.toml import load_settings
from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.run import load
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import NullCallback
from tuckerkg.training.warm_start import _interleaved, warm_start

SMALL = {
    "model.dim": 8, "model.relation_dim": 8, "decoder.norm": False,
    "train.epochs": 6.0, "train.evaluate_every": 3.0, "train.threads": 1,
}  # fmt: skip
IDENTITY = {"encoder.init": "identity", "encoder.activation": "none", "train.lr": 1e-9}


@pytest.fixture(scope="module")
def decoder_alone(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("warm") / "alone"
    api.train(toy_dataset(), out=path, encoder="none", overrides={**SMALL, "train.lr": 0.03}, callback=NullCallback())
    return path


@pytest.mark.parametrize("output_norm", [True, False])
def test_an_identity_encoder_on_top_starts_exactly_where_the_decoder_ended(decoder_alone, tmp_path, output_norm):
    before = load(decoder_alone)
    run = api.train(
        toy_dataset(), out=tmp_path / "top", encoder="tgcn", callback=NullCallback(), start=decoder_alone,
        overrides={**SMALL, **IDENTITY, "encoder.output_norm": output_norm},
    )  # fmt: skip
    heads, relation_ids = torch.arange(5), torch.tensor([0, 1, 2, 3, 4])
    ours, theirs = (found.scorer.scores(heads, relation_ids) for found in (run, before))
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert run.metrics[0]["step"] == 0
    assert run.metrics[0]["valid"]["mrr"] == pytest.approx(before.state["best_mrr"])


def test_with_a_first_look_later_on_the_start_cannot_be_the_best(decoder_alone, tmp_path):
    run = api.train(
        toy_dataset(), out=tmp_path / "top", encoder="tgcn", callback=NullCallback(), start=decoder_alone,
        overrides={**SMALL, **IDENTITY, "phase": [{"epochs": 3.0, "evaluate": False}, {}]},
    )  # fmt: skip
    assert [look["epoch"] for look in run.metrics] == [3.0, 6.0]
    assert run.state["best_step"] > 0


def test_the_minutes_before_count_and_the_origin_is_kept(decoder_alone, tmp_path):
    run = api.train(
        toy_dataset(),
        out=tmp_path / "on",
        encoder="none",
        overrides=SMALL,
        callback=NullCallback(),
        start=decoder_alone,
    )
    former = RunFolder.open(decoder_alone).checkpoints.newest()
    newest = run.folder.checkpoints.newest()
    assert newest.state["minutes"] > former.state["minutes"]
    assert newest.state["started_from"] == "alone"
    assert run.metrics[0]["minutes"] >= former.state["minutes"] - 1e-4


def test_going_on_after_a_stop_does_not_need_the_former_run(decoder_alone, tmp_path):
    settings = load_settings(None, {**SMALL, "encoder": "none", "dataset": "ring"})
    folder = api.prepare(toy_dataset(), settings, tmp_path / "child")
    assert warm_start(folder, RunFolder.open(decoder_alone)) == []
    assert api.resume(RunFolder.open(tmp_path / "child"), NullCallback()).metrics[0]["step"] == 0


def test_a_run_that_was_stopped_before_it_began_still_starts_where_its_settings_say(decoder_alone, tmp_path):
    settings = load_settings(None, {**SMALL, "encoder": "none", "dataset": "ring", "start": str(decoder_alone)})
    folder = api.prepare(toy_dataset(), settings, tmp_path / "child")
    assert folder.checkpoints.steps() == []
    run = api.resume(tmp_path / "child", NullCallback())
    assert run.state["started_from"] == "alone"
    assert run.metrics[0]["valid"]["mrr"] == pytest.approx(load(decoder_alone).state["best_mrr"])


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
        warm_start(folder, RunFolder.open(decoder_alone))


def test_settings_that_name_a_run_start_from_it_and_an_option_goes_first(tmp_path):
    quick = [f"--set={key}={str(value).lower()}" for key, value in {**SMALL, "batch.queries": 2048}.items()]
    plain = ["train", "--encoder", "none", *quick]
    alone = CliRunner().invoke(app, [*plain, "--out", str(tmp_path / "a")])
    assert alone.exit_code == 0, alone.output
    assert "starts from" not in alone.output
    (tmp_path / "on.toml").write_text(f'start = "{tmp_path / "a"}"\n')
    named = [*plain, "--settings", str(tmp_path / "on.toml")]
    told = CliRunner().invoke(app, [*named, "--out", str(tmp_path / "b")])
    assert f"starts from {tmp_path / 'a'}; initialized afresh: nothing" in told.output
    assert load(tmp_path / "b").metrics[0]["step"] == 0
    given = CliRunner().invoke(app, [*named, "--out", str(tmp_path / "c"), "--start-from", str(tmp_path / "b")])
    assert given.exit_code == 0, given.output
    assert f"starts from {tmp_path / 'b'};" in given.output


def test_an_experiment_that_starts_from_another_trains_that_first(tmp_path):
    quick = {**SMALL, "batch.queries": 2048, "train.seed": 3, "train.epochs": 2.0, "train.evaluate_every": 2.0}
    widths = "[model]\ndim = 8\nrelation_dim = 8\n[decoder]\nnorm = false\n[train]\nepochs = 1.0\n"
    (tmp_path / "first.toml").write_text(f'encoder = "none"\n{widths}')
    (tmp_path / "then.toml").write_text(f'encoder = "none"\nstart = "{tmp_path / "first.toml"}"\n')
    for turn in ("one", "two"):  # the second finds the first's run
        run = api.train(settings=tmp_path / "then.toml", out=tmp_path / turn, overrides=quick, callback=NullCallback())
        assert run.state["started_from"] == "first-seed3"
        former = load(tmp_path / "first-seed3")
        assert former.settings.train.seed == 3
        start = run.metrics[0]
        assert (start["step"], start["valid"]["mrr"]) == (0, pytest.approx(former.state["best_mrr"]))
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.is_dir()) == ["first-seed3", "one", "two"]


def test_interleaved_tables_have_both_halves_side_by_side(decoder_alone, tmp_path):
    settings = load_settings(None, {**SMALL, "encoder": "none", "dataset": "ring", "start.tables": "interleaved"})
    folder = api.prepare(toy_dataset(), settings, tmp_path / "child")
    former = RunFolder.open(decoder_alone)
    warm_start(folder, former)
    ours, theirs = folder.checkpoints.newest().weights, former.checkpoints.weights().weights
    for name in ("entities", "relations"):
        for place in range(4):
            assert torch.equal(ours[name][:, 2 * place], theirs[name][:, place])
            assert torch.equal(ours[name][:, 2 * place + 1], theirs[name][:, 4 + place])
    with pytest.raises(TuckerkgError, match="no two halves"):
        _interleaved(torch.zeros(2, 5))


def test_a_run_that_has_begun_is_not_overwritten(decoder_alone):
    with pytest.raises(TuckerkgError, match="already begun"):
        warm_start(RunFolder.open(decoder_alone), RunFolder.open(decoder_alone))


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


def test_an_experiment_on_another_graph_says_what_it_starts_from(tmp_path):
    told = CliRunner().invoke(
        app, ["train", "countries", "-s", "fb15k-237-tgcn-tucker", "--out", str(tmp_path / "run")]
    )
    assert "starts from the weights of fb15k-237-none-tucker, which is trained on fb15k-237, not on countries" in str(
        told.exception
    )
    assert not (tmp_path / "run").exists()

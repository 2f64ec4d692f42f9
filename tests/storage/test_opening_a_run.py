"""Opening a trained run: the best weights or an error, no optimizer, probabilities as they were stored."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from graphs import toy_dataset
from typer.testing import CliRunner

from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.errors import RunFolderError, TuckerkgError
from tuckerkg.inference import calibrating as inference
from tuckerkg.inference.adding.add_facts import add_facts
from tuckerkg.inference.run import load
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import NullCallback

SMALL = {
    "model.dim": 8, "model.relation_dim": 8, "train.epochs": 8.0, "train.evaluate_every": 1.0, "train.threads": 1,
    "train.lr": 0.5, "train.schedule": "constant", "encoder": "none", "batch.queries": 32,
}  # fmt: skip
QUESTION = ["--head", "e000", "--relation", "plus1", "--format", "json"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A run whose best checkpoint is not its newest: it learns in steps that are far too long."""
    out = tmp_path_factory.mktemp("opened") / "run"
    run = api.train(toy_dataset(), out=out, overrides=SMALL, callback=NullCallback())
    assert run.step < run.folder.checkpoints.steps()[-1], "choose other settings: here the last is the best"
    return out


@pytest.fixture
def path(trained, tmp_path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def checkpoint(path: Path, step: int) -> Path:
    return path / "checkpoints" / f"step-{step:08d}"


def best_step(path: Path) -> int:
    return int(json.loads((path / "best.json").read_bytes())["step"])


def test_the_best_weights_are_opened_unless_others_are_asked_for(path):
    best, newest = best_step(path), RunFolder.open(path).checkpoints.steps()[-1]
    assert load(path).step == load(path, checkpoint="best").step == load(path, checkpoint=best).step == best
    assert load(path, checkpoint="newest").step == load(path, checkpoint=newest).step == newest
    with pytest.raises(RunFolderError, match="no checkpoint of step 12345"):
        load(path, checkpoint=12345)
    assert load(path).metrics == RunFolder.open(path).metrics.rows()


@pytest.mark.parametrize("damage", ["cut", "changed", "missing", "gone"])
def test_damaged_best_weights_are_an_error_in_python(path, damage):
    best, newest = best_step(path), RunFolder.open(path).checkpoints.steps()[-1]
    file = checkpoint(path, best) / "weights.safetensors"
    if damage == "gone":
        shutil.rmtree(file.parent)
    elif damage == "missing":
        file.unlink()
    else:
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] if damage == "cut" else whole[:-1] + bytes([whole[-1] ^ 1]))
    named = "no checkpoint of step" if damage == "gone" else r"weights\.safetensors"
    with pytest.raises(RunFolderError, match=rf"{named}(.|\n)*It also has step .*{newest}.*--checkpoint STEP"):
        load(path)
    assert load(path, checkpoint="newest").step == newest
    assert load(path, checkpoint=newest).predict(head="e000", relation="plus1", k=3)


def test_damaged_best_weights_are_an_error_on_the_command_line(path):
    (checkpoint(path, best_step(path)) / "weights.safetensors").write_bytes(b"")
    words = [sys.executable, "-m", "tuckerkg", "predict", str(path), *QUESTION]
    refused = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "weights.safetensors" in refused.stderr
    assert "--checkpoint STEP" in refused.stderr
    assert "Traceback" not in refused.stderr
    newest = RunFolder.open(path).checkpoints.steps()[-1]
    for which in ("newest", str(newest)):
        shown = CliRunner().invoke(app, ["predict", str(path), *QUESTION, "--checkpoint", which])
        assert shown.exit_code == 0, shown.output
        assert json.loads(shown.stdout)
    wrong = CliRunner().invoke(app, ["predict", str(path), *QUESTION, "--checkpoint", "last"])
    assert "expected best, newest or the number of a step" in str(wrong.exception)


def test_a_note_of_the_best_step_that_is_lost_is_an_error(path):
    (path / "best.json").unlink()
    with pytest.raises(RunFolderError, match=r"best\.json: is missing"):
        load(path)
    assert load(path, checkpoint="newest")


def test_opening_a_run_reads_no_optimizer(path):
    expected = load(path).evaluate("test").mrr
    files = list(path.glob("checkpoints/*/optimizer.safetensors"))
    assert files
    for file in files:
        file.unlink()
    run = load(path)
    assert run.evaluate("test").mrr == expected
    assert run.predict(head="e000", relation="plus1", k=3)
    assert load(path, checkpoint="newest").score([("e000", "plus1", "e001")])
    assert CliRunner().invoke(app, ["predict", str(path), *QUESTION]).exit_code == 0
    with pytest.raises(RunFolderError, match=r"every checkpoint is damaged(.|\n)*optimizer\.safetensors missing"):
        api.resume(path, NullCallback())


def test_resuming_passes_over_a_damaged_newest_checkpoint_and_says_so(path, trained):
    said = []

    class Notes(NullCallback):
        def log(self, text):
            said.append(text)

    newest = RunFolder.open(path).checkpoints.steps()[-1]
    (checkpoint(path, newest) / "weights.safetensors").write_bytes(b"")
    run = api.resume(path, Notes())
    assert any("weights.safetensors" in text and "instead" in text for text in said)
    assert run.folder.checkpoints.steps()[-1] == newest
    assert run.evaluate("test").mrr == load(trained).evaluate("test").mrr


def test_opening_a_run_imports_nothing_of_training():
    code = (
        "import sys, tuckerkg.inference.run; "
        "print([name for name in sys.modules if name.startswith('tuckerkg.training')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


# ------------------------------------------------------------------------------------------ probabilities


def same(one, other):
    one, other = one.tensors(), other.tensors()
    return len(one) > 0 and one.keys() == other.keys() and all(torch.allclose(one[name], other[name]) for name in one)


def no_fit(*_):
    raise AssertionError("fitted again")


def test_probabilities_are_fitted_at_the_end_of_training_and_read_afterwards(path, monkeypatch):
    stored = [entry.name for entry in (path / "calibration").iterdir()]
    assert stored == [f"step-{best_step(path):08d}-version-0001-joined"]
    run = load(path)
    fitted = inference.fit_calibration(run.scorer, run.split("train"), run.split("valid"), len(run.split("test")))
    monkeypatch.setattr(inference, "fit_calibration", no_fit)
    found = load(path).calibration
    assert same(found, fitted)
    assert load(path).predict(head="e000", relation="plus1", k=3)


def test_plain_sigmoids_read_and_store_nothing(path, monkeypatch):
    shutil.rmtree(path / "calibration")
    monkeypatch.setattr(inference, "fit_calibration", no_fit)
    run = load(path, calibrated=False)
    assert run.predict(head="e000", relation="plus1", k=3)
    assert not (path / "calibration").exists()


def test_every_checkpoint_and_version_has_probabilities_of_its_own(path, tmp_path, monkeypatch):
    newest = RunFolder.open(path).checkpoints.steps()[-1]
    of_newest = load(path, checkpoint="newest").calibration
    (tmp_path / "new.tsv").write_text("fresh\tplus1\te005\nfresh\tplus2\te006\n")
    add_facts(load(path), tmp_path / "new.tsv", steps=1)
    of_added = load(path).calibration
    stored = sorted(entry.name for entry in (path / "calibration").iterdir())
    best = best_step(path)
    expected = [(best, 1), (best, 2), (newest, 1)]
    assert stored == sorted(f"step-{step:08d}-version-{version:04d}-joined" for step, version in expected)
    monkeypatch.setattr(inference, "fit_calibration", no_fit)
    assert same(load(path, checkpoint="newest", version=1).calibration, of_newest)
    assert same(load(path).calibration, of_added)


def test_stored_probabilities_that_are_damaged_are_an_error(path):
    file = next((path / "calibration").glob("*/calibration.safetensors"))
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(RunFolderError, match=r"calibration\.safetensors.*cut"):
        load(path).predict(head="e000", relation="plus1", k=3)
    assert load(path, calibrated=False).predict(head="e000", relation="plus1", k=3)


def test_probabilities_that_cannot_be_stored_are_fitted_each_time(path, monkeypatch):
    expected = load(path).calibration
    shutil.rmtree(path / "calibration")
    (path / "calibration").write_text("in the way")
    assert same(load(path).calibration, expected)
    assert (path / "calibration").read_text() == "in the way"


def test_evaluating_in_python_writes_nothing_and_the_verb_writes_a_file(path):
    before = sorted(entry.name for entry in path.iterdir())
    load(path).evaluate("valid")
    assert sorted(entry.name for entry in path.iterdir()) == before
    shown = CliRunner().invoke(app, ["evaluate", str(path), "--split", "valid", "--json"])
    assert shown.exit_code == 0, shown.output
    stored = json.loads((path / "evaluation-valid.json").read_text(encoding="utf-8"))
    assert stored["mrr"] == json.loads(shown.stdout)["mrr"]
    assert stored["step"] == best_step(path)


def test_a_run_from_before_there_were_kinds_opens_with_the_same_scores(path):
    questions = torch.arange(4), torch.tensor([0, 1, 2, 3])
    before = load(path).scorer.scores(*questions)
    stored = json.loads((path / "settings.json").read_bytes())
    assert stored.pop("kind") == "embedding"
    (path / "settings.json").write_text(json.dumps(stored))
    opened = load(path)
    assert opened.settings.kind == "embedding"
    assert torch.equal(opened.scorer.scores(*questions), before)
    resumed = api.train_experiment(opened.settings, path, callback=NullCallback())  # the same settings, one unsaid
    assert torch.equal(resumed.scorer.scores(*questions), before)
    other = opened.settings.model_copy(update={"experiment": "another"})
    with pytest.raises(TuckerkgError, match="other settings than another has now"):
        api.train_experiment(other, path, callback=NullCallback())


def test_probabilities_of_an_earlier_version_are_fitted_again(path):
    expected = load(path).calibration
    folder = RunFolder.open(path)
    fewer = expected.tensors() | {"both.means": expected.tensors()["both.means"][:-1]}
    folder.store_calibration(load(path).step, 1, fewer)
    assert same(load(path).calibration, expected)

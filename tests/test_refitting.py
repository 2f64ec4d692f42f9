"""A refit: trained on all facts with the settings and epochs that validation chose, figures of the run before kept."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from small_runs import At, Crash, crash, digest
from typer.testing import CliRunner

import tuckerkg
from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.errors import RunFolderError, TuckerkgError
from tuckerkg.refitting import prepare_refit
from tuckerkg.reports.html import report
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import NullCallback

SHORT = {"train.threads": 1, "train.evaluate_every": 2.0, "train.epochs": 8.0, "train.lr": 0.02}
SMALL = {**SHORT, "model.dim": 8, "model.relation_dim": 8, "batch.queries": 16}
KINDS = {
    "embedding": {**SMALL, "encoder": "none"},
    "paths": {**SHORT, "kind": "paths", "paths.width": 8, "paths.layers": 3, "paths.questions": 8},
}
SPLITS = ("train", "valid", "test")
EVERYTHING = np.unique(np.concatenate([toy_dataset().split(name) for name in SPLITS]), axis=0)


def trained(path, **changes):
    return api.train(toy_dataset(), out=path, overrides=changes, callback=NullCallback())


def refitted(run, out):
    return tuckerkg.refit(run, out=out, callback=NullCallback())


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each kind and a blend of both, each with its refit."""
    place = tmp_path_factory.mktemp("refits")
    for kind, changes in KINDS.items():
        trained(place / kind, **changes)
    tuckerkg.blend([place / kind for kind in KINDS], out=place / "blend")
    for name in (*KINDS, "blend"):
        refitted(place / name, place / f"{name}-refit")
    return place


def shown(*words: object, status: int = 0) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == status, found.output
    return found.output


# --------------------------------------------------------------------------------------------------- what is trained


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_trained_on_all_facts_for_the_epochs_that_validation_chose(runs, kind):
    before, run = tuckerkg.load(runs / kind), tuckerkg.load(runs / f"{kind}-refit")
    assert np.array_equal(run.split("train"), EVERYTHING)
    assert (len(run.split("valid")), len(run.split("test"))) == (0, 0)
    chosen = next(row["epoch"] for row in before.metrics if row["step"] == before.step)
    assert run.settings.train.epochs == pytest.approx(chosen)
    per_epoch = run.metrics[-1]["step"] / run.metrics[-1]["epoch"]
    assert per_epoch > before.metrics[-1]["step"] / before.metrics[-1]["epoch"]  # there are more facts
    assert run.step == round(chosen * per_epoch)
    assert run.state["best_mrr"] is None
    changed = before.settings.train.model_copy(update={"epochs": run.settings.train.epochs})
    assert run.settings == before.settings.model_copy(update={"train": changed})


@pytest.mark.parametrize("kind", KINDS)
def test_its_weights_are_those_of_a_training_on_all_facts(runs, kind, tmp_path):
    run = tuckerkg.load(runs / f"{kind}-refit")
    data = tuckerkg.Dataset.from_triples(
        [[run.entities.labels[h], run.relations.labels[r], run.entities.labels[t]] for h, r, t in EVERYTHING],
        split=None,
    )
    assert list(data.entities.labels) == list(run.entities.labels)
    plain = api.resume(api.prepare(data, run.settings, tmp_path / "plain"), NullCallback())
    for name, tensor in run.folder.checkpoints.weights().weights.items():
        assert torch.equal(tensor, plain.folder.checkpoints.weights().weights[name])


def test_a_number_of_steps_becomes_epochs(tmp_path):
    before = trained(tmp_path / "a", **{**KINDS["embedding"], "train.steps": 21, "train.evaluate_every": 100.0})
    run = refitted(before, tmp_path / "b")
    assert (before.step, run.settings.train.steps) == (21, 0)
    assert run.settings.train.epochs == pytest.approx(before.metrics[-1]["epoch"])


def test_added_facts_and_entities_are_trained_on_too(runs, tmp_path):
    shutil.copytree(runs / "embedding", tmp_path / "run")
    added = tuckerkg.load(tmp_path / "run").add([("fresh", "plus1", "e005"), ("e003", "plus1", "fresh")])
    run = refitted(added, tmp_path / "refit")
    assert len(run.split("train")) == len(EVERYTHING) + 2
    assert run.version == 1
    assert "fresh" in run.entities.labels
    assert run.refit_of.triples == {split: len(toy_dataset().split(split)) for split in SPLITS}
    assert run.refit_of.evaluations["test"] == tuckerkg.load(runs / "embedding-refit").refit_of.evaluations["test"]
    again = run.add([("newer", "plus1", "fresh")])
    third = refitted(again, tmp_path / "third")
    assert len(third.split("train")) == len(EVERYTHING) + 3
    assert third.refit_of.name == "run"


# --------------------------------------------------------------------------------------------------- what is kept


@pytest.mark.parametrize("name", [*KINDS, "blend"])
def test_figures_and_probabilities_are_those_of_the_run_before(runs, name):
    before, run = tuckerkg.load(runs / name), tuckerkg.load(runs / f"{name}-refit")
    kept = run.refit_of
    assert (kept.name, kept.step, kept.best_mrr) == (name, before.step, before.state["best_mrr"])
    assert kept.triples == {split: len(before.split(split)) for split in SPLITS}
    assert kept.metrics == before.metrics
    assert kept.evaluations["test"]["mrr"] == pytest.approx(before.evaluate("test").mrr)
    assert run.curve == before.curve
    assert before.refit_of is None
    for ours, theirs in zip(run.calibration.tensors().values(), before.calibration.tensors().values(), strict=True):
        assert torch.equal(ours, theirs)
    assert not (run.path / "calibration").exists()


def test_nothing_is_held_out_of_it(runs):
    run = tuckerkg.load(runs / "paths-refit")
    with pytest.raises(RunFolderError, match=r"is a refit of paths, trained on all facts, .* held out as test"):
        run.evaluate("test")
    assert run.evaluate("train").mrr > 0
    with pytest.raises(RunFolderError, match="refit of paths"):
        run.reliability("valid")
    with pytest.raises(TuckerkgError, match="has no validation triples, and weights are fitted on them"):
        tuckerkg.blend([runs / "paths-refit", runs / "embedding-refit"], out=runs / "never")


def test_evaluate_shows_the_figures_of_the_run_before(runs):
    before = tuckerkg.load(runs / "paths")
    said = shown("evaluate", runs / "paths-refit")
    assert "is a refit of paths, trained on all facts" in said
    assert "paths: test split" in said
    assert f"{before.evaluate('test').mrr:.4f}" in said
    assert f"best validation MRR {before.state['best_mrr']:.4f}" in said
    found = json.loads(shown("evaluate", runs / "paths-refit", "--json"))["refit_of"]
    assert (found["name"], found["step"]) == ("paths", before.step)
    assert "relations" in found["evaluations"]["test"]
    assert "train split" in shown("evaluate", runs / "paths-refit", "--split", "train")


@pytest.mark.parametrize("ending", ["html", "md"])
def test_report_and_card_mark_them_as_those_of_the_run_before(runs, ending, tmp_path):
    report(runs / "blend-refit", tmp_path / f"page.{ending}")
    text = (tmp_path / f"page.{ending}").read_text()
    assert "trained on all facts, so nothing was held out" in text
    assert "test split of blend" in text
    assert f"{tuckerkg.load(runs / 'blend').evaluate('test').mrr:.4f}" in text


def test_the_service_shows_them(runs):
    engine = Engine(tuckerkg.load(runs / "embedding-refit"))
    about = engine.page.about
    engine.close()
    assert about.model["refit of"].startswith("embedding, whose figures are shown")
    assert about.test["mrr"] == pytest.approx(tuckerkg.load(runs / "embedding").evaluate("test").mrr)
    assert len(about.curve) == len(tuckerkg.load(runs / "embedding").metrics)
    assert about.calibration is None
    assert "probabilities" not in about.model


# --------------------------------------------------------------------------------------------------- blends


def test_of_a_blend_every_member_is_trained_again_and_its_weights_stay(runs):
    before, run = tuckerkg.load(runs / "blend"), tuckerkg.load(runs / "blend-refit")
    assert torch.equal(run.blend_weights, before.blend_weights)
    assert run.member_names == before.member_names
    assert run.state["best_mrr"] is None
    for place, kind in enumerate(KINDS):
        member, alone = run.members[place], tuckerkg.load(runs / f"{kind}-refit")
        assert np.array_equal(member.split("train"), EVERYTHING)
        for name, tensor in member.folder.checkpoints.weights().weights.items():
            assert torch.equal(tensor, alone.folder.checkpoints.weights().weights[name])
    assert len(run.predict("e000", "plus1", k=3, typed=False)) == 3
    assert len(run.retrieval(ask=3, typed=False).top_missing(2)) == 2
    assert tuckerkg.load(run.path).state["minutes"] > 0


def test_an_interrupted_refit_of_a_blend_goes_on_where_it_was(runs, tmp_path):
    folder = prepare_refit(tuckerkg.load(runs / "blend"), tmp_path / "cut")
    total = sum(tuckerkg.load(runs / f"{kind}-refit").step for kind in KINDS)

    class Second(NullCallback):
        done = 0

        def stepped(self, step, loss, lr):
            self.done += 1
            if self.done == total - 3:
                raise Crash

    with pytest.raises(Crash):
        api.resume(folder, Second())
    with pytest.raises(RunFolderError, match="has no checkpoint yet"):
        tuckerkg.load(tmp_path / "cut")
    api.resume(tmp_path / "cut", NullCallback())
    whole, cut = (RunFolder.open(place) for place in (runs / "blend-refit", tmp_path / "cut"))
    for number in ("0", "1"):
        members = [digest(RunFolder.open(each.path / "members" / number)) for each in (whole, cut)]
        assert members[0] == members[1]
    asked = torch.arange(12), torch.arange(12) % 6
    assert torch.equal(tuckerkg.load(cut.path).scorer.scores(*asked), tuckerkg.load(whole.path).scorer.scores(*asked))
    assert api.resume(cut.path, NullCallback()).step == 0  # complete: nothing is trained again


# --------------------------------------------------------------------------------------------------- resume, warm start


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_refit_is_resumed_bit_for_bit(runs, kind, tmp_path):
    with pytest.raises(Crash):
        tuckerkg.refit(runs / kind, out=tmp_path / "run", callback=At(5, crash))
    shown("train", "--resume", tmp_path / "run")
    assert digest(RunFolder.open(tmp_path / "run")) == digest(RunFolder.open(runs / f"{kind}-refit"))
    assert tuckerkg.load(tmp_path / "run").refit_of.name == kind


def test_what_a_run_started_from_is_trained_on_all_facts_first(runs, tmp_path):
    shutil.copytree(runs / "embedding", tmp_path / "first")
    changes = {**SMALL, "encoder": "tgcn", "train.lr": 0.05}
    run = api.train(
        toy_dataset(), out=tmp_path / "second", overrides=changes, callback=NullCallback(), start=tmp_path / "first"
    )
    assert run.step > 0
    again = refitted(run, tmp_path / "refit")
    assert again.settings.start.run == str((tmp_path / "refit-start").resolve())
    start = tuckerkg.load(tmp_path / "refit-start")
    assert start.refit_of.name == "first"
    assert again.state["started_from"] == "refit-start"
    shutil.rmtree(tmp_path / "first")
    with pytest.raises(TuckerkgError, match="first, which has to be trained on all facts first"):
        refitted(run, tmp_path / "other")


def test_where_validation_chose_the_start_that_run_is_named(runs, tmp_path):
    shutil.copytree(runs / "embedding", tmp_path / "first")
    changes = {**SMALL, "encoder": "tgcn", "train.lr": 1e-9, "train.epochs": 1.0}
    run = api.train(
        toy_dataset(), out=tmp_path / "second", overrides=changes, callback=NullCallback(), start=tmp_path / "first"
    )
    assert run.step == 0
    with pytest.raises(TuckerkgError, match="validation chose the weights that it started from, those of first"):
        refitted(run, tmp_path / "refit")
    assert not (tmp_path / "refit-start").exists()


# --------------------------------------------------------------------------------------------------- how it is reached


def test_what_cannot_be_refitted_is_refused_in_words(runs, tmp_path):
    with pytest.raises(TuckerkgError, match="is the refit of paths already, nothing is left to train on"):
        refitted(runs / "paths-refit", tmp_path / "again")
    with pytest.raises(RunFolderError, match="already holds a run"):
        refitted(runs / "paths", runs / "embedding")
    elsewhere = tuckerkg.load(runs / "paths").on([("x", "plus1", "y"), ("y", "plus1", "z")])
    with pytest.raises(TuckerkgError, match="refit the run itself"):
        refitted(elsewhere, tmp_path / "again")
    facts = tuckerkg.Dataset.from_triples([("a", "r", "b"), ("b", "r", "c")], split=None)
    whole = api.train(facts, out=tmp_path / "whole", overrides={**SMALL, "train.steps": 2}, callback=NullCallback())
    with pytest.raises(TuckerkgError, match="nothing was held out of it, so it is trained on all facts already"):
        refitted(whole, tmp_path / "again")
    again = api.train(facts, overrides={**SMALL, "train.steps": 2}, callback=NullCallback(), refit=True)
    assert again.refit_of is None
    assert not (tmp_path / "again").exists()


def test_train_refits_when_it_is_done(tmp_path, runs):
    changes = KINDS["embedding"]
    run = api.train(toy_dataset(), out=tmp_path / "run", overrides=changes, callback=NullCallback(), refit=True)
    assert run.path == tmp_path / "run-refit"
    assert run.refit_of.name == "run"
    assert digest(run.folder) == digest(RunFolder.open(runs / "embedding-refit"))
    (tmp_path / "taken-refit").mkdir()
    (tmp_path / "taken-refit" / "notes.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="taken-refit: is not empty"):
        api.train(toy_dataset(), out=tmp_path / "taken", overrides=changes, callback=NullCallback(), refit=True)
    assert not (tmp_path / "taken").exists()
    temporary = api.train(toy_dataset(), overrides=changes, callback=NullCallback(), refit=True)
    assert temporary.refit_of.name == "run"


def test_the_verbs(tmp_path):
    facts = "".join(f"e{i % 12}\tnext\te{(i * i + 1) % 12}\ne{i}\tlike\te{(i + 5) % 12}\n" for i in range(12))
    (tmp_path / "facts.tsv").write_text(facts)
    small = [word for name in ("model.dim=4", "model.relation_dim=4", "train.threads=1") for word in ("--set", name)]
    words = ["train", tmp_path / "facts.tsv", "--encoder", "none", *small, "--set", "train.epochs=2.0"]
    said = shown(*words, "--out", tmp_path / "run", "--refit")
    assert "best validation MRR" in said
    assert "trained on all facts, those too that run was measured on: the last weights are taken" in said
    assert f"next: tuckerkg predict {tmp_path / 'run-refit'} --top-missing 20" in said
    assert tuckerkg.load(tmp_path / "run-refit").refit_of.name == "run"
    said = shown("refit", tmp_path / "run", "--out", tmp_path / "production")
    assert f"saved in {tmp_path / 'production'}" in said
    assert "e1" in shown("predict", tmp_path / "production", "--top-missing", 5, "--untyped")
    again = shown("train", "--resume", tmp_path / "run", "--refit")  # both are complete
    assert f"saved in {tmp_path / 'run-refit'}" in again


def test_what_is_chosen_without_a_flag_is_refitted(tmp_path):
    facts = "".join(f"e{i % 15}\tnext\te{(i * i + 1) % 15}\ne{i}\tlike\te{(i + 5) % 15}\n" for i in range(15))
    (tmp_path / "facts.tsv").write_text(facts)
    said = shown("train", tmp_path / "facts.tsv", "--minutes", 0.1, "--out", tmp_path / "run", "--refit")
    assert "trained on all facts, those too that run was measured on" in said
    run = tuckerkg.load(tmp_path / "run-refit")
    assert run.refit_of.name == "run"
    assert len(run.split("train")) == sum(run.refit_of.triples.values())
    assert len(run.predict("e0", "like", k=2, typed=False)) == 2


def test_train_says_where_there_is_nothing_to_refit_on(tmp_path):
    (tmp_path / "facts.tsv").write_text("a\tr\tb\nb\tr\tc\n")
    words = ["train", tmp_path / "facts.tsv", "--set", "kind=paths", "--set", "train.steps=2"]
    words += ["--out", tmp_path / "run"]
    assert "nothing was held out of it, so it is trained on all facts already" in shown(*words, "--refit")
    assert not (tmp_path / "run-refit").exists()

"""A search: on validation alone, every trial on record, one that was cut off goes on from its checkpoint."""

from __future__ import annotations

import json
import sys

import pytest

from tuckerkg.config.toml import load_settings
from tuckerkg.data.load import load
from tuckerkg.errors import NonFiniteError, SettingsError, TuckerkgError
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.loop import fit
from tuckerkg.tuning.search import Search
from tuckerkg.tuning.spaces import Space, load_space, some_value, space_files
from tuckerkg.tuning.tune import tune

SMALL = {
    "model.dim": 8,
    "model.relation_dim": 8,
    "train.epochs": 2.0,
    "train.evaluate_every": 1.0,
    "batch.queries": 512,
}
LR = Space(name="lr", sampler="random", vary={"train.lr": [0.001, 0.01, 0.03]})


@pytest.fixture(scope="module")
def countries():
    return load("countries")


def search(countries, folder, space=LR):
    return Search("countries-tgcn-tucker", space, countries, folder, SMALL)


def test_every_trial_is_on_record_best_first(countries, tmp_path):
    told = []
    found = search(countries, tmp_path).run(3, log=told.append)
    assert [trial.mrr for trial in found] == sorted((trial.mrr for trial in found), reverse=True)
    assert len(found) == len(told) == 3
    stored = json.loads((tmp_path / "study.json").read_text(encoding="utf-8"))
    assert stored["trials"] == [trial.as_dict() for trial in found]
    assert {trial.settings["train.lr"] for trial in found} <= {0.001, 0.01, 0.03}
    assert not list(tmp_path.glob("trial-*")), "run folders of finished trials are removed"


def test_a_second_run_goes_on_with_the_study(countries, tmp_path):
    first = search(countries, tmp_path).run(1)
    both = search(countries, tmp_path).run(2)
    assert len(both) == 2
    assert first[0] in both


def test_the_test_split_stays_closed(countries, tmp_path, monkeypatch):
    opened = RunFolder.split

    def only_train_and_valid(folder, name):
        assert name != "test"
        return opened(folder, name)

    monkeypatch.setattr(RunFolder, "split", only_train_and_valid)
    assert search(countries, tmp_path).run(1)[0].state == "complete"


def test_a_trial_that_was_cut_off_goes_on_from_its_checkpoint(countries, tmp_path, monkeypatch):
    class CutOff(Exception):
        """As if the process had died."""

    looks = []

    def dies_after_the_first_look(folder, callback):
        told = callback.validated

        def validated(epoch, evaluation, is_best):
            told(epoch, evaluation, is_best)
            looks.append(epoch)
            if len(looks) == 2:
                raise CutOff

        callback.validated = validated
        return fit(folder, callback)

    monkeypatch.setattr("tuckerkg.tuning.search.fit", dies_after_the_first_look)
    with pytest.raises(CutOff):
        search(countries, tmp_path).run(1)
    assert len(list(tmp_path.glob("trial-*"))) == 1
    found = search(countries, tmp_path).run(1)
    assert [trial.state for trial in found] == ["complete"]
    assert looks[2] > looks[0], "epochs that were saved are not trained again"


def test_a_trial_in_the_hands_of_another_process_is_left_to_it(countries, tmp_path, monkeypatch):
    class CutOff(Exception):
        """Ends the first trial in its middle."""

    def held_meanwhile(folder, callback):
        with folder.lock():
            search(countries, tmp_path)._take_up()
        raise CutOff

    monkeypatch.setattr("tuckerkg.tuning.search.fit", held_meanwhile)
    with pytest.raises(CutOff):
        search(countries, tmp_path).run(1)
    assert [trial.state for trial in search(countries, tmp_path).trials()] == ["unfinished"]


def test_a_diverged_trial_is_told_and_does_not_stop_the_search(countries, tmp_path, monkeypatch):
    def diverges(folder, callback):
        raise NonFiniteError("step 3: loss nan")

    monkeypatch.setattr("tuckerkg.tuning.search.fit", diverges)
    assert search(countries, tmp_path).run(1)[0].state == "diverged"


def test_unknown_settings_are_refused_before_anything_is_written(countries, tmp_path):
    space = Space(vary={"train.lrr": [0.1]})
    with pytest.raises(SettingsError, match=r"train\.lrr"):
        search(countries, tmp_path / "study", space)
    assert not (tmp_path / "study").exists()


def test_without_optuna_the_message_says_what_to_install(countries, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(TuckerkgError, match=r"tuckerkg\[tune\]"):
        search(countries, tmp_path)


@pytest.mark.parametrize("file", space_files(), ids=lambda file: file.stem)
def test_shipped_spaces_fit_the_shipped_experiments(file):
    space = load_space(file.stem)
    values = {key: some_value(choice) for key, choice in space.vary.items()}
    assert load_settings("paper-fb15k-237-tgcn-tucker", {**space.fixed, **values})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[vary]\n", "at least 1"),
        ('[vary]\n"train.lr" = { low = 2.0, high = 1.0 }\n', "low < high"),
        ('[vary]\n"train.lr" = { low = 0.0, high = 1.0, log = true }\n', "low > 0"),
        ('sampler = "grid"\n[vary]\n"train.lr" = [1.0]\n', "tpe"),
        ("[vary\n", "not valid TOML"),
    ],
)
def test_a_bad_space_is_refused_with_file_and_cause(tmp_path, text, said):
    path = tmp_path / "space.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=said) as error:
        load_space(path)
    assert str(path) in str(error.value)


def test_a_space_that_does_not_exist_names_the_nearest(tmp_path):
    with pytest.raises(SettingsError, match="tucker"):
        load_space("tuckr")


def test_any_dataset_and_a_mapping_make_a_study(countries, tmp_path):
    study = tune(countries, {"train.lr": [0.01, 0.02]}, trials=2, folder=tmp_path / "study", overrides=SMALL)
    assert len(study.trials) == 2
    assert study.best.mrr == max(trial.mrr for trial in study.trials)
    assert "<table>" in study._repr_html_()
    by_name = tune("countries", LR, trials=1, folder=tmp_path / "named", overrides=SMALL)
    assert by_name.trials[0].state == "complete"
    rows = [f"a{i}\tr{i % 2}\ta{i * 7 % 23}" for i in range(60)]
    (tmp_path / "my.tsv").write_text("\n".join(rows) + "\n")
    by_path = tune(tmp_path / "my.tsv", LR, trials=1, folder=tmp_path / "own", overrides=SMALL)
    assert by_path.trials[0].state == "complete"


def test_trials_start_where_the_settings_say(countries, tmp_path):
    from tuckerkg import api
    from tuckerkg.training.callbacks import NullCallback

    alone = api.train(countries, encoder="none", overrides=SMALL, out=tmp_path / "alone", callback=NullCallback())
    trained = alone.state["best_mrr"]
    fixed = {**SMALL, "encoder": "none", "start.run": str(alone.path), "train.steps": 1}
    study = tune(countries, {"train.lr": [1e-9]}, trials=1, folder=tmp_path / "study", overrides=fixed)
    assert study.best.mrr == pytest.approx(trained, abs=1e-3)

"""Rows of the paper's tables: each seed is run once, what was begun goes on, verdicts follow from the figures."""

from __future__ import annotations

import json
import signal

import pytest

from tuckerkg.api import count_parameters
from tuckerkg.config.toml import experiment_files, experiment_name
from tuckerkg.errors import TuckerkgError, UnknownNameError
from tuckerkg.paper import reproduce as module
from tuckerkg.paper import rows as paper
from tuckerkg.paper.reproduce import Outcome, outcome, reproduce
from tuckerkg.paper.result_file import result_path
from tuckerkg.paper.rows import Row, choose_rows, paper_rows, runnable
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import NullCallback
from tuckerkg.training.signals import TrainingInterrupted

TINY = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 2.0, "train.evaluate_every": 1.0, "batch.queries": 512}


def tiny_row(**more):
    given = {"seeds": (0, 1), "paper": (0.9,), "base": "countries-tgcn-tucker", "set": TINY} | more
    return Row(table="main", name="countries-tiny", system="tiny", dim=8, **given)


def run(rows, tmp_path, callback=NullCallback, **more):
    """What is found, and the run folders that were worked on, in their order."""
    told = []
    where = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    found = reproduce(rows, **where, callback=callback, log=told.append, **more)
    return found, [text.partition(":")[0] for text in told if "starts in" in text or "resumes in" in text]


def test_every_seed_is_run_once_and_what_is_finished_is_kept(tmp_path):
    found, began = run([tiny_row()], tmp_path)
    assert began == ["countries-tiny-seed0", "countries-tiny-seed1"]
    again, began = run([tiny_row()], tmp_path)
    assert began == []
    assert again == found
    first, second = found[0].results
    assert (first["seed"], second["seed"]) == (0, 1)
    assert found[0].mean() == pytest.approx((first["test"]["mrr"] + second["test"]["mrr"]) / 2)
    assert found[0].by_messages == pytest.approx(
        sum(result["test"]["mrr"] - result["test_without_messages"]["mrr"] for result in found[0].results) / 2
    )


def test_some_seeds_can_be_left_for_later(tmp_path):
    found, began = run([tiny_row()], tmp_path, only_seeds=[1])
    assert began == ["countries-tiny-seed1"]
    assert found[0].verdict == "below, 1 of 2 seeds"


def test_a_run_that_was_begun_goes_on(tmp_path):
    class Stops(NullCallback):
        def validated(self, epoch, evaluation, is_best):
            raise TrainingInterrupted(signal.SIGTERM)

    row = tiny_row(seeds=(0,))
    with pytest.raises(TrainingInterrupted):
        run([row], tmp_path, Stops)
    first_steps = []

    class Watches(NullCallback):
        def started(self, state, total_steps, steps_per_epoch):
            first_steps.append(state.step)

    found, _ = run([row], tmp_path, Watches)
    assert first_steps[0] > 0
    assert len(found[0].results) == 1


def test_changed_settings_are_told_and_never_mixed(tmp_path, capsys):
    run([tiny_row(seeds=(0,))], tmp_path)
    changed = tiny_row(seeds=(0,), set={**TINY, "train.lr": 0.02})
    reproduce(
        [changed],
        results=tmp_path / "results",
        runs=tmp_path / "runs",
        callback=NullCallback,
        log=print,
    )
    assert "settings have changed" in capsys.readouterr().out
    result_path(tmp_path / "results", "countries-tiny", 0).unlink()
    with pytest.raises(TuckerkgError, match="other settings"):
        run([changed], tmp_path)


def test_options_that_are_newer_than_a_result_have_their_defaults(tmp_path, capsys):
    run([tiny_row(seeds=(0,))], tmp_path)
    path = result_path(tmp_path / "results", "countries-tiny", 0)
    stored = json.loads(path.read_text(encoding="utf-8"))
    del stored["options"]["loss"]["temperature"], stored["options"]["model"]["bias"]
    path.write_text(json.dumps(stored), encoding="utf-8")
    told = []
    where = {"results": tmp_path / "results", "runs": tmp_path / "runs"}
    reproduce([tiny_row(seeds=(0,))], **where, callback=NullCallback, log=told.append)
    assert told == []


def test_a_row_goes_on_from_the_run_of_another_experiment(tmp_path):
    alone = tmp_path / "countries-alone.toml"
    widths, steps = "dim = 8\nrelation_dim = 8\n", "epochs = 2.0\nevaluate_every = 1.0\n"
    alone.write_text(f'encoder = "none"\n[model]\n{widths}[batch]\nqueries = 512\n[train]\n{steps}', encoding="utf-8")
    row = tiny_row(seeds=(0,), set={**TINY, "start": str(alone)})
    assert row.start == str(alone)
    found, began = run([row], tmp_path)
    assert sorted(began) == ["countries-alone-seed0", "countries-tiny-seed0"]
    result = found[0].results[0]
    assert result["started_from"] == "countries-alone-seed0"
    before = RunFolder.open(tmp_path / "runs" / "countries-alone-seed0").checkpoints.weights("newest")
    assert result["minutes"] > before.state["minutes"]
    assert run([row], tmp_path)[1] == []


def test_a_row_can_stand_for_another_and_is_run_once(tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "row_named", {"countries-tiny": tiny_row()}.get)
    twin = Row(table="main", name="countries-twin", system="twin", dim=8, same="countries-tiny")
    found, began = run([twin, tiny_row()], tmp_path)
    assert began == ["countries-tiny-seed0", "countries-tiny-seed1"]
    assert found[0].results == found[1].results[:1]


def test_every_row_that_another_names_is_there():
    names = {row.name for row in paper_rows()}
    for row in paper_rows():
        assert not row.can_run or not row.run_as.start or row.run_as.start in names, row.name
        assert not row.same or row.same in names, row.name
        assert not row.same or set(row.seeds) <= set(row.run_as.seeds), row.name


def test_a_result_file_that_is_no_json_is_named(tmp_path):
    path = result_path(tmp_path, "countries-tiny", 0)
    path.parent.mkdir(parents=True)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(TuckerkgError, match="countries/tiny-seed0"):
        outcome(tiny_row(), tmp_path)


def made_up(mrr, without=None):
    result = {"test": {"mrr": mrr}, "minutes": 50.0, "cpu_minutes": 60.0, "peak_memory_mb": 900}
    return result if without is None else {**result, "test_without_messages": {"mrr": without}}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.91, 0.91], "above"),
        ([0.9004, 0.9], "reached"),
        ([0.897, 0.897], "reached"),
        ([0.8964, 0.8964], "below"),
        ([0.95], "above, 1 of 2 seeds"),
        ([], "not run"),
    ],
)
def test_verdicts_compare_with_the_printed_figure(values, said):
    assert Outcome(tiny_row(), tuple(made_up(value) for value in values)).verdict == said


def test_weights_that_no_message_has_touched_are_the_decoders_own():
    def began(best_epoch, phases=(), started_from=""):
        return made_up(0.95, 0.95) | {
            "best_epoch": best_epoch, "started_from": started_from, "options": {"phase": list(phases)}
        }  # fmt: skip

    silent = [{"epochs": 30.0, "messages": 0.0}, {"epochs": 10.0, "messages": 0.0, "candidates": 9}, {"messages": None}]
    own = [began(34.0, silent), began(40.0, silent), began(0.0, started_from="alone-seed0")]
    touched = [began(42.0, silent), began(2.0, started_from="alone-seed0"), began(0.0), began(0.0, [{"messages": 0.5}])]
    assert all(map(module.is_decoders_own, own))
    assert not any(map(module.is_decoders_own, touched))
    assert Outcome(tiny_row(), tuple(own)).verdict == "decoder alone"
    mixed = Outcome(tiny_row(), (own[0], touched[0]))
    assert (mixed.kept_decoder, mixed.verdict) == (1, "above")


def test_minutes_beside_other_work_count_as_half_the_cpu_time():
    assert module.counted_minutes({"minutes": 50.0, "cpu_minutes": 60.0}) == 30.0
    assert module.counted_minutes({"minutes": 25.0, "cpu_minutes": 60.0}) == 25.0


def test_rows_are_unique_and_begin_with_their_dataset():
    rows = paper_rows()
    assert len({row.name for row in rows}) == len(rows)
    assert all(row.dataset for row in rows)


@pytest.mark.parametrize("row", [row for row in paper_rows() if row.can_run], ids=lambda row: row.name)
def test_settings_of_a_row_are_what_its_name_says(row):
    settings = row.run_as.settings(seed=7)
    assert settings.train.seed == 7
    assert settings.dataset == row.dataset
    made_of = "paths" if settings.kind == "paths" else f"{settings.encoder.name}-{settings.decoder.name}"
    assert row.name.startswith(f"{row.dataset}-{made_of}")
    assert settings.experiment == row.run_as.name


@pytest.mark.parametrize("row", [row for row in paper_rows() if row.can_run and "tgcn" in row.name], ids=str)
def test_rows_named_tgcn_have_two_layers_and_the_papers_parameters(row):
    settings = row.settings(seed=0)
    assert settings.encoder.options["layers"] == 2
    if row.table in ("main", "cp") and settings.model.relation_dim == 100:
        bases = settings.encoder.options["bases"]
        output_norm = 0 if settings.encoder.options["output_norm"] else 200
        expected = (600 * bases + 21_200 if bases else 2_021_200) - output_norm
        assert count_parameters(row.dataset, settings)["enfp"] == expected


def test_tables_and_rows_are_chosen_by_name():
    rows = paper_rows()
    assert choose_rows([]) == rows
    assert choose_rows(["main"]) == [row for row in rows if row.table == "main"]
    assert choose_rows([rows[0].name, rows[0].name]) == [rows[0]]
    with pytest.raises(UnknownNameError, match="Did you mean"):
        choose_rows([rows[0].name + "x"])


def test_a_row_without_an_experiment_is_refused():
    shipped = {experiment_name(file) for file in experiment_files()}
    with_settings = [row for row in paper_rows() if row.run_as.experiment in shipped]
    missing = Row(table="main", name="fb15k-237-not-there", system="none", dim=1)
    assert runnable([*with_settings, missing]) == with_settings
    with pytest.raises(UnknownNameError, match="no experiment fb15k-237-not-there"):
        runnable([missing])


def test_results_are_stored_as_plain_json(tmp_path):
    run([tiny_row(seeds=(0,))], tmp_path)
    stored = json.loads(result_path(tmp_path / "results", "countries-tiny", 0).read_text(encoding="utf-8"))
    assert stored["experiment"] == "countries-tiny"
    assert {"test", "valid", "test_without_messages", "curve", "parameters", "commit"} <= set(stored)

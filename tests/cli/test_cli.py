"""The command line as a person uses it: answers, exit codes, errors without tracebacks, signals, closed outputs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest.mock
from pathlib import Path
from types import SimpleNamespace

import pytest
from graphs import data_folder
from typer.testing import CliRunner

from tuckerkg.__main__ import main
from tuckerkg.cli.app import PANELS, app

SMALL = [
    "--set", "train.epochs=2.0", "--set", "train.evaluate_every=1.0", "--set", "model.dim=8",
    "--set", "model.relation_dim=8", "--set", "train.threads=1",
]  # fmt: skip


def tuckerkg(*arguments, cwd=None, code=0):
    """Runs the program's own ``main`` in this process, which saves importing torch again."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        unittest.mock.patch.object(sys, "argv", ["tuckerkg", *map(str, arguments)]),
    ):
        try:
            main()
            found = 0
        except SystemExit as exit:
            found = exit.code or 0
    assert found == code, (found, out.getvalue(), err.getvalue())
    return SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "run"
    shown = tuckerkg("train", "countries", "--out", out, *SMALL)
    assert "978 entities, 10 relations" in shown.stdout
    assert "valid MRR" in shown.stderr
    return out


VERBS = [verb for verbs in PANELS.values() for verb in verbs]


def test_help_teaches_every_verb():
    shown = tuckerkg("--help").stdout
    for panel, verbs in PANELS.items():
        assert panel in shown
        for verb in verbs:
            assert re.search(rf"(?m)^\W*{verb}\b", shown), verb


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_explains_itself(verb, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = " ".join(tuckerkg(verb, "--help").stdout.replace("\u2502", " ").split())
    assert "Usage" in shown
    for eaten in ("write .", "kept ."):  # a default in angle brackets or square ones that was taken for markup
        assert eaten not in shown
    defaults = {"train": "runs/<experiment or dataset>", "tune": "studies/<experiment>-<space>"}
    assert defaults.get(verb, "") in shown


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["fb15k-237", "--decoder", "tucker"], (1_501_500, 3_021_400, 2_021_200)),
        (["FB15k237", "--decoder", "tucker", "--cp", "100"], (1_501_500, 1_081_400, 81_200)),
        (["WN18RR", "--decoder", "distmult"], (4_096_500, 2_021_200, 2_021_200)),
        *((["wnrr", "--decoder", "distmult", "--cp", n], (4_096_500, 600 * n + 21_200, 600 * n + 21_200))
          for n in (50, 100, 250, 500, 1000, 2000)),
    ],
)  # fmt: skip
def test_parameters_are_the_papers_to_the_digit(arguments, expected):
    shown = tuckerkg("params", *arguments, "--dim", 100, "--relation-dim", 100, "--json").stdout
    assert json.loads(shown) == dict(zip(("efp", "nfp", "enfp"), expected, strict=True))


def test_datasets_are_listed_with_counts_and_place():
    folder = data_folder()
    rows = {row["name"]: row for row in json.loads(tuckerkg("datasets", "--json").stdout)}
    assert rows["fb15k-237"]["entities"] == 14_541
    assert rows["wn18rr"]["where"] == str(folder / "wn18rr")
    assert "40,943" in tuckerkg("datasets").stdout


def test_evaluate_prints_a_table_and_json(run):
    assert "MRR" in tuckerkg("evaluate", run, "--relations").stdout
    told = json.loads(tuckerkg("evaluate", run, "--split", "valid", "--json").stdout)
    assert set(told) >= {"mrr", "hits@1", "hits@3", "hits@10", "mr", "amri", "ties", "seen_only", "protocol"}
    assert told["queries"] == 2 * 208


def test_predict_in_every_direction_and_format(run):
    for question in (
        ["--head", "France", "--relation", "borders"],
        ["--relation", "borders", "--tail", "France"],
        ["--head", "France", "--tail", "Spain", "--known"],
        ["--head", "France"],
        ["--top-missing", "3"],
    ):
        assert json.loads(tuckerkg("predict", run, *question, "-k", 3, "--format", "json").stdout)
    rows = tuckerkg("predict", run, "--head", "France", "--relation", "borders", "--format", "tsv").stdout.splitlines()
    names = ["head", "relation", "tail"]
    extra = [f"{name}_label" for name in names]
    assert rows[0].split("\t") == [*names, "score", "probability", "basis", "known", *extra]
    assert len(rows) == 11


def test_score_reads_a_file(run, tmp_path):
    (tmp_path / "ask.csv").write_text("France,borders,Spain\nFrance,borders,Japan\n")
    rows = json.loads(tuckerkg("score", run, tmp_path / "ask.csv", "--format", "json").stdout)
    assert [row["tail"] for row in rows] == ["Spain", "Japan"]
    assert [row["known"] for row in rows] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "umsl"], "umls"),
        (["train", "countries", "--set", "train.lerning_rate=1"], "unknown key"),
        (["train", "countries", "--set", "train.lr=-1"], "greater than 0"),
        (["train", "countries", "--settings", "nothing.toml"], "neither a settings file"),
        (["train", "no-such-file.tsv"], "no-such-file.tsv"),
        (["train", "countries", "--on-error", "maybe"], "stop or skip"),
        (["train", "--resume", "nowhere"], "nowhere"),
        (["evaluate", "nowhere"], "nowhere"),
        (["predict", "nowhere", "--head", "x", "--format", "xml"], "table, tsv, json"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(tmp_path, arguments, told):
    done = tuckerkg(*arguments, cwd=tmp_path, code=2)
    assert told in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_program_answers_as_a_process_of_its_own():
    command = [sys.executable, "-m", "tuckerkg", "evaluate", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("tuckerkg: nowhere")
    assert "Traceback" not in done.stderr


def test_unknown_names_are_one_message(run):
    done = tuckerkg("predict", run, "--head", "Frence", "--relation", "borders", code=2)
    assert "'France'" in done.stderr
    assert "split" in tuckerkg("evaluate", run, "--split", "tset", code=2).stderr


def test_a_bad_row_is_named_with_file_line_and_remedy_or_skipped_into_a_file(tmp_path):
    rows = [f"a{i}\tr{i % 2}\ta{(i * 7 + 1) % 12}" for i in range(12)] + [
        f"a{i}\tr0\ta{(i + 5) % 12}" for i in range(12)
    ]
    (tmp_path / "my.tsv").write_text("\n".join([*rows, "only\ttwo", ""]))
    done = tuckerkg("train", "my.tsv", "--out", "run", *SMALL, cwd=tmp_path, code=2)
    assert "my.tsv:25" in done.stderr
    assert not (tmp_path / "run").exists()
    shown = tuckerkg("train", "my.tsv", "--out", "run", "--on-error", "skip", *SMALL, cwd=tmp_path)
    assert "rejected" in shown.stdout
    assert "two" in (tmp_path / "rejected.tsv").read_text()


def test_a_run_folder_is_not_overwritten(run):
    done = tuckerkg("train", "countries", "--out", run, *SMALL, code=2)
    assert "--resume" in done.stderr


def test_resume_of_a_finished_run_does_nothing_more(run):
    before = sorted(path.name for path in (run / "checkpoints").iterdir())
    tuckerkg("train", "--resume", run)
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == before


def test_a_search_prints_its_trials_and_goes_on(tmp_path):
    (tmp_path / "lr.toml").write_text('[vary]\n"train.lr" = [0.003, 0.01]\n', encoding="utf-8")
    asked = ("tune", "countries-tgcn-tucker", "--space", tmp_path / "lr.toml", "--folder", tmp_path / "study", *SMALL)
    assert "trial 0: complete" in tuckerkg(*asked, "--trials", 1).stdout
    shown = tuckerkg(*asked, "--trials", 2).stdout
    assert "trial 1:" in shown
    assert "trial 0: " not in shown
    assert "--set train.lr=" in shown
    assert (
        "neither a file nor a shipped space" in tuckerkg("tune", "umls-tgcn-tucker-cp", "--space", "x", code=2).stderr
    )


def test_rows_of_the_paper_are_shown_without_training(tmp_path):
    shown = tuckerkg("reproduce", "--show", "main", "--results", tmp_path).stdout
    assert "fb15k-237-tgcn-tucker" in shown
    assert "not run" in shown
    assert "neither a row nor a table" in tuckerkg("reproduce", "--show", "maim", code=2).stderr


def test_the_page_of_results_is_written_beside_its_figures(tmp_path):
    (tmp_path / "README.md").write_text("<!-- headline -->\n<!-- end headline -->\n", encoding="utf-8")
    tuckerkg("results", "--results", "r", "--out", "R.md", "--readme", "README.md", cwd=tmp_path)
    page = (tmp_path / "R.md").read_text(encoding="utf-8")
    assert "(r/figures/bases.png)" in page
    assert (tmp_path / "r" / "figures" / "bases.png").exists()
    assert "FB15k-237" in (tmp_path / "README.md").read_text(encoding="utf-8")
    shown = tuckerkg("results", "--results", "r", "--out", "X.md", "--readme", "R.md", cwd=tmp_path, code=2).stderr
    assert "R.md: there is no <!-- headline -->" in shown
    assert not (tmp_path / "X.md").exists()


def test_a_result_file_holds_what_a_table_needs(tmp_path):
    tuckerkg("train", "countries", "--out", "run", "--result", "results", "--seed", 3, *SMALL, cwd=tmp_path)
    (file,) = (tmp_path / "results").rglob("*.json")
    result = json.loads(file.read_text())
    assert file == tmp_path / "results" / "runs" / "countries" / "tgcn-tucker-seed3.json"
    assert result["seed"] == result["options"]["train"]["seed"] == 3
    assert set(result) >= {
        "experiment", "dataset", "encoder", "decoder", "options", "seed", "commit", "threads", "processor",
        "parameters", "epochs", "minutes", "cpu_minutes", "peak_memory_mb", "valid", "test", "test_seen_only", "curve",
        "protocol",
    }  # fmt: skip
    assert result["peak_memory_mb"] > 50
    assert len(result["curve"]) == 2


def test_tensorboard_is_written_when_asked_for(tmp_path):
    tuckerkg("train", "countries", "--out", "run", "--tensorboard", *SMALL, cwd=tmp_path)
    assert list((tmp_path / "run" / "tensorboard").iterdir())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_f03_signals_save_and_exit_with_their_code(tmp_path, number, code):
    process = subprocess.Popen(
        [sys.executable, "-m", "tuckerkg", "train", "countries", "--out", "run", *SMALL, "--set", "train.epochs=1e4"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(timeout=10) == code
    told = process.stderr.read()
    assert "Traceback" not in told
    assert "the state is saved" in told
    assert "--resume" in told


def test_f26_training_survives_a_closed_or_full_output(tmp_path):
    command = f"{sys.executable} -m tuckerkg train countries --out {{out}} {' '.join(SMALL)}"
    env = {**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"}
    for out, redirect in (("closed", "2>&1 | head -1"), ("full", "> /dev/full 2>&1")):
        subprocess.run(
            ["sh", "-c", f"{command.format(out=out)} {redirect}"], cwd=tmp_path, env=env, check=False, timeout=120,
            capture_output=True,
        )  # fmt: skip
        rows = (tmp_path / out / "metrics.jsonl").read_text().splitlines()
        assert len(rows) == 2, out


def test_a_seed_that_no_row_has_is_refused():
    assert "--seed 7" in tuckerkg("reproduce", "wn18rr-tgcn-tucker", "--seed", "7", code=2).stderr


def test_every_verb_shows_relations_by_their_short_names(tmp_path):
    rows = [f"<http://x.org/e{i}> <http://x.org/vocab#knows> <http://x.org/e{(i * 7 + 1) % 30}> ." for i in range(30)]
    rows += [f"<http://x.org/e{i}> <http://x.org/vocab#likes> <http://x.org/e{(i * 3 + 2) % 30}> ." for i in range(30)]
    (tmp_path / "g.nt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    quick = ["--encoder", "none", "--set", "train.epochs=1.0", "--set", "model.dim=8", "--set", "model.relation_dim=8"]
    CliRunner().invoke(app, ["train", str(tmp_path / "g.nt"), "--out", str(tmp_path / "run"), *quick])
    for verb in (["evaluate", str(tmp_path / "run"), "--relations"], ["inspect", str(tmp_path / "g.nt")]):
        shown = CliRunner().invoke(app, verb)
        assert shown.exit_code == 0, shown.output
        table = "\n".join(line for line in shown.stdout.splitlines() if line.startswith("\u2502"))
        assert "knows" in table
        assert "http://x.org/vocab" not in table

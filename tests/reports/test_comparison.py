"""Runs held against each other: the same questions, the differences, what is refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from graphs import toy_dataset
from typer.testing import CliRunner

from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.run import load
from tuckerkg.reports.comparison import compare, difference
from tuckerkg.reports.plots import check_plot
from tuckerkg.training.callbacks import NullCallback

SMALL = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 4.0, "train.evaluate_every": 4.0, "train.threads": 1}


def trained(path: Path, dataset=None, **changes: object) -> Path:
    overrides = {**SMALL, "encoder": "none", **{key.replace("__", "."): value for key, value in changes.items()}}
    api.train(dataset or toy_dataset(), out=path, overrides=overrides, callback=NullCallback())
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("compared")
    return trained(place / "one"), trained(place / "two", decoder="distmult", train__seed=1)


def test_every_part_adds_up_to_the_whole(folders):
    found = compare([load(folder) for folder in folders])
    total = found.evaluations[0].overall.queries
    for parts in (found.relations, found.degrees):
        assert sum(part.queries for part in parts) == total
        for place in range(2):
            mean = sum(part.queries * part.mrr[place] for part in parts) / total
            assert mean == pytest.approx(found.evaluations[place].mrr)
    assert found.differences[0].mrr == pytest.approx(found.evaluations[1].mrr - found.evaluations[0].mrr)
    assert found.names == ("one", "two")


def test_relations_agree_with_the_evaluation(folders):
    found = compare([load(folder) for folder in folders])
    for part in found.relations:
        assert part.mrr == pytest.approx([evaluation.by_relation[part.name].mrr for evaluation in found.evaluations])


def test_a_run_does_not_differ_from_itself(folders):
    gap = compare([load(folders[0]), load(folders[0])]).differences[0]
    assert (gap.mrr, gap.low, gap.high, gap.p) == (0.0, 0.0, 0.0, 1.0)


def test_a_version_is_named_where_a_run_has_several(tmp_path):
    folder = trained(tmp_path / "grown")
    load(folder).add([("e000", "plus2", "e009")])
    assert compare([load(f"{folder}@1"), load(f"{folder}@1")]).names == (f"{folder}@1", f"{folder}@1")


def test_the_bootstrap_tells_a_large_difference_from_noise():
    random = np.random.default_rng(0)
    first = random.random(2_000)
    better = difference(first, first + 0.1 + 0.1 * random.standard_normal(2_000))
    assert 0.05 < better.low < better.mrr < better.high < 0.15
    assert better.p < 0.01
    assert difference(first, random.permutation(first)).p > 0.05


def test_the_interval_is_that_of_the_mean_over_triples():
    random = np.random.default_rng(1)
    gaps = random.standard_normal(500)
    both = np.concatenate([gaps, gaps])  # a triple's two questions go together: 500 independent numbers, not 1,000
    found = difference(np.zeros(1_000), both, draws=4_000)
    expected = 1.96 * gaps.std() / np.sqrt(500)
    assert (found.high - found.low) / 2 == pytest.approx(expected, rel=0.08)


def test_the_order_of_a_split_does_not_matter(tmp_path, folders):
    data = toy_dataset()
    turned = trained(tmp_path / "turned", replace(data, test=data.test[::-1].copy()))
    gap = compare([load(folders[0]), load(turned)]).differences[0]
    assert gap.mrr == pytest.approx(0.0, abs=1e-9)
    assert gap.high - gap.low == pytest.approx(0.0, abs=1e-9)


def test_other_splits_are_refused_with_what_differs(tmp_path, folders):
    data = toy_dataset()
    other = trained(tmp_path / "other", replace(data, test=data.test[:-1]))
    with pytest.raises(TuckerkgError, match=r"not evaluated under one protocol.*split_sha256"):
        compare([load(folders[0]), load(other)])
    with pytest.raises(TuckerkgError, match="two run folders"):
        compare([load(folders[0])])


def test_other_tie_seeds_are_refused(tmp_path, folders):
    other = trained(tmp_path / "ties", evaluate__tie_seed=5)
    with pytest.raises(TuckerkgError, match="tie_seed: 0 and 5"):
        compare([load(folders[0]), load(other)])


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    place = tmp_path_factory.mktemp("seeds")
    return [trained(place / f"mine-seed{seed}", train__seed=seed, experiment=f"try {seed}") for seed in (0, 1, 2)]


def test_runs_that_differ_by_seed_and_name_alone_are_one_line(folders, seeds):
    found = compare([seeds[0], folders[1], *seeds[1:]])
    assert found.names == ("mine", "two")
    group = found.groups[0]
    assert group.runs == ("mine-seed0", "mine-seed1", "mine-seed2")
    mrrs = [load(path).evaluate("test").mrr for path in seeds]
    assert group.values("mrr") == pytest.approx(mrrs)
    assert group.mean("mrr") == pytest.approx(np.mean(mrrs))
    assert group.deviation("mrr") == pytest.approx(np.std(mrrs, ddof=1))
    assert found.groups[1].deviation("mrr") is None
    other = load(folders[1]).evaluate("test").mrr
    assert found.differences[0].mrr == pytest.approx(other - np.mean(mrrs))


def test_seeds_of_one_experiment_alone_have_nothing_to_differ_from(seeds):
    found = compare(seeds)
    assert found.names == ("mine",)
    assert found.differences == ()
    shown = CliRunner().invoke(app, ["compare", *map(str, seeds)])
    assert shown.exit_code == 0, shown.output


def test_tables_for_papers_hold_the_same_figures(folders, seeds, tmp_path):
    found = compare([*seeds, folders[1]])
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [row["name"] for row in rows] == ["mine", "two"]
    assert float(rows[0]["mrr"]) == pytest.approx(found.groups[0].mean("mrr"), rel=1e-5)
    assert float(rows[0]["mrr deviation"]) == pytest.approx(found.groups[0].deviation("mrr"), rel=1e-5)
    assert rows[1]["mrr deviation"] == ""
    latex = found.to_latex()
    lines = [line for line in latex.splitlines() if line.endswith("\\\\")]
    assert {line.count("&") for line in lines} == {len(found.metrics)}
    best = max(found.groups, key=lambda group: group.mean("mrr"))
    assert f"\\textbf{{{best.mean('mrr'):.3f}}}" in latex
    paths = [str(path) for path in (*seeds, folders[1])]
    files = ["--csv", str(tmp_path / "a.csv"), "--latex", str(tmp_path / "a.tex")]
    shown = CliRunner().invoke(app, ["compare", *paths, *files])
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == found.to_csv()
    assert (tmp_path / "a.tex").read_text(encoding="utf-8") == latex


def test_the_command_prints_tables_json_and_a_plot(tmp_path, folders):
    paths = [str(folder) for folder in folders]
    shown = CliRunner().invoke(app, ["compare", *paths, "--plot", str(tmp_path / "a.png")])
    assert shown.exit_code == 0, shown.output
    assert "MRR by relation" in shown.output
    assert (tmp_path / "a.png").stat().st_size > 5_000
    told = json.loads(CliRunner().invoke(app, ["compare", *paths, "--json"]).stdout)
    assert [run["name"] for group in told["groups"] for run in group["runs"]] == ["one", "two"]
    assert [group["mean"]["mrr"] for group in told["groups"]] == [group["runs"][0]["mrr"] for group in told["groups"]]
    assert told["differences"]["two"]["p"] <= 1.0


@pytest.mark.parametrize("name", ["a.txt", "missing/a.png"])
def test_a_plot_that_cannot_be_written_is_refused_first(tmp_path, name):
    with pytest.raises(TuckerkgError, match="--plot"):
        check_plot(tmp_path / name)

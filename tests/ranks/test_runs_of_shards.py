"""Runs whose facts stay in the shards of an ingest: the same on any number of ranks, and opened like any other."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from shard_folders import SAMPLED, SUBGRAPH, prepared, shard_folder
from test_runs_on_ranks import Heard, finished, losses_of, start

import tuckerkg
from tuckerkg.cli.ranks import train_in_shards
from tuckerkg.config.settings import settings_of_run
from tuckerkg.errors import RunFolderError, SettingsError, TuckerkgError
from tuckerkg.evaluation.ranking import rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.ranks.loop import fit_on_ranks
from tuckerkg.storage.run_folder import RunFolder

LAZY = {**SAMPLED, "train.optimizer": "rowwise-adagrad", "model.bias": "free"}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return shard_folder(tmp_path_factory.mktemp("shards") / "graph")


@pytest.fixture(scope="module")
def alone(graph, tmp_path_factory):
    heard = Heard()
    folder = prepared(graph, tmp_path_factory.mktemp("alone") / "run", **LAZY)
    fit_on_ranks(folder, heard)
    return heard.losses, folder.path


@pytest.mark.parametrize("size", [4])
def test_losses_weights_and_ranks_are_those_of_one_process(graph, alone, size, tmp_path):
    folder = prepared(graph, tmp_path / "run", **LAZY)
    process = start(size, folder.path, tmp_path / "losses")
    output = finished(process)
    assert process.returncode == 0, output
    assert losses_of(tmp_path / "losses") == alone[0]
    ours, theirs = (
        [json.loads(line)["valid"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (folder.path, alone[1])
    )
    assert ours == theirs
    weights = [tuckerkg.load(path).model.state_dict() for path in (folder.path, alone[1])]
    for name, tensor in weights[0].items():
        assert tensor.equal(weights[1][name]), name


def test_the_run_opens_like_any_other_and_has_no_copy_of_the_facts(graph, alone):
    run = tuckerkg.load(alone[1])
    assert list(run.entities.labels) == graph.all_names()
    np.testing.assert_array_equal(run.split("train"), graph.split("train"))
    known = KnownTails.from_splits([graph.split("train"), graph.split("valid")], 3)
    found = rank(run.scorer, graph.split("valid"), known)
    last = json.loads((alone[1] / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["valid"]["mrr"] == pytest.approx(float(np.mean(1 / found.random(0))), abs=1e-6)
    assert run.evaluate("valid").mrr == pytest.approx(last["valid"]["mrr"], abs=1e-6)
    assert run.predict(head="e1", relation="r00001", k=3)
    file = "train-0003.npy"
    assert (alone[1] / "graph" / file).stat().st_ino == (graph.path / file).stat().st_ino
    assert sorted(path.name for path in (alone[1] / "data").iterdir()) == ["manifest.json", "program.json"]


def test_it_resumes_on_another_number_of_ranks(graph, alone, tmp_path):
    folder = prepared(graph, tmp_path / "run", **LAZY)
    process = start(2, folder.path, tmp_path / "losses", "--interrupt", "1", "--at", "7")
    output = finished(process)
    assert "the state is saved" in output, output
    fit_on_ranks(folder, heard := Heard())
    assert min(heard.losses) == 8
    assert {**losses_of(tmp_path / "losses"), **heard.losses} == alone[0]


@pytest.mark.parametrize("changes", [{}, SUBGRAPH, {**SUBGRAPH, "loss": "bce-all", "train.optimizer": "lazy-adam"}])
def test_it_learns(graph, changes, tmp_path):
    folder = prepared(graph, tmp_path / "run", **{**changes, "train.steps": 60, "train.lr": 0.05})
    fit_on_ranks(folder, heard := Heard())
    losses = list(heard.losses.values())
    assert np.mean(losses[-5:]) < 0.95 * np.mean(losses[:5])


def test_without_held_out_facts_the_last_weights_are_taken(tmp_path):
    graph = shard_folder(tmp_path / "graph", valid=0)
    folder = prepared(graph, tmp_path / "run")
    assert fit_on_ranks(folder).best_mrr is None
    assert tuckerkg.load(folder.path).step == 12


@pytest.mark.parametrize("optimizer", ["rowwise-adagrad", "lazy-adam", "adam"])
def test_shards_without_entities_are_saved_and_resumed(tmp_path, optimizer):
    graph = shard_folder(tmp_path / "graph", facts=12, entities=5, valid=2)
    assert any(np.diff(graph.offsets) == 0)
    folder = prepared(graph, tmp_path / "run", **{**SAMPLED, "train.steps": 3, "train.optimizer": optimizer})
    fit_on_ranks(folder)
    longer = {**folder.settings, "train": {**folder.settings["train"], "steps": 5}}
    (folder.path / "settings.json").write_text(json.dumps(longer), encoding="utf-8")
    fit_on_ranks(RunFolder.open(folder.path), heard := Heard())
    assert list(heard.losses) == [4, 5]
    assert tuckerkg.load(folder.path).model.entities.shape == (5, 8)


def test_files_are_copied_where_they_cannot_be_linked(graph, tmp_path, monkeypatch):
    def refuse(*places: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr("os.link", refuse)
    folder = prepared(graph, tmp_path / "run")
    folder.graph.verify()
    assert (folder.path / "graph" / "train-0003.npy").stat().st_nlink == 1


def test_the_command_line_trains_a_folder_of_shards(graph, tmp_path):
    words = ["--encoder", "none", "--set", "train.steps=3", "--set", "model.dim=8", "--set", "model.relation_dim=8"]
    command = [sys.executable, "-m", "tuckerkg", "train", str(graph.path), *words, "--ranks", "2"]
    done = subprocess.run([*command, "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "best validation MRR" in done.stdout
    assert settings_of_run(RunFolder.open(tmp_path / "run")).ranks.shards == graph.num_shards
    with pytest.raises(TuckerkgError, match="leave out --result"):
        train_in_shards(RunFolder.open(tmp_path / "run"), Heard(), 60.0, alone=False)


def test_what_does_not_fit_is_refused_in_words(graph, tmp_path):
    with pytest.raises(SettingsError, match="has 8 shards, which ranks share"):
        prepared(graph, tmp_path / "run", **{"ranks.shards": 16})
    odd = shard_folder(tmp_path / "odd", shards=6)
    with pytest.raises(SettingsError, match="power of two"):
        prepared(odd, tmp_path / "run", **{"ranks.shards": 6})
    folder = prepared(graph, tmp_path / "run", encoder="tgcn", **SUBGRAPH)
    with pytest.raises(SettingsError, match=r"give ranks\.fanout"):
        fit_on_ranks(folder)


def test_a_cut_file_of_facts_is_refused(graph, tmp_path):
    folder = prepared(graph, tmp_path / "run")
    file = folder.path / "graph" / "edges-0002.npy"
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[:-12])
    with pytest.raises(RunFolderError, match="was cut"):
        fit_on_ranks(RunFolder.open(folder.path))

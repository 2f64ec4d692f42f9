"""Ranks that ask together: figures, answers and files are those of one, byte for byte; each holds its own shards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from rank_programs import on_ranks
from sharded_runs import run_in_shards
from typer.testing import CliRunner

import tuckerkg
from tuckerkg.cli.app import app
from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.on_ranks.run import RankRun, load_on_ranks
from tuckerkg.inference.predictor import Predictor
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.partition import Partition
from tuckerkg.storage.run_folder import RunFolder

SMALL = {"model.dim": 8, "model.relation_dim": 6}
CASES = {
    "table": {},
    "bias": {"model.bias": "distance"},
    "messages": {"encoder": "tgcn", "encoder.layers": 1},
    "ties": {"decoder": "distmult", "model.relation_dim": 8},
}
QUESTIONS = "e003\tplus1\t?\n?\tplus2\te007\ne001\t?\te002\ne003\tplus1\t?\n"


def made(place: Path, case: str) -> RunFolder:
    parted = Partition((0, 1, 5, 5, 9, 10, 15, 18, 20), Group()) if case == "table" else None  # of any sizes, or none
    folder = run_in_shards(place, toy_dataset(), 8, parted, **{**SMALL, **CASES[case]})
    if case == "ties":  # whole numbers: equal scores, within shards and between them
        from tuckerkg.storage.sealed_folder import write_sealed

        path = folder.checkpoints.folder(1)
        files = {file.name: file.read_bytes() for file in path.iterdir() if file.name != "manifest.json"}
        from safetensors.torch import load, save

        for name, data in files.items():
            if name.endswith(".safetensors"):
                files[name] = save({key: tensor.sign() for key, tensor in load(data).items()})
        write_sealed(path, files)
    return folder


def all_asked_by(group: Group, paths: dict[str, str]) -> dict[str, Any]:
    """What ``asked_by`` finds for each run."""
    return {case: asked_by(group, path) for case, path in paths.items()}


def asked_by(group: Group, path: str) -> dict[str, Any]:
    """Everything that ranks can say of a run, and what they hold for it."""
    torch.set_num_threads(1)
    run = load_on_ranks(path, group)
    predictor = run.predictor
    pairs = torch.from_numpy(predictor._all_pairs())
    shown = torch.arange(len(pairs)) % 2 == 0
    answers = predictor.answers(pairs, torch.full((len(pairs),), 7), shown, ~shown)
    facts = torch.tensor([[3, 0, 4], [5, 2, 1], [0, 1, 0]])
    return {
        "evaluation": {split: run.evaluate(split).as_dict() for split in ("valid", "test", "train")},
        "answers": {name: column.numpy() for name, column in vars(answers).items()},
        "missing": [vars(fact) for fact in run.top_missing(9, typed=False)],
        "all": [vars(fact) for fact in run.predict(head="e004", k=6, typed=False)],
        "judged": {name: column.numpy() for name, column in vars(predictor.weigh(facts)).items()},
        "logits": predictor.best_logits(pairs[:20]).numpy(),
        "scores": run.scorer.scores(torch.tensor([1, 2]), torch.tensor([0, 5])).numpy(),
        "rows held": sum(len(table) for table in run._sharded.entities.values()),
    }


def same(found: Any, expected: Any) -> None:
    np.testing.assert_equal(found, expected)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("cases")
    return {case: str(made(place / case.replace(" ", "-"), case).path) for case in CASES}


@pytest.fixture(scope="module")
def one(folders):
    return all_asked_by(Group(), folders)


@pytest.mark.parametrize("size", [2, 4])
def test_any_number_of_ranks_finds_the_same_with_the_same_bits(folders, one, size):
    everywhere = on_ranks(size, all_asked_by, folders)
    for case, expected in one.items():
        held = [found[case].pop("rows held") for found in everywhere]
        assert sum(held) == expected["rows held"] == 20
        assert max(held) < 20
        for found in everywhere:
            same({**found[case], "rows held": 20}, expected)


@pytest.mark.parametrize("case", CASES)
def test_it_is_what_a_run_in_one_piece_finds(folders, one, case):
    run, found = tuckerkg.load(folders[case], mapped=False), one[case]
    run.calibration = load_on_ranks(folders[case], Group()).calibration
    assert found["evaluation"]["test"]["mrr"] == pytest.approx(run.evaluate("test").mrr, rel=1e-9)
    predictor: Predictor = run.predictor
    pairs = torch.from_numpy(predictor._all_pairs())
    shown = torch.arange(len(pairs)) % 2 == 0
    answers = predictor.answers(pairs, torch.full((len(pairs),), 7), shown, ~shown)
    agree = (answers.facts.numpy() == found["answers"]["facts"]).all(1).mean()
    assert agree > 0.95  # sums in another order may turn near-ties
    np.testing.assert_allclose(np.sort(answers.scores), np.sort(found["answers"]["scores"]), atol=1e-4)
    assert len(found["missing"]) == 9
    assert [fact["tail"] for fact in found["missing"]][:3] == [fact.tail for fact in run.top_missing(3, typed=False)]


def test_a_run_in_one_piece_is_shared_too(toy_run, tmp_path):
    place = toy_run.save(tmp_path / "run")
    found = load_on_ranks(place, Group())
    assert isinstance(found, RankRun)
    expected = toy_run.evaluate("test").overall.as_dict()
    assert found.evaluate("test").overall.as_dict() == pytest.approx(expected, rel=1e-9)
    ours, theirs = (run.predict(head="e003", relation="plus1") for run in (found, toy_run))
    assert [fact.tail for fact in ours] == [fact.tail for fact in theirs]
    assert [fact.probability for fact in ours] == pytest.approx([fact.probability for fact in theirs], rel=1e-4)


# -------------------------------------------------------------------------------------------- command line


def tuckerkg_on(size: int, place: Path, *words: str, torchrun: bool = False) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-m", "tuckerkg"]
    ranks = ["--ranks", str(size)]
    if torchrun:
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
        start, ranks = [*start, "-m", "tuckerkg"], []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*start, words[0], "run", *words[1:], *ranks]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, env=environment, check=False)


COMMANDS = {
    "evaluate": (["evaluate", "--json"], "run/evaluation-test.json"),
    "questions": (["predict", "--questions", "ask.tsv", "-k", "4", "--out", "out.jsonl"], "out.jsonl"),
    "missing": (["predict", "--top-missing", "8", "--untyped", "--out", "out.tsv"], "out.tsv"),
}


@pytest.fixture(scope="module")
def by_one(tmp_path_factory):
    """A run without stored probabilities, and what one rank writes of it."""
    place = tmp_path_factory.mktemp("one")
    made(place / "fresh", "table")
    (place / "ask.tsv").write_text(QUESTIONS)
    return place, {name: outcome(place, name, 1) for name in COMMANDS}


def outcome(place: Path, name: str, size: int, torchrun: bool = False) -> tuple[str, bytes]:
    shutil.rmtree(place / "run", ignore_errors=True)
    shutil.copytree(place / "fresh", place / "run")
    words, file = COMMANDS[name]
    done = tuckerkg_on(size, place, *words, torchrun=torchrun)
    assert done.returncode == 0, done.stderr
    return done.stdout, b"" if file is None else (place / file).read_bytes()


@pytest.mark.parametrize(
    ("name", "size", "torchrun"), [("evaluate", 2, False), ("questions", 2, True), ("missing", 4, False)]
)
def test_files_are_those_of_one_rank_byte_for_byte(by_one, name, size, torchrun):
    place, expected = by_one
    assert outcome(place, name, size, torchrun) == expected[name]
    assert len(expected[name][1]) > 200


def test_what_ranks_cannot_do_is_refused_in_words_once(by_one):
    place, _ = by_one
    for words, reason in (
        (["evaluate", "run", "--calibration"], "--calibration: not on ranks"),
        (["predict", "run", "--top-missing", "3", "--minutes", "1"], "--minutes: not on ranks"),
        (["predict", "run", "--head", "e001", "--relation", "plus1", "--index"], "--index: not on ranks"),
    ):
        refused = CliRunner().invoke(app, [*words, "--ranks", "2"]).exception
        assert isinstance(refused, TuckerkgError)
        assert reason in str(refused)
    done = tuckerkg_on(2, place, "predict", "--head", "nobody", "--relation", "plus1")
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["tuckerkg: there is no entity 'nobody' among 20."]


def test_f09_a_shard_that_is_damaged_is_refused_by_the_rank_that_reads_it(by_one):
    place, _ = by_one
    shutil.rmtree(place / "run", ignore_errors=True)
    shutil.copytree(place / "fresh", place / "run")
    shard = place / "run" / "checkpoints" / "step-00000001" / "shard-000003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x00")
    done = tuckerkg_on(2, place, "evaluate")
    assert done.returncode == 2
    assert done.stderr.count("rank 1: ") == 1
    assert "SHA-256 differs" in done.stderr
    assert json.loads((place / "run" / "best.json").read_text()) == {"step": 1}

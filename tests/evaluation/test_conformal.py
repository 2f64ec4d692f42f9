"""Answer sets that hold the answer as often as they say."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from typer.testing import CliRunner

from tuckerkg.cli.app import app
from tuckerkg.errors import TuckerkgError, UnknownNameError
from tuckerkg.evaluation.conformal import Conformal, _quantile, answer_shares


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_new_answers_reach_the_threshold_as_often_as_asked(coverage):
    random = np.random.default_rng(0)
    held = [
        (random.standard_normal(50) >= _quantile(random.standard_normal(99), coverage)).mean() for _ in range(2_000)
    ]
    assert np.mean(held) == pytest.approx(coverage, abs=0.01)


def test_too_few_answers_leave_nothing_out():
    assert _quantile(np.zeros(5), 0.9) == -math.inf


def test_shares_and_sizes_equal_brute_force(toy_run):
    data = toy_dataset()
    known = {tuple(fact) for split in ("train", "valid", "test") for fact in data.split(split).tolist()}
    conformal = Conformal(0.9, tail=-2.0, head=-3.0)
    shares, sizes = answer_shares(toy_run.scorer, [data.train, data.valid, data.test], data.test, conformal)
    place = 0
    for turned in (False, True):
        for head, relation, tail in data.test.tolist():
            asked, answer = (tail, head) if turned else (head, tail)
            scores = toy_run.scorer.scores(torch.tensor([asked]), torch.tensor([relation + 3 * turned]))[0]
            left = [
                entity
                for entity in range(20)
                if entity == answer or ((entity, relation, tail) if turned else (head, relation, entity)) not in known
            ]
            log_shares = torch.log_softmax(scores[left], 0)
            assert shares[place] == pytest.approx(log_shares[left.index(answer)].item(), abs=1e-5)
            least = conformal.head if turned else conformal.tail
            assert sizes[place] == (log_shares >= least).sum().item()
            place += 1


def test_a_run_tells_its_reliability_on_held_out_splits_only(toy_run):
    assert 0.0 <= toy_run.reliability("test").ece <= 1.0
    assert 0.0 <= toy_run.answer_set_coverage("test", 0.5).tail <= 1.0
    with pytest.raises(UnknownNameError, match="not held out"):
        toy_run.reliability("train")
    with pytest.raises(TuckerkgError, match=r"coverage is 1\.5"):
        toy_run.conformal(1.5)


def test_the_command_shows_it(toy_run):
    shown = CliRunner().invoke(app, ["evaluate", str(toy_run.path), "--calibration"])
    assert shown.exit_code == 0, shown.output
    assert "answer sets of 90%" in shown.output
    told = json.loads(CliRunner().invoke(app, ["evaluate", str(toy_run.path), "--calibration", "--json"]).stdout)
    assert told["calibrated"]["ece"] == pytest.approx(toy_run.reliability("test").ece)
    assert set(told["answer_sets"]) >= {"tail", "head", "mean_size_tail"}

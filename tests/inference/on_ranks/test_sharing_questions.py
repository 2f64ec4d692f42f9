"""Runs without a table that can lie in shards: ranks divide their questions, and find what one process finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from rank_programs import on_ranks

import tuckerkg
from tuckerkg.inference.blend import blend
from tuckerkg.inference.on_ranks.run import RankRun, load_on_ranks
from tuckerkg.inference.on_ranks.shared import AT_ONCE, SharedRun, SharedScorer
from tuckerkg.nn.contracts import Scorer
from tuckerkg.ranks.group import Group


@pytest.fixture(scope="module")
def folders(path_run, toy_run, tmp_path_factory):
    """A run of each kind that is shared; the newest version of the second has facts that were added."""
    place = tmp_path_factory.mktemp("shared")
    copy = toy_run.save(place / "added")
    tuckerkg.load(copy).add([("e001", "plus1", "new")])
    both = blend([path_run, toy_run], out=place / "blend")
    return {"paths": str(path_run.path), "added": str(copy), "blend": str(both.path)}


def asked_by(group: Group, paths: dict[str, str]) -> dict[str, dict[str, Any]]:
    torch.set_num_threads(1)
    return {name: found_of(load_on_ranks(path, group)) for name, path in paths.items()}


def found_of(run: tuckerkg.Run) -> dict[str, Any]:
    assert isinstance(run, SharedRun)
    return {
        "evaluation": run.evaluate("test").as_dict(),
        "missing": [vars(fact) for fact in run.top_missing(9, typed=False)],
        "all": [vars(fact) for fact in run.predict(head="e004", k=6, typed=False)],
        "scores": run.scorer.scores(torch.arange(20), torch.arange(20) % 6).numpy(),
        "trust": {name: tensor.numpy() for name, tensor in run.calibration.tensors().items()},
    }


@pytest.fixture(scope="module")
def one(folders):
    return asked_by(Group(), folders)


@pytest.mark.parametrize("size", [4])
def test_any_number_of_ranks_finds_the_same_with_the_same_bits(folders, one, size):
    for found in on_ranks(size, asked_by, folders):
        np.testing.assert_equal(found, one)


@pytest.mark.parametrize("name", ["paths", "added", "blend"])
def test_it_is_what_one_process_finds(folders, one, name):
    run = tuckerkg.load(folders[name])
    assert one[name]["evaluation"]["mrr"] == pytest.approx(run.evaluate("test").mrr, rel=1e-6)
    expected = run.top_missing(9, typed=False)
    found = one[name]["missing"]
    assert [fact["probability"] for fact in found] == pytest.approx([fact.probability for fact in expected], rel=1e-3)


def test_a_run_as_it_was_trained_lies_in_shards(folders):
    assert isinstance(load_on_ranks(f"{folders['added']}@1", Group()), RankRun)


class Half(Group):
    """The first of two ranks, which is told what the second one found."""

    def told(self, rows: torch.Tensor) -> Half:
        object.__setattr__(self, "other", rows)
        return self

    def gather_rows(self, rows: torch.Tensor, counts: Any) -> list[torch.Tensor]:
        assert counts == [len(rows), len(self.other)]
        return [rows, self.other]


class Numbered(Scorer):
    num_entities, num_relations = 3, 2

    def __init__(self) -> None:
        self.asked: list[int] = []

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        self.asked += heads.tolist()
        return heads[:, None].float().expand(-1, 3) + 0.5 * relation_ids[:, None]


def test_questions_go_to_ranks_by_turns_and_come_back_in_their_order():
    heads, relations = torch.arange(AT_ONCE + 5), torch.ones(AT_ONCE + 5, dtype=torch.long)
    own = Numbered()
    shared = SharedScorer(own, Half(0, 2).told(Numbered().scores(heads[AT_ONCE:], relations[AT_ONCE:])))
    assert shared.scores(heads, relations).equal(Numbered().scores(heads, relations))
    assert own.asked == list(range(AT_ONCE))

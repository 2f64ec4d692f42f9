"""The script that holds several ranks against one, on a small graph."""

from __future__ import annotations

import json

import numpy as np
import pytest

from scripts.measure_ranks import compare, main, mrr_of


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    out = tmp_path_factory.mktemp("measured") / "ranks.json"
    sizes = ["model.dim=8", "model.relation_dim=8", "batch.triples=200", "batch.positives=60"]
    words = [word for size in sizes for word in ("--set", size)]
    code = main(["--experiments", "fb15k-237-tgcn-tucker-1-b", "--dataset", "countries", "--steps", "3",
                 "--ranks", "1", "2", *words, "--out", str(out)])  # fmt: skip
    return code, json.loads(out.read_text(encoding="utf-8"))["experiments"]["fb15k-237-tgcn-tucker-1-b"]


def test_two_ranks_agree_with_one(measured):
    code, found = measured
    assert code == 0
    assert list(found["ranks"]) == ["1", "2"]
    for row in (*found["ranks"].values(), found["ranked_in_one_piece"]):
        assert row["agrees"]
    two = found["ranks"]["2"]
    assert two["steps"] == 3
    assert two["batches_equal"]
    assert two["largest_difference_of_losses"] == 0.0
    assert two["differing_test_ranks"] == 0


def test_what_differs_is_told():
    class Asked:
        relations = (0,)

        def split(self, name):
            return np.array([[0, 0, 1]])

        @property
        def scorer(self):
            import torch

            class Scorer:
                def scores(self, heads, relations):
                    return torch.tensor([[0.0, 1.0, 3.0]])

            return Scorer()

    first = {"losses": [1.0, 2.0], "batches": ["a", "b"], "best": [2, 1], "worst": [2, 1]}
    first["mrr"] = mrr_of(np.array(first["best"]), np.array(first["worst"]))
    assert compare(first, first, Asked())["agrees"]
    for change in ({"losses": [1.0, 2.00001]}, {"batches": ["a", "c"]}, {"best": [1, 1]}, {"mrr": 0.1}):
        assert not compare({**first, **change}, first, Asked())["agrees"], change
    (tie,) = compare({**first, "best": [1, 1]}, first, Asked())["near_ties"]
    assert tie == {"question": [0, 0], "target": 1, "ranks": [1, 2], "expected": [2, 2], "gap": 1.0}

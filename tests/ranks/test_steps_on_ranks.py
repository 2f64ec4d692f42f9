"""A training step on ranks: loss, gradients and ranks are those of one process, on any number of ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rank_programs import TRIPLES, N, R, batch_of, on_ranks, ranks_of, settings_of, step_of, steps_of

from tuckerkg.config.build import build_embedding_model, build_objective
from tuckerkg.errors import SettingsError
from tuckerkg.evaluation.ranking import rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.nn.embedding_scorer import EmbeddingScorer
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.partition import Partition, pairwise_sum

CASES = {
    "tucker": ({}, "whole"),
    "sampled": ({"decoder": "distmult", "model.relation_dim": 8}, "sampled"),
    "subgraph": ({"loss.label_smoothing": 0.1, "loss.temperature": 0.5}, "subgraph"),
    "binary": ({"loss": "bce", "loss.label_smoothing": 0.1}, "whole"),
    "binary sampled": ({"loss": "bce-all"}, "sampled"),
    "bias": ({"model.bias": "distance"}, "whole"),
    "penalties": ({"regularizer.n3": 0.1, "regularizer.l2": 0.2, "regularizer.orthogonality": 0.1}, "subgraph"),
    "tgcn": ({"encoder": "tgcn", "encoder.layers": 1, "regularizer.l2_encoded": 0.1}, "subgraph"),
    "rgcn": ({"encoder": "rgcn"}, "whole"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_step_is_that_of_one_process(case):
    changes, kind = CASES[case]
    found = step_of(Group(), changes, kind)
    settings = settings_of(**changes)
    model = build_embedding_model(settings, N, R)
    exact = not model.encoder.uses_graph
    model = model.double() if exact else model
    model.load_state_dict({name: torch.from_numpy(value) for name, value in found["weights"].items()})
    torch.manual_seed(7)
    value = build_objective(settings, model)(model, batch_of(settings, model, kind))
    value.backward()
    assert found["value"] == pytest.approx(value.item(), rel=1e-10 if exact else 1e-5)
    tolerance = {"rtol": 1e-8, "atol": 1e-10} if exact else {"rtol": 1e-3, "atol": 1e-6}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            np.testing.assert_allclose(found[name], parameter.grad.numpy(), err_msg=name, **tolerance)


@pytest.mark.parametrize("size", [3, 4])
def test_steps_have_the_same_numbers_on_any_number_of_ranks(size):
    everywhere = on_ranks(size, steps_of, CASES)
    for case, (changes, kind) in CASES.items():
        alone = step_of(Group(), changes, kind)
        for found in (on_rank[case] for on_rank in everywhere):
            if size == 3:  # sums go in another order
                assert found["value"] == pytest.approx(alone["value"], rel=1e-6)
                continue
            assert found["value"] == alone["value"], case
            for name, expected in alone.items():
                if name != "weights":
                    np.testing.assert_array_equal(found[name], expected, err_msg=f"{case} {name}")


@pytest.mark.parametrize("changes", [{}, {"encoder": "tgcn"}, {"model.bias": "free"}])
def test_ranks_are_those_of_one_process(changes):
    alone = ranks_of(Group(), changes)
    for found in on_ranks(2, ranks_of, changes):
        for ours, expected in zip(found, alone, strict=True):
            np.testing.assert_array_equal(ours, expected)
    settings = settings_of(**changes)
    model = build_embedding_model(settings, N, R)
    weights = {
        name: torch.from_numpy(value).float() for name, value in step_of(Group(), changes, "whole")["weights"].items()
    }
    model.load_state_dict(weights)
    expected = rank(EmbeddingScorer(model, TRIPLES[:200]), TRIPLES[200:], KnownTails.from_splits([TRIPLES], R))
    np.testing.assert_array_equal(alone[0], expected.best)
    np.testing.assert_array_equal(alone[1], expected.worst)
    np.testing.assert_array_equal(alone[2], expected.candidates)


def test_what_is_not_trained_on_ranks_is_refused_in_words():
    for changes, word in (({"decoder": "rotate"}, "dot product"), ({"loss": "self-adversarial"}, "softmax")):
        with pytest.raises(SettingsError, match=word):
            step_of(
                Group(),
                {"model.relation_dim": 8, **changes} if "loss" in changes else {"model.relation_dim": 4, **changes},
                "whole",
            )
    with pytest.raises(SettingsError, match="each needs one at least"):
        Partition.even(10, 2, Group(0, 3))


def test_sums_over_ranks_are_pairwise_sums_over_shards():
    values = [torch.randn(5) for _ in range(8)]
    whole = pairwise_sum(values)
    for size in (2, 4):
        of_ranks = [pairwise_sum(values[rank::size]) for rank in range(size)]
        assert torch.equal(pairwise_sum(of_ranks), whole)
    assert torch.allclose(pairwise_sum(values[:5]), torch.stack(values[:5]).sum(0))

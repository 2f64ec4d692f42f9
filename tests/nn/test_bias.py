"""A number per candidate beside its score, and the distance that it can make of a dot product."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graphs import toy_dataset

from tuckerkg import api
from tuckerkg.config.build import build_batches, build_loss, build_model
from tuckerkg.config.toml import load_settings
from tuckerkg.kernels.comparison import Comparison
from tuckerkg.losses.objective import Objective
from tuckerkg.nn.embedding_scorer import EmbeddingScorer
from tuckerkg.nn.model import Model
from tuckerkg.training.callbacks import NullCallback


def model_with(bias: str, **more: object) -> Model:
    torch.manual_seed(0)
    settings = load_settings(
        None,
        {"model.dim": 6, "model.relation_dim": 6, "encoder": "none", "decoder": "distmult", "model.bias": bias, **more},
    )
    data = toy_dataset()
    model = build_model(settings, len(data.entities), len(data.relations)).double()
    if model.bias is not None:
        torch.nn.init.normal_(model.bias)
    return model


HEADS, RELATIONS = torch.tensor([0, 3, 7]), torch.tensor([1, 0, 2])


def scorer_of(model: Model) -> EmbeddingScorer:
    return EmbeddingScorer(model, np.empty((0, 3), dtype=np.int64))


class MinusDistance(Comparison):
    def __call__(self, queries: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        return -torch.cdist(queries, candidates)


def test_a_free_bias_is_added_to_every_score() -> None:
    model = model_with("free")
    scorer = scorer_of(model)
    plain = scorer.queries(HEADS, RELATIONS) @ model.entities.T
    assert torch.allclose(scorer.scores(HEADS, RELATIONS), plain + model.bias)


def test_scores_with_the_bias_of_a_distance_rank_as_the_distance() -> None:
    model = model_with("distance")
    scorer = scorer_of(model)
    queries = scorer.queries(HEADS, RELATIONS)
    distances = torch.cdist(queries, model.entities).square()
    rest = scorer.scores(HEADS, RELATIONS) - (model.bias - 0.5 * distances)
    assert torch.allclose(rest, 0.5 * queries.square().sum(1, keepdim=True).expand_as(rest))


def test_a_bias_goes_beside_a_comparison_that_is_no_dot_product() -> None:
    model = model_with("free")
    model.decoder.comparison = MinusDistance()
    scorer = scorer_of(model)
    expected = -torch.cdist(scorer.queries(HEADS, RELATIONS), model.entities) + model.bias
    assert torch.allclose(scorer.scores(HEADS, RELATIONS), expected)


def test_part_of_the_candidates_get_their_own_bias() -> None:
    model = model_with("distance")
    scorer = scorer_of(model)
    queries = scorer.queries(HEADS, RELATIONS)
    comparison, asked, candidates = model.comparison(queries, scorer.entities[4:6], slice(4, 6))
    assert torch.allclose(comparison(asked, candidates), scorer.compare(queries)[:, 4:6])


@pytest.mark.parametrize("batch", ["whole", "subgraph"])
def test_the_loss_reaches_the_bias_of_the_batchs_candidates(batch: str) -> None:
    model, data = model_with("free").float(), toy_dataset()
    settings = load_settings(None, {"batch": batch, **({"batch.triples": 5} if batch == "subgraph" else {})})
    loss = build_loss(settings)
    made = build_batches(settings, model, loss, data.train).batch(0)
    Objective(loss)(model, made).backward()
    reached = torch.zeros(len(data.entities), dtype=torch.bool)
    reached[slice(None) if made.entity_ids is None else made.entity_ids] = True
    assert torch.equal(model.bias.grad != 0, reached)


def test_biases_count_among_the_embeddings() -> None:
    plain, biased = model_with("none").counts(), model_with("free").counts()
    assert biased.efp == plain.efp + len(toy_dataset().entities)
    assert biased.nfp == plain.nfp


def test_a_run_with_a_bias_predicts_with_probabilities(tmp_path) -> None:
    changes = {"model.dim": 6, "model.relation_dim": 6, "model.bias": "free", "train.epochs": 3.0, "train.threads": 1}
    run = api.train(toy_dataset(), out=tmp_path / "run", overrides=changes, callback=NullCallback())
    facts = run.predict(head="e000", relation="plus1", k=3)
    assert len(facts) == 3
    assert all(0 < fact.probability < 1 for fact in facts)

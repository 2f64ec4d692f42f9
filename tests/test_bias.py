"""A number per candidate beside its score, and the distance that it can make of a dot product."""

from __future__ import annotations

import pytest
import torch
from graphs import toy_dataset

from tuckerkg import api
from tuckerkg.batches import TrainingGraph
from tuckerkg.config import build_batches, build_loss, build_model, load_settings
from tuckerkg.model import Model
from tuckerkg.training import Silent


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


def test_a_free_bias_is_added_to_every_score() -> None:
    model = model_with("free")
    tables = model.encoded(None)
    plain = tables.queries(HEADS, RELATIONS) @ model.entities.T
    assert torch.allclose(tables.scores(HEADS, RELATIONS), plain + model.bias)


def test_scores_with_the_bias_of_a_distance_rank_as_the_distance() -> None:
    model = model_with("distance")
    tables = model.encoded(None)
    queries = tables.queries(HEADS, RELATIONS)
    distances = torch.cdist(queries, model.entities).square()
    rest = tables.scores(HEADS, RELATIONS) - (model.bias - 0.5 * distances)
    assert torch.allclose(rest, 0.5 * queries.square().sum(1, keepdim=True).expand_as(rest))


def test_a_bias_goes_beside_a_comparison_that_is_no_dot_product() -> None:
    model = model_with("free")
    model.decoder.compare = lambda queries, candidates: -torch.cdist(queries, candidates)
    tables = model.encoded(None)
    expected = -torch.cdist(tables.queries(HEADS, RELATIONS), model.entities) + model.bias
    assert torch.allclose(tables.scores(HEADS, RELATIONS), expected)


def test_part_of_the_candidates_get_their_own_bias() -> None:
    tables = model_with("distance").encoded(None)
    queries = tables.queries(HEADS, RELATIONS)
    assert torch.allclose(tables.compare(queries, slice(4, 6)), tables.compare(queries)[:, 4:6])


@pytest.mark.parametrize("batch", ["whole", "subgraph"])
def test_the_loss_reaches_the_bias_of_the_batchs_candidates(batch: str) -> None:
    model, data = model_with("free").float(), toy_dataset()
    settings = load_settings(None, {"batch": batch, **({"batch.triples": 5} if batch == "subgraph" else {})})
    batches = build_batches(settings, TrainingGraph(data.train, len(data.entities), len(data.relations), 0))
    made = batches.batch(0)
    model.loss(made, build_loss(settings)).backward()
    reached = torch.zeros(len(data.entities), dtype=torch.bool)
    reached[slice(None) if made.entity_ids is None else made.entity_ids] = True
    assert torch.equal(model.bias.grad != 0, reached)


def test_biases_count_among_the_embeddings() -> None:
    plain, biased = model_with("none").counts(), model_with("free").counts()
    assert biased.efp == plain.efp + len(toy_dataset().entities)
    assert biased.nfp == plain.nfp


def test_a_run_with_a_bias_predicts_with_probabilities(tmp_path) -> None:
    changes = {"model.dim": 6, "model.relation_dim": 6, "model.bias": "free", "train.epochs": 3.0, "train.threads": 1}
    run = api.train(toy_dataset(), out=tmp_path / "run", overrides=changes, observer=Silent())
    facts = run.predict(head="e000", relation="plus1", k=3)
    assert len(facts) == 3
    assert all(0 < fact.probability < 1 for fact in facts)

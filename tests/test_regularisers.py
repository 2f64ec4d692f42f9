"""Regularisers against a loop over the triples of a batch, gradients included."""

from __future__ import annotations

import pytest
import torch
from graphs import toy_dataset

from tuckerkg.batches import TrainingGraph
from tuckerkg.config import build_batches, build_loss, build_model, load_settings
from tuckerkg.regularisers import DURA, N3, REGULARISERS, NoRegulariser, Triples


def triples():
    generator = torch.Generator().manual_seed(0)
    heads, relations, queries, candidates = (
        torch.randn(rows, width, dtype=torch.double, generator=generator, requires_grad=True)
        for rows, width in ((3, 4), (3, 2), (3, 4), (6, 4))
    )
    return Triples(
        heads, relations, queries, candidates, torch.tensor([2.0, 0.0, 1.0]).double(), torch.tensor([5, 1, 5])
    )


@pytest.mark.parametrize(
    ("regulariser", "one"),
    [
        (N3(weight=0.7), lambda h, r, q, t: sum(v.abs().pow(3).sum() for v in (h, r, t))),
        (DURA(weight=0.7), lambda h, r, q, t: sum(v.square().sum() for v in (q, t))),
    ],
    ids=["n3", "dura"],
)
def test_the_penalty_is_the_mean_over_triples(regulariser, one):
    given = triples()
    naive = 0.0
    for query, tail in ((0, 5), (0, 1), (2, 5)):
        naive = naive + one(given.heads[query], given.relations[query], given.queries[query], given.candidates[tail])
    naive = 0.7 * naive / 3
    ours = regulariser(given)
    assert torch.allclose(ours, naive)
    leaves = [given.heads, given.relations, given.queries, given.candidates]
    for mine, other in zip(
        torch.autograd.grad(ours, leaves, allow_unused=True),
        torch.autograd.grad(naive, leaves, allow_unused=True),
        strict=True,
    ):
        assert (mine is None) == (other is None)
        assert mine is None or torch.allclose(mine, other)


@pytest.mark.parametrize("name", REGULARISERS)
def test_a_weight_adds_the_penalty_to_the_loss(name):
    data = toy_dataset()
    settings = load_settings(None, {"regulariser": name, "model.dim": 8, "model.relation_dim": 8, "encoder": "none"})
    torch.manual_seed(0)
    model = build_model(settings, len(data.entities), len(data.relations)).eval()
    batch = build_batches(settings, TrainingGraph(data.train, len(data.entities), len(data.relations), 0)).batch(0)
    loss = build_loss(settings)
    options = {} if name == "none" else {"weight": 0.5}
    with_it = model.loss(batch, loss, regulariser=REGULARISERS[name](**options)).item()
    without = model.loss(batch, loss).item()
    assert (with_it == without) if name == "none" else (with_it > without)


def test_no_regulariser_is_zero():
    assert NoRegulariser()(triples()).item() == 0.0


def test_n3_of_complex_numbers_is_taken_over_their_moduli():
    data = toy_dataset()
    settings = load_settings(
        None, {"model.dim": 4, "model.relation_dim": 4, "encoder": "none", "decoder": "complex", "batch.queries": 999}
    )
    model = build_model(settings, len(data.entities), len(data.relations)).double()
    batch = build_batches(settings, TrainingGraph(data.train, len(data.entities), len(data.relations), 0)).batch(0)
    loss = build_loss(settings)
    penalty = (model.loss(batch, loss, regulariser=N3(weight=1.0)) - model.loss(batch, loss)).item()
    expected = 0.0
    for query, (head, relation) in enumerate(zip(batch.heads.tolist(), batch.relation_ids.tolist(), strict=True)):
        for tail in batch.positives[batch.offsets[query] : batch.offsets[query + 1]].tolist():
            for row in (model.entities[head], model.relations[relation], model.entities[tail]):
                expected += sum((row[i] ** 2 + row[i + 2] ** 2).item() ** 1.5 for i in range(2))
    assert penalty == pytest.approx(expected / len(batch.positives))

"""Regularizers against a loop over the triples of a batch, gradients included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graphs import toy_dataset

from tuckerkg import api
from tuckerkg.batches.batch import Batch
from tuckerkg.config.build import build_batches, build_loss, build_model, build_objective
from tuckerkg.config.toml import load_settings
from tuckerkg.errors import SettingsError
from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.losses.objective import Objective
from tuckerkg.losses.regularizers import DURA, L2, N3, REGULARIZERS, BatchVectors, L2Encoded, Orthogonality
from tuckerkg.nn.decoders import RESCAL, DistMult, TuckER

NORM = DistMult(4, 4)  # its norms are over the numbers themselves


def vectors() -> BatchVectors:
    """Three queries, of which the first has two tails, the second none and the third one."""
    generator = torch.Generator().manual_seed(0)
    embeddings, relation_embeddings, heads, queries, candidates, relations = (
        torch.randn(rows, width, dtype=torch.double, generator=generator, requires_grad=True)
        for rows, width in ((6, 3), (4, 2), (3, 4), (3, 4), (6, 4), (4, 2))
    )
    ids = torch.tensor([1, 0, 3])
    offsets, positives = torch.tensor([0, 2, 2, 3]), torch.tensor([5, 1, 5])
    batch = Batch(None, None, torch.tensor([0, 1, 2]), ids, offsets, positives, RowGroups.of(ids))
    return BatchVectors(batch, embeddings, relation_embeddings, heads, queries, candidates, relations)


def leaves(given: BatchVectors) -> list[torch.Tensor]:
    return [
        given.embeddings, given.relation_embeddings, given.heads, given.queries, given.candidates, given.relations
    ]  # fmt: skip


def assert_equal_with_gradients(ours, naive, given):
    assert torch.allclose(ours, naive)
    for mine, other in zip(
        torch.autograd.grad(ours, leaves(given), allow_unused=True),
        torch.autograd.grad(naive, leaves(given), allow_unused=True),
        strict=True,
    ):
        assert (mine is None) == (other is None)
        assert mine is None or torch.allclose(mine, other)


@pytest.mark.parametrize(
    ("regularizer", "one"),
    [
        (N3(0.7, NORM), lambda h, r, q, t: sum(v.abs().pow(3).sum() for v in (h, r, t))),
        (DURA(0.7, NORM), lambda h, r, q, t: sum(v.square().sum() for v in (q, t))),
    ],
    ids=["n3", "dura"],
)
def test_the_penalty_is_the_mean_over_triples(regularizer, one):
    given = vectors()
    naive = 0.0
    for query, tail in ((0, 5), (0, 1), (2, 5)):
        relation = given.relations[given.batch.relation_ids[query]]
        naive = naive + one(given.heads[query], relation, given.queries[query], given.candidates[tail])
    assert_equal_with_gradients(regularizer(given), 0.7 * naive / 3, given)


@pytest.mark.parametrize(
    ("regularizer", "parts"),
    [(L2(0.7, NORM), (0, 1)), (L2Encoded(0.7, NORM), (4, 5))],
    ids=["before the encoder", "after it"],
)
def test_l2_is_the_mean_square_of_entities_and_relations(regularizer, parts):
    given = vectors()
    naive = 0.0
    for table in (leaves(given)[part] for part in parts):
        naive = naive + sum(number**2 for row in table for number in row) / table.numel()
    assert_equal_with_gradients(regularizer(given), 0.7 * naive, given)


@pytest.mark.parametrize("name", REGULARIZERS)
def test_a_weight_adds_the_penalty_to_the_loss(name):
    data, values = toy_dataset(), []
    for weight in (0.5, 0.0):
        settings = load_settings(
            None, {f"regularizer.{name}": weight, "model.dim": 8, "model.relation_dim": 8, "encoder": "none"}
        )
        torch.manual_seed(0)
        model = build_model(settings, len(data.entities), len(data.relations)).eval()
        objective = build_objective(settings, model)
        batch = build_batches(settings, model, objective.loss, data.train).batch(0)
        values.append(objective(model, batch).item())
        assert [type(regularizer) for regularizer in objective.regularizers] == [REGULARIZERS[name]] * bool(weight)
        assert objective.regularizers or values[-1] == Objective(build_loss(settings))(model, batch).item()
    with_it, without = values
    assert with_it > without


def test_n3_of_complex_numbers_is_taken_over_their_moduli():
    data = toy_dataset()
    settings = load_settings(
        None, {"model.dim": 4, "model.relation_dim": 4, "encoder": "none", "decoder": "complex", "batch.queries": 999}
    )
    model = build_model(settings, len(data.entities), len(data.relations)).double()
    loss = build_loss(settings)
    batch = build_batches(settings, model, loss, data.train).batch(0)
    penalty = (Objective(loss, [N3(1.0, model.decoder)])(model, batch) - Objective(loss)(model, batch)).item()
    expected = 0.0
    for query, (head, relation) in enumerate(zip(batch.heads.tolist(), batch.relation_ids.tolist(), strict=True)):
        for tail in batch.positives[batch.offsets[query] : batch.offsets[query + 1]].tolist():
            for row in (model.entities[head], model.relations[relation], model.entities[tail]):
                expected += sum((row[i] ** 2 + row[i + 2] ** 2).item() ** 1.5 for i in range(2))
    assert penalty == pytest.approx(expected / len(batch.positives))


def penalty_of(decoder, relations: torch.Tensor) -> float:
    """Half of the penalty on a batch that asks for every one of ``relations``."""
    ids = torch.arange(len(relations))
    none = torch.empty(0)
    batch = Batch(None, None, ids, ids, torch.zeros(len(ids) + 1, dtype=torch.long), ids[:0], RowGroups.of(ids))
    return Orthogonality(0.5, decoder)(BatchVectors(batch, none, none, none, none, none, relations)).item()


def test_orthogonal_relation_matrices_have_no_penalty_and_others_the_printed_one():
    decoder = TuckER(3, 2).double()
    rotation = torch.linalg.qr(torch.randn(3, 3, dtype=torch.double)).Q
    stretched = torch.diag(torch.tensor([2.0, 1.0, 1.0], dtype=torch.double))
    decoder.core.core.data = torch.stack([rotation, stretched])  # unit relation vectors select these matrices
    relations = torch.eye(2, dtype=torch.double)
    assert penalty_of(decoder, relations[:1]) == pytest.approx(0.0, abs=1e-12)
    # W^T W - I of the second is diag(3, 0, 0): 9, a mean over two relations, divided by d = 3
    assert penalty_of(decoder, relations) == pytest.approx(0.5 * 9.0 / 2 / 3)
    rows = torch.stack([rotation.flatten(), stretched.flatten()])
    assert penalty_of(RESCAL(3, 9), rows) == pytest.approx(0.5 * 9.0 / 2 / 3)


def test_the_penalty_is_part_of_the_loss_when_asked_for():
    values = []
    for weight in (0.0, 0.7):
        torch.manual_seed(0)
        changes = {"encoder": "none", "model.dim": 4, "model.relation_dim": 3, "batch.queries": 8}
        settings = load_settings(None, changes | {"regularizer.orthogonality": weight})
        model = build_model(settings, 20, 2)
        triples = np.array([[i, i % 2, i + 1] for i in range(19)])
        objective = build_objective(settings, model)
        batch = build_batches(settings, model, objective.loss, triples).batch(0)
        values.append(objective(model, batch).item())
    asked = torch.unique(batch.relation_ids)
    matrices = torch.einsum("rj,jik->rik", model.relations[asked], model.decoder.core.core)
    excess = matrices.mT @ matrices - torch.eye(4)
    expected = 0.7 * excess.square().sum((1, 2)).mean().item() / 4
    assert values[1] - values[0] == pytest.approx(expected, rel=1e-4)


def test_orthogonality_is_refused_where_a_relation_has_no_matrix(tmp_path):
    settings = load_settings(
        None, {"regularizer.orthogonality": 0.1, "encoder": "none", "decoder": "distmult", "model.dim": 4,
               "model.relation_dim": 4}
    )  # fmt: skip
    with pytest.raises(SettingsError, match=r"regularizer\.orthogonality.*distmult.*such as tucker"):
        build_objective(settings, build_model(settings, 5, 2))
    with pytest.raises(SettingsError, match=r"regularizer\.orthogonality"):
        api.prepare(toy_dataset(), settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()

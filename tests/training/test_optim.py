"""Lazy optimizers: rows that a step used move as the formula says, all others stay, with their state."""

from __future__ import annotations

import pytest
import torch
from graphs import toy_dataset

from tuckerkg.config.build import build_batches, build_model, build_objective
from tuckerkg.config.settings import LAZY
from tuckerkg.config.toml import load_settings
from tuckerkg.errors import SettingsError
from tuckerkg.training.optim import ModelOptimizer, RowwiseAdagrad

SUBGRAPH = {"model.dim": 8, "model.relation_dim": 8, "batch": "subgraph", "batch.triples": 6, "batch.positives": 3}


def stepped(name, steps, l2=0.0, clip=0.0):
    """A small model after ``steps`` steps, and the rows that each of them used."""
    changes = {**SUBGRAPH, "train.optimizer": name, "train.seed": 1, "regularizer.l2": l2}
    data, settings = toy_dataset(), load_settings(None, changes)
    torch.manual_seed(0)
    model = build_model(settings, len(data.entities), len(data.relations))
    start = model.entities.detach().clone()
    objective = build_objective(settings, model)
    batches = build_batches(settings, model, objective.loss, data.train)
    optimizer, used = ModelOptimizer(model, name, 0.05), []
    for step in range(steps):
        batch = batches.batch(step)
        optimizer.zero_grad()
        objective(model, batch).backward()
        optimizer.clip(clip)
        optimizer.step()
        used.append(batch.entity_ids)
    return model, start, used, optimizer


@pytest.mark.parametrize("name", LAZY)
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_only_the_rows_of_the_batch_move(name, l2):
    model, start, (used,), optimizer = stepped(name, 1, l2)
    moved = (model.entities != start).any(1).nonzero()[:, 0]
    assert torch.equal(moved, used)
    assert len(used) < len(start)
    state = next(tensor for key, tensor in optimizer.tensors().items() if key in ("entities:exp_avg", "entities:sum"))
    touched = state.view(len(start), -1).abs().sum(1) > 0
    assert torch.equal(touched.nonzero()[:, 0], used)


@pytest.mark.parametrize("clip", [0.0, 0.01])
def test_the_gradient_of_the_rows_is_that_of_the_whole_table(clip):
    lazy, _, (used,), _ = stepped("lazy-adam", 1, 0.1, clip)
    dense, *_ = stepped("adam", 1, 0.1, clip)
    assert torch.equal(lazy.entities.grad.indices()[0], used)
    assert torch.allclose(lazy.entities.grad.to_dense(), dense.entities.grad, rtol=1e-5, atol=1e-9)


def test_rowwise_adagrad_by_hand():
    table = torch.nn.Parameter(torch.zeros(4, 2))
    optimizer = RowwiseAdagrad([table], lr=0.5)
    for values in ([[3.0, 1.0], [1.0, 1.0]], [[0.0, 2.0], [1.0, 1.0]]):
        table.grad = torch.sparse_coo_tensor([[2, 0]], values, (4, 2), check_invariants=True)
        optimizer.step()
    first, second = 5.0**0.5, (5.0 + 2.0) ** 0.5
    expected = [-0.5 * 3 / first, -0.5 * (1 / first + 2 / second)]
    assert table[2].tolist() == pytest.approx(expected)
    assert table[1].tolist() == table[3].tolist() == [0.0, 0.0]
    assert optimizer.state[table]["sum"].tolist() == pytest.approx([2.0, 0.0, 7.0, 0.0])


@pytest.mark.parametrize("name", ["adam", "adagrad", *LAZY])
def test_clipping_scales_all_gradients_to_the_limit(name):
    changes = {**SUBGRAPH, "train.optimizer": name, "regularizer.l2": 0.1}
    data, settings = toy_dataset(), load_settings(None, changes)
    model = build_model(settings, len(data.entities), len(data.relations))
    optimizer = ModelOptimizer(model, name, 0.05)
    objective = build_objective(settings, model)
    batch = build_batches(settings, model, objective.loss, data.train).batch(0)
    (1e4 * objective(model, batch)).backward()
    before = {key: p.grad.to_dense().clone() for key, p in model.named_parameters() if p.grad is not None}
    norm = optimizer.clip(2.0)
    assert norm.item() == pytest.approx(torch.cat([g.flatten() for g in before.values()]).norm().item(), rel=1e-5)
    after = {key: p.grad.to_dense() for key, p in model.named_parameters() if p.grad is not None}
    assert torch.cat([g.flatten() for g in after.values()]).norm().item() == pytest.approx(2.0, rel=1e-4)
    assert all(torch.allclose(after[key], before[key] * 2.0 / norm, rtol=1e-4) for key in before)


@pytest.mark.parametrize("name", LAZY)
def test_lazy_optimisers_are_refused_where_every_row_is_used(name):
    with pytest.raises(SettingsError, match=r"set batch\.name=subgraph"):
        load_settings(None, {"train.optimizer": name, "batch": "whole"})

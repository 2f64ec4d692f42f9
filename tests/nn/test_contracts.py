"""What every encoder x decoder x loss x batch must do, over the registries."""

from __future__ import annotations

import itertools
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from graphs import toy_dataset

from tuckerkg import api
from tuckerkg.batches import BATCHES
from tuckerkg.config.build import build_batches, build_model, build_objective
from tuckerkg.config.settings import REGISTRIES
from tuckerkg.config.toml import load_settings
from tuckerkg.inference.run import Run, load
from tuckerkg.losses import LOSSES
from tuckerkg.losses.regularizers import REGULARIZERS
from tuckerkg.nn.decoders import DECODERS
from tuckerkg.nn.embedding_scorer import EmbeddingScorer
from tuckerkg.nn.encoders import ENCODERS
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import NullCallback
from tuckerkg.training.signals import TrainingInterrupted

MODELS = list(itertools.product(ENCODERS, DECODERS))
ALL = list(itertools.product(ENCODERS, DECODERS, LOSSES, BATCHES))
RELATION_DIM = {"rotate": 4, "rescal": 64}
OPTIONS = {"conve": {"decoder.height": 2, "decoder.kernel": 2}}


def small(encoder, decoder):
    """Settings of a model of width 8, with relations as wide as the decoder needs them."""
    relation_dim = RELATION_DIM.get(decoder, 8)
    settings = {"encoder": encoder, "decoder": decoder, "model.dim": 8, **OPTIONS.get(decoder, {})}
    if encoder == "compgcn":
        return settings | {"model.relation_dim": 8, "encoder.out_relation_dim": relation_dim}
    return settings | {"model.relation_dim": relation_dim}


def build(encoder, decoder, seed=0):
    torch.manual_seed(seed)
    data = toy_dataset()
    model = build_model(load_settings(None, small(encoder, decoder)), len(data.entities), len(data.relations))
    return data, model.double()


def scorer_of(model, train):
    return EmbeddingScorer(model.float(), train)


@pytest.mark.parametrize(("encoder", "decoder"), MODELS)
def test_shapes(encoder, decoder):
    data, model = build(encoder, decoder)
    scorer = scorer_of(model, data.train)
    scores = scorer.scores(torch.tensor([0, 3]), torch.tensor([1, 5]))
    assert scorer.entities.shape[0] == len(data.entities)
    assert scorer.relations.shape[0] == 2 * len(data.relations)
    assert scores.shape == (2, len(data.entities))


@pytest.mark.parametrize(("encoder", "decoder"), MODELS)
def test_one_score_equals_its_entry_in_the_all_tails_matrix(encoder, decoder):
    data, model = build(encoder, decoder)
    scorer = scorer_of(model, data.train)
    heads, relation_ids = torch.tensor([0, 3, 7, 7]), torch.tensor([1, 5, 0, 0])
    whole = scorer.scores(heads, relation_ids)
    for row in range(4):
        single = scorer.scores(heads[row : row + 1], relation_ids[row : row + 1])[0]
        assert torch.allclose(single, whole[row], atol=1e-5)


@pytest.mark.parametrize(("encoder", "decoder"), MODELS)
def test_relabelling_entities_permutes_the_scores(encoder, decoder):
    data, model = build(encoder, decoder)
    before = scorer_of(model, data.train).scores(torch.tensor([2]), torch.tensor([0]))[0]
    permutation = torch.randperm(len(data.entities))  # entity i is called permutation[i] now
    train = data.train.copy()
    train[:, 0], train[:, 2] = permutation[train[:, 0]], permutation[train[:, 2]]
    with torch.no_grad():
        model.entities.copy_(model.entities[torch.argsort(permutation)])
    after = scorer_of(model, train).scores(permutation[[2]], torch.tensor([0]))[0]
    assert torch.allclose(before, after[permutation], atol=1e-5)


@pytest.mark.parametrize(("encoder", "decoder", "loss", "batch"), ALL)
def test_every_parameter_gets_a_gradient(encoder, decoder, loss, batch):
    data, model = build(encoder, decoder)
    model.float()
    changes = {**small(encoder, decoder), "loss": loss, "batch": batch, "regularizer.l2": 0.01}
    settings = load_settings(None, changes)
    objective = build_objective(settings, model)
    batches = build_batches(settings, model, objective.loss, data.train)
    objective(model, batches.batch(0)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


def small_run(encoder, decoder, loss, batch):
    """Settings of a short training on the toy graph."""
    overrides = {
        **small(encoder, decoder), "loss": loss, "batch": batch,
        "train.epochs": 12.0, "train.evaluate_every": 6.0, "train.lr": 0.03, "train.threads": 1,
    }  # fmt: skip
    return overrides | ({"batch.triples": 40, "batch.positives": 25} if batch == "subgraph" else {})


@pytest.mark.parametrize(("encoder", "decoder", "loss", "batch"), ALL)
def test_trains_saves_loads_evaluates_predicts(tmp_path, encoder, decoder, loss, batch):
    settings = load_settings(None, small_run(encoder, decoder, loss, batch))
    folder = api.train_to_end(api.prepare(toy_dataset(), settings, tmp_path / "run"), NullCallback())
    run, again = (Run(opened, calibrated=False) for opened in (folder, RunFolder.open(tmp_path / "run")))
    curve = [row["loss"] for row in run.metrics]
    assert curve[-1] < curve[0]
    ours, theirs = (one.scorer.scores(torch.tensor([0]), torch.tensor([0])) for one in (run, again))
    assert torch.equal(ours, theirs)
    assert again.evaluate("test").overall.queries == 2 * len(toy_dataset().test)
    assert again.evaluate("valid").mrr == pytest.approx(run.state["best_mrr"], abs=1e-12)
    assert len(again.predict(head="e000", relation="plus1", k=3)) == 3


@pytest.mark.parametrize(("encoder", "decoder"), MODELS)
def test_answers_have_probabilities(tmp_path, encoder, decoder):
    overrides = small_run(encoder, decoder, next(iter(LOSSES)), next(iter(BATCHES)))
    run = api.train(toy_dataset(), out=tmp_path / "run", overrides=overrides, callback=NullCallback())
    ours, theirs = (one.predict(head="e000", relation="plus1", k=3) for one in (run, load(tmp_path / "run")))
    assert [answer.probability for answer in ours] == [answer.probability for answer in theirs]
    assert all(0 < answer.probability < 1 for answer in ours)


class StopsAtTheFirstLook(NullCallback):
    def validated(self, epoch, evaluation, is_best):
        raise TrainingInterrupted(signal.SIGTERM)


@pytest.mark.parametrize(("encoder", "decoder"), MODELS)
def test_a_run_that_was_stopped_ends_with_the_same_weights(tmp_path, encoder, decoder):
    overrides = {
        **small(encoder, decoder), "train.epochs": 4.0, "train.evaluate_every": 2.0, "train.threads": 1,
        "batch.queries": 16, "dataset": "ring",
    }  # fmt: skip
    settings = load_settings(None, overrides)
    whole = api.train_to_end(api.prepare(toy_dataset(), settings, tmp_path / "whole"), NullCallback())
    stopped = api.prepare(toy_dataset(), settings, tmp_path / "stopped")
    with pytest.raises(TrainingInterrupted):
        api.train_to_end(stopped, StopsAtTheFirstLook())
    again = api.train_to_end(RunFolder.open(tmp_path / "stopped"), NullCallback())
    for name, tensor in whole.checkpoints.newest().weights.items():
        assert torch.equal(tensor, again.checkpoints.newest().weights[name]), name


def test_every_component_has_a_test_file_that_names_it():
    files = Path(__file__).parents[1].rglob("test_*.py")
    words = {word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}
    for registry in (*REGISTRIES.values(), REGULARIZERS):
        for component in registry.values():
            assert component.__name__ in words, f"no test file names {component.__name__}"


def test_scores_do_not_depend_on_the_order_of_the_triples():
    data, model = build("tgcn", "tucker")
    one = scorer_of(model, data.train).entities
    other = scorer_of(model, data.train[np.random.default_rng(1).permutation(len(data.train))]).entities
    assert torch.allclose(one, other, atol=1e-5)

"""The committee: pooling, what members see, training in a folder as in memory, resuming, probabilities."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from people import write_molecules, write_people

from tuckerkg.config.settings import parse_settings
from tuckerkg.config.toml import put_all
from tuckerkg.errors import SettingsError, TuckerkgError
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.tasks.choosing import base_settings
from tuckerkg.tasks.classify import LabelOptions, prepare_task, read_task_files, train_task
from tuckerkg.tasks.comparing import compare_class_runs, mcnemar
from tuckerkg.tasks.figures import judge
from tuckerkg.tasks.model import Committee, Pool, message_graph
from tuckerkg.tasks.probabilities import fit_probabilities, unseen_scores
from tuckerkg.tasks.run import UNSURE, load_class_run
from tuckerkg.tasks.training import LabelBatches, LabelLoop, LabelObjective, fit_labels, try_settings
from tuckerkg.training.callbacks import NullCallback
from tuckerkg.training.signals import TrainingInterrupted

SMALL = {"model.dim": 8, "model.relation_dim": 8, "encoder.bases": 4, "train.epochs": 12.0, "train.threads": 1,
         "classify.members": 3, "classify.dropout": 0.2}  # fmt: skip


def settings_of(kind, **changes):
    return parse_settings(put_all(base_settings(kind, "toy"), {**SMALL, **changes}))


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    graph, labels = write_people(tmp_path_factory.mktemp("people"))
    return read_task_files(str(graph), LabelOptions(labels=labels, target="group"))


@pytest.fixture(scope="module")
def run(people, tmp_path_factory):
    place = tmp_path_factory.mktemp("run") / "people"
    return train_task(people, settings_of("nodes"), place, NullCallback())


@pytest.mark.parametrize("readout", ["sum", "mean", "attention"])
def test_pooling_is_what_a_loop_over_graphs_gives(readout):
    torch.manual_seed(0)
    pool = Pool(5, readout).double()
    nodes = torch.randn(7, 5, dtype=torch.double, requires_grad=True)
    graph_of = torch.tensor([0, 2, 0, 2, 2, 0, 1])
    found = pool(nodes, graph_of, 3)
    for graph in range(3):
        own = nodes[graph_of == graph]
        if readout == "sum":
            expected = own.sum(0)
        elif readout == "mean":
            expected = own.mean(0)
        else:
            expected = (F.softmax(pool.attention(own)[:, 0], 0)[:, None] * own).sum(0)
        torch.testing.assert_close(found[graph], expected, rtol=1e-12, atol=1e-12)
        gradients = [
            torch.autograd.grad(each.square().sum(), nodes, retain_graph=True)[0] for each in (found[graph], expected)
        ]
        torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


def test_a_member_learns_nothing_from_the_labels_of_its_own_fold(people):
    task = people.task
    model = Committee(task, settings_of("nodes", **{"classify.dropout": 0.0}))
    batch = LabelBatches(task, model).whole
    objective = LabelObjective(0.0)

    def gradients(label):
        model.zero_grad()
        objective(model, replace(batch, label=label)).backward()
        return [member.starts.grad.clone() for member in model.members]

    before = gradients(batch.label)
    turned = torch.where(batch.fold == 1, 1 - batch.label, batch.label)
    after = gradients(turned)
    assert [bool((a == b).all()) for a, b in zip(before, after, strict=True)] == [False, True, False]


def test_what_is_minimized_is_written_as_it_is_said(people):
    model = Committee(people.task, settings_of("nodes", **{"classify.dropout": 0.0}))
    batch = LabelBatches(people.task, model).whole
    expected = 0.0
    for number, member in enumerate(model.members):
        scores = member(batch.graph, model.known)[batch.heads]
        rows = zip(scores, batch.label, batch.fold, strict=True)
        losses = [-F.log_softmax(row, 0)[label] for row, label, fold in rows if fold != number]
        expected += sum(losses) / len(losses)
    expected += 0.5 * 0.01 * sum(parameter.square().sum() for parameter in model.parameters())
    torch.testing.assert_close(LabelObjective(0.01)(model, batch), expected)


def test_a_run_folder_has_the_numbers_of_a_trial_in_memory(people, run):
    trial = try_settings(people.task, settings_of("nodes"))
    rows = [row["valid"]["likelihood"] for row in run.folder.metrics.rows()]
    assert max(rows) == trial.judgement.likelihood


def test_an_interrupted_run_ends_with_the_same_bits(people, run, tmp_path, monkeypatch):
    folder = prepare_task(people, settings_of("nodes"), tmp_path / "run")
    step = LabelLoop._step

    def interrupted(self, batch):
        step(self, batch)
        if self.state.step == 7:
            raise TrainingInterrupted(15)

    monkeypatch.setattr(LabelLoop, "_step", interrupted)
    with pytest.raises(TrainingInterrupted):
        fit_labels(folder)
    monkeypatch.setattr(LabelLoop, "_step", step)
    fit_labels(RunFolder.open(folder.path))
    resumed, whole = (found.checkpoints.weights("newest").weights for found in (folder, run.folder))
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


def test_it_tells_classes_that_the_graph_knows(run):
    assert run.evaluate("valid").judgement.accuracy > 0.85
    assert run.evaluate("test").judgement.count == 8
    found = run.predict(["p00", "p01"])
    assert [each.best for each in found] == ["blue", "red"]
    assert all(abs(sum(each.probabilities.values()) - 1.0) < 1e-9 for each in found)
    assert {each.item for each in run.predict()} == {f"p{number:02}" for number in range(40)}
    frame = run.predict().to_frame()
    assert {"item", "class", "probability", "known", "p(blue)", "p(red)"} <= set(frame.columns)


def test_what_is_not_probable_enough_is_unsure(run):
    sure = replace(run.fitted, threshold=1.5)
    other = load_class_run(run.path)
    other.__dict__["fitted"] = sure
    assert {each.told for each in other.predict()} == {UNSURE}
    assert other.evaluate("valid").answered == 0.0


def test_the_threshold_keeps_the_allowed_error():
    torch.manual_seed(1)
    label = torch.randint(3, (400,))
    scores = F.one_hot(label, 3) * 2.0 + torch.randn(400, 3)
    fitted = fit_probabilities(scores, label, allowed_error=0.05)
    shares = fitted.of(scores[None])
    said, told = shares.max(1)
    answered = said >= fitted.threshold
    assert 0.3 < fitted.answered < 1.0
    assert (told[answered] != label[answered]).double().mean() == pytest.approx(fitted.error)
    assert fitted.error <= 0.05
    losses = [F.cross_entropy(scores.double() / (times * fitted.temperature), label) for times in (0.9, 1.0, 1.1)]
    assert losses[1] == min(losses)


def test_every_label_is_judged_by_the_member_that_did_not_see_it():
    scores = torch.arange(3 * 4 * 2).view(3, 4, 2).float()
    found = unseen_scores(scores, torch.tensor([2, 0, 1, 2]))
    assert torch.equal(found, torch.stack([scores[2, 0], scores[0, 1], scores[1, 2], scores[2, 3]]))


def test_figures_against_counting():
    shares = torch.tensor([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1], [0.2, 0.8]], dtype=torch.double)
    found = judge(shares, torch.tensor([0, 0, 1, 1]), ("a", "b"))
    assert found.confusion == ((1, 1), (1, 1))
    assert (found.accuracy, found.macro_f1, found.count) == (0.5, 0.5, 4)
    assert found.likelihood == pytest.approx((0.7 * 0.4 * 0.1 * 0.8) ** 0.25)
    assert found.calibration_error == pytest.approx((0.3 + 0.6 + 0.9 + 0.2) / 4)


def test_an_explanation_says_what_deleting_each_fact_leaves(run):
    found = run.explain("p03", 3)
    assert len(found.facts) == 3
    assert found.facts == tuple(sorted(found.facts, key=lambda each: each[1]))
    place = run.task.classes.index(found.told)
    row = next(row for row in range(len(run.task.triples)) if run._fact(row) == found.facts[0][0])
    without = replace(run.task, triples=run.task.triples[torch.arange(len(run.task.triples)).numpy() != row])
    with torch.no_grad():  # the same starts, over a graph that never had the fact
        scores = run.model(message_graph(without, run.model))
    left = run.fitted.of(scores)[run.items.id_of("p03"), place]
    assert float(left) == pytest.approx(found.facts[0][1], abs=1e-5)


@pytest.mark.parametrize("encoder", ["rgcn", "tgcn", "compgcn", "sacn"])
def test_every_encoder_classifies_graphs(tmp_path, encoder):
    read = read_task_files(str(write_molecules(tmp_path)), LabelOptions())
    small = {key: value for key, value in SMALL.items() if key != "encoder.bases"}
    values = put_all(base_settings("graphs", "toy", 0, {"name": encoder}), {**small, "train.epochs": 40.0})
    run = train_task(read, parse_settings(values), tmp_path / "run", NullCallback())
    assert run.evaluate("valid").judgement.accuracy > 0.8
    assert run.evaluate("test").judgement.count == 4
    assert run.explain("01", 2).item == "01"


@pytest.mark.parametrize("readout", ["sum", "mean", "attention"])
def test_every_readout_classifies_graphs(tmp_path, readout):
    read = read_task_files(str(write_molecules(tmp_path)), LabelOptions())
    run = train_task(read, settings_of("graphs", **{"classify.readout": readout, "train.epochs": 40.0}))
    assert [member.pool.readout for member in run.model.members] == [readout] * 3
    assert any("attention" in name for name, _ in run.model.named_parameters()) == (readout == "attention")
    assert run.evaluate("valid").judgement.accuracy > 0.8


def test_settings_of_another_kind_are_refused():
    for key, value in (("decoder", "distmult"), ("paths.width", 8), ("ranks.shards", 2), ("regularizer.l2", 0.1)):
        with pytest.raises(SettingsError, match=key.split(".")[0]):
            settings_of("nodes", **{key: value})
    with pytest.raises(SettingsError, match="classify"):
        parse_settings({"classify": {"members": 2}})


def test_seeds_are_one_group_and_other_labels_are_refused(people, run, tmp_path):
    other = train_task(people, settings_of("nodes", **{"train.seed": 1}), tmp_path / "seed1", NullCallback())
    (group,) = compare_class_runs([run, other])
    assert len(group.runs) == 2
    assert group.deviation is not None
    part = replace(people, task=people.task.with_parts(torch.arange(5)))
    third = train_task(part, settings_of("nodes"), tmp_path / "third", NullCallback())
    with pytest.raises(TuckerkgError, match="other held-out labels"):
        compare_class_runs([run, third])


def test_mcnemar_is_the_exact_binomial_test():
    one, other = torch.tensor([1, 1, 1, 1, 1, 0, 1]).bool(), torch.tensor([0, 0, 0, 0, 0, 1, 1]).bool()
    assert mcnemar(one, other) == pytest.approx(2 * (1 + 6) / 2**6)
    assert mcnemar(one, one) == 1.0


def test_a_trial_well_behind_its_rival_is_given_up(people):
    settings = settings_of("nodes", **{"train.evaluate_every": 1.0})
    alone = try_settings(people.task, settings)
    assert len(alone.curve) == 12
    assert list(alone.curve) == sorted(alone.curve)
    ahead = replace(alone, curve=tuple(2 * each for each in alone.curve))
    assert len(try_settings(people.task, settings, rival=ahead).curve) == 5  # the first one after a third
    assert try_settings(people.task, settings, rival=alone).curve == alone.curve


def test_a_trial_has_the_patience_of_a_run(people, tmp_path):
    settings = settings_of("nodes", **{"train.lr": 1.0, "train.patience": 2, "train.epochs": 40.0, "model.dim": 4,
                                       "train.evaluate_every": 1.0})  # fmt: skip
    trial = try_settings(people.task, settings)
    run = train_task(people, settings, tmp_path / "run", NullCallback())
    rows = [row["valid"]["likelihood"] for row in run.folder.metrics.rows() if row["step"]]
    assert len(trial.curve) == len(rows) < 40
    assert trial.curve[-1] == max(rows)

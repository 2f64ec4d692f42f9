"""Counts of what stands around an item: keys against walks and colours written out, the regression, voting."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from people import write_molecules, write_people

from tuckerkg.config.settings import parse_settings
from tuckerkg.config.toml import put_all
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.errors import TuckerkgError
from tuckerkg.tasks.choosing import base_settings, choose
from tuckerkg.tasks.classify import LabelOptions, read_task_files, train_task
from tuckerkg.tasks.counts import CountClassifier, CountSettings, CountTable, softmax_regression
from tuckerkg.tasks.surroundings import Surroundings
from tuckerkg.tasks.task import TRAIN, stratified_folds
from tuckerkg.training.callbacks import NullCallback

SMALL = {"model.dim": 4, "model.relation_dim": 4, "encoder.bases": 2, "train.epochs": 5.0, "train.threads": 1,
         "classify.members": 3}  # fmt: skip


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    graph, labels = write_people(tmp_path_factory.mktemp("people"))
    return read_task_files(str(graph), LabelOptions(labels=labels, target="group"))


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    return read_task_files(str(write_molecules(tmp_path_factory.mktemp("molecules"))), LabelOptions())


@pytest.fixture(scope="module")
def run(people, tmp_path_factory):
    values = put_all(base_settings("nodes", "toy"), {**SMALL, "classify.counts": "tf-idf"})
    return train_task(people, parse_settings(values), tmp_path_factory.mktemp("run") / "people", NullCallback())


def keys_of(task, items, hops, without=None):
    """What each item has, as counters that keep only how often equal keys occur and in which items."""
    places, keys = Surroundings(task, hops).of(np.array(items), without)
    return [Counter(keys[places == place].tolist()) for place in range(len(items))]


def same_up_to_names(found, expected):
    """Whether one counter per item becomes the other by renaming keys: each key's counts over all items agree."""

    def rows(counters):
        names = set().union(*counters)
        return Counter(tuple(counter[name] for counter in counters) for name in names)

    return rows(found) == rows(expected)


def test_keys_of_nodes_are_the_paths_of_a_walk(people):
    task = people.task
    edges = add_inverses(task.triples, task.num_relations).tolist()
    items = task.labelled[:6].tolist()
    expected = []
    for item in items:
        counter = Counter()
        for _, r, t in [edge for edge in edges if edge[0] == item]:
            counter[(r,)] += 1
            counter[(r, "to", t)] += 1
            counter[("near", t)] += 1
            for _, q, u in [edge for edge in edges if edge[0] == t and edge[2] != item]:
                counter[(r, q)] += 1
                counter[(r, q, "to", u)] += 1
                counter[("two away", u)] += 1
        expected.append(counter)
    assert same_up_to_names(keys_of(task, items, 2), expected)


def test_keys_of_graphs_are_colours_of_weisfeiler_and_lehman(molecules):
    task = molecules.task
    graph_of, types = task.graph_of.tolist(), task.node_types.tolist()
    colours, expected = [(kind,) for kind in types], [Counter() for _ in range(6)]

    def count(what):
        for graph, name in what:
            if graph < 6:
                expected[graph][name] += 1

    edges = task.triples.tolist()
    count((graph_of[node], colour) for node, colour in enumerate(colours))
    count((graph_of[h], ("edge", types[h], r, types[t])) for h, r, t in edges)
    for _ in range(2):
        heard = [[] for _ in types]
        for h, r, t in edges:
            heard[h].append((r, colours[t]))
        colours = [(own, tuple(sorted(near))) for own, near in zip(colours, heard, strict=True)]
        count((graph_of[node], colour) for node, colour in enumerate(colours))
    assert same_up_to_names(keys_of(task, range(6), 2), expected)


def test_leaving_a_fact_out_counts_as_a_graph_without_it(people, molecules):
    for task, items in ((people.task, people.task.labelled[:8].tolist()), (molecules.task, range(5))):
        row = 3
        without = replace(task, triples=np.delete(task.triples, row, 0))
        changed, whole = keys_of(task, items, 2, row), keys_of(task, items, 2)
        assert changed == keys_of(without, items, 2)
        assert changed != whole


def test_paths_do_not_go_on_through_hubs(people, monkeypatch):
    task, items = people.task, people.task.labelled[:4].tolist()
    edges = add_inverses(task.triples, task.num_relations)
    degrees = np.bincount(edges[:, 0])
    behind = degrees[edges[np.isin(edges[:, 0], task.of_part(TRAIN)[0].numpy()), 2]]
    assert Surroundings(task, 2).widest == 200
    limits = np.unique(behind)[::-1].tolist()
    assert len(limits) > 3
    monkeypatch.setattr("tuckerkg.tasks.surroundings.WIDEST", (*limits, 0))
    for limit in limits[:3]:  # the first limit whose paths are affordable
        monkeypatch.setattr("tuckerkg.tasks.surroundings.MOST_PATHS", int(behind[behind <= limit].sum()))
        assert Surroundings(task, 2).widest == limit
    monkeypatch.setattr("tuckerkg.tasks.surroundings.MOST_PATHS", 1)
    assert keys_of(task, items, 2) == keys_of(task, items, 1)


def test_numbers_of_counts():
    rows, keys = np.array([0, 0, 0, 1, 1, 2]), np.array([7, 7, 9, 7, 8, 9], np.uint64)
    sums = CountTable(rows, keys, 3, "sums")
    assert sums.columns.tolist() == [7, 9]  # 8 is in one item alone
    counts = torch.tensor([[2.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.double)
    torch.testing.assert_close(sums.numbers(rows, keys, 3).to_dense(), counts / (7.0 / 3.0) ** 0.5)
    weighed = counts.log1p() * torch.tensor(np.log(1 + 3 / 2))
    expected = weighed / weighed.norm(dim=1, keepdim=True)
    torch.testing.assert_close(CountTable(rows, keys, 3, "tf-idf").numbers(rows, keys, 3).to_dense(), expected)


@pytest.mark.parametrize("shape", [(12, 40), (40, 6)])
def test_the_regression_is_where_the_gradient_vanishes(shape):
    torch.manual_seed(0)
    rows, label = torch.randn(*shape, dtype=torch.double), torch.randint(3, (shape[0],))
    weights, biases = softmax_regression(rows.to_sparse(), label, 3, 0.01)
    weights, biases = weights.requires_grad_(), biases.requires_grad_()
    loss = F.cross_entropy(rows @ weights + biases, label) + 0.005 * weights.square().sum()
    for gradient in torch.autograd.grad(loss, [weights, biases]):
        assert gradient.abs().max() < 1e-5


def test_counts_learn_nothing_from_the_labels_of_their_own_fold(people):
    task = people.task
    items, label = task.of_part(TRAIN)
    fold = stratified_folds(label, 3, 0)
    turned = task.label.clone()
    turned[torch.nonzero(task.part == TRAIN)[fold == 1, 0]] ^= 1
    before, after = (
        CountClassifier(each, fold, CountSettings("tf-idf", 2, 0.001)) for each in (task, replace(task, label=turned))
    )
    same = (before.unseen == after.unseen).all(1)
    assert same.tolist() == (fold == 1).tolist()
    assert not torch.equal(before.scores(items), after.scores(items))
    assert not torch.equal(before.scores(items), before.unseen)


def test_counts_vote_and_are_judged_alone(run):
    assert run.fitted.counted > 0.0
    alone = run.alone()
    assert alone["counts"]["test"] == 1.0  # who works on which projects says it all
    assert alone["encoder"]["test"] == run.evaluate("test", "encoder").judgement.accuracy
    scores, counts = run._scores_of(run.task.labelled)
    joined = ((1 - run.fitted.counted) * scores.double() + run.fitted.counted * counts) / run.fitted.temperature
    torch.testing.assert_close(run.probabilities_of(run.task.labelled), joined.softmax(-1).mean(0))


def test_an_explanation_counts_again_without_each_fact(run):
    found = run.explain("p03", 3)
    assert found.facts
    text, after = found.facts[0]
    row = next(row for row in range(len(run.task.triples)) if run._fact(row) == text)
    counts = run.counts.scores(torch.tensor([run.items.id_of("p03")]), without=row)
    whole = run.counts.scores(torch.tensor([run.items.id_of("p03")]))
    place = run.task.classes.index(found.told)
    assert float(counts.softmax(-1)[0, place]) < float(whole.softmax(-1)[0, place])
    assert after < found.probability


def test_counts_are_chosen_where_they_help_unseen_labels(people):
    values = put_all(base_settings("nodes", "toy", 0, {"name": "rgcn"}), {**SMALL, "encoder.layers": 2})
    said = []
    settings, trials = choose(people.task, values, ("rgcn",), said.append)
    assert settings.classify.counts != "none"
    assert any("share" in line for line in said)
    assert all(trial.settings.classify.counts == "none" for trial in trials)


def test_a_run_that_counts_nothing_says_so(people, tmp_path):
    other = train_task(people, parse_settings(put_all(base_settings("nodes", "toy"), SMALL)), tmp_path / "run")
    assert other.alone() == {}
    with pytest.raises(TuckerkgError, match="counts nothing"):
        other.evaluate("test", "counts")

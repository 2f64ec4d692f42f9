"""Explanations: edge gradients against differences, what-ifs against a graph without the edge, paths by brute force."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from graphs import random_triples, toy_dataset
from typer.testing import CliRunner

from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.config.build import build_model
from tuckerkg.config.toml import load_settings
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.explain.explainer import Explainer
from tuckerkg.explain.paths import path_confidence, supporting_paths
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.graph.message_graph import MessageGraph, edge_weights
from tuckerkg.nn.edge_importance import EdgeImportance
from tuckerkg.nn.embedding_scorer import EmbeddingScorer
from tuckerkg.nn.encoders import ENCODERS
from tuckerkg.training.callbacks import NullCallback

N, R = 14, 3
TRAIN = random_triples(4, N, R, 60)
READERS = [
    {"encoder": "tgcn", "encoder.normalize": "degree"},
    {"encoder": "tgcn", "encoder.bases": 3},
    {"encoder": "rgcn", "encoder.bases": 2},
    {"encoder": "rgcn", "encoder.decomposition": "cp", "encoder.bases": 3},
    {"encoder": "compgcn", "encoder.layers": 2},
    {"encoder": "sacn"},
]


def scorer_of(changes, decoder="distmult"):
    torch.manual_seed(1)
    settings = load_settings(None, {"model.dim": 6, "model.relation_dim": 6, "decoder": decoder, **changes})
    model = build_model(settings, N, R).double().eval()
    with torch.no_grad():
        model.entities *= 10
        model.relations *= 10
    return EmbeddingScorer(model, TRAIN, whole_double(model, TRAIN))


def explainer_of(changes, decoder="distmult"):
    return Explainer(scorer_of(changes, decoder), TRAIN, KnownTails.from_splits([TRAIN], R))


def importance_of(changes, decoder="distmult"):
    scorer = scorer_of(changes, decoder)
    return EdgeImportance(scorer.model, TRAIN, scorer.entities)


def whole_double(model, triples):
    edges = torch.from_numpy(add_inverses(triples, R))
    return MessageGraph.of(edges, N, model.encoder.normalize, torch.double, order="fewest")


@pytest.mark.parametrize("changes", READERS, ids=lambda changes: "-".join(str(v) for v in changes.values()))
def test_contributions_equal_differences_through_all_layers(changes):
    importance = importance_of(changes)
    head, relation, tail = 0, 1, 5
    near = importance._neighbourhood((head, tail))
    weights = near.weights()
    assert torch.allclose(weights, edge_weights(importance.edges, N, importance.model.encoder.normalize)[near.ids])
    found = importance._contributions(head, relation, tail, near)
    assert found.abs().max() > 1e-6  # the messages reach the score
    for place in np.random.default_rng(0).permutation(len(weights))[:12]:
        shares = []
        for step in (1e-6, -1e-6):
            moved = weights.clone()
            moved[place] *= 1 + step
            shares.append(importance._log_share(head, relation, tail, near, moved))
        assert found[place] == pytest.approx((shares[0] - shares[1]) / 2e-6, abs=1e-7, rel=1e-4)


@pytest.mark.parametrize("changes", READERS, ids=lambda changes: "-".join(str(v) for v in changes.values()))
def test_the_edges_around_a_fact_give_the_same_as_the_whole_graph(changes):
    importance = importance_of(changes)
    head, tail = 3, 7
    near = importance._neighbourhood((head, tail))
    entities, _ = importance._encode(near, near.weights())
    assert torch.allclose(entities[[head, tail]], importance.encoded[[head, tail]], rtol=0, atol=1e-12)


def test_every_encoder_that_reads_the_graph_is_tried():
    readers = {name for name, kind in ENCODERS.items() if kind.uses_graph}
    assert {changes["encoder"] for changes in READERS} == readers


@pytest.mark.parametrize("changes", READERS[::2], ids=lambda changes: changes["encoder"])
def test_the_loss_of_an_edge_is_that_of_a_graph_without_it(changes):
    explainer = explainer_of(changes)
    fact = (0, 1, 5)
    named = explainer.important(*fact, 40)
    assert [loss for _, loss in named] == sorted((loss for _, loss in named), reverse=True)
    before, model = explainer.scorer, explainer.scorer.model
    importance = EdgeImportance(model, TRAIN, before.entities)
    for row, loss in named[:3] + named[-3:]:
        left = np.delete(TRAIN, row, 0)
        entities, relations = model.encode(whole_double(model, left))
        ours = importance._log_share_of(before.entities, before.relations, *fact)
        without = importance._log_share_of(entities, relations, *fact)  # the other candidates as they were
        assert loss == pytest.approx((ours - without).item(), abs=1e-10)


def test_a_rank_leaves_out_known_answers_and_counts_what_is_better():
    explainer = explainer_of(READERS[0])
    head, relation = int(TRAIN[0, 0]), int(TRAIN[0, 1])
    scores = explainer.scorer.scores(torch.tensor([head]), torch.tensor([relation]))[0]
    known = {int(t) for h, r, t in TRAIN if (h, r) == (head, relation)}
    for tail in range(N):
        better = [t for t in range(N) if t not in known and scores[t] > scores[tail]]
        assert explainer.standing(head, relation, tail).rank == 1 + len(better)


def test_an_encoder_without_messages_has_no_edges_to_name(toy_run):
    found = toy_run.explain("e000", "plus1", "e001")
    assert not found.uses_messages
    assert found.edges == ()
    assert found.without_all is None
    assert found.paths


def walk(edges, start, kind):
    places = [(start,)]
    for relation in kind:
        places = [(*way, t) for way in places for h, r, t in edges if (h, r) == (way[-1], relation)]
    return places


def test_paths_are_those_that_brute_force_finds():
    train = random_triples(2, 8, 2, 14)
    edges = add_inverses(train, 2).tolist()
    answers = KnownTails.of(torch.tensor(edges), 4)
    head, relation, tail = train[0].tolist()
    kinds = {
        kind
        for length in (1, 2, 3)
        for kind in itertools.product(range(4), repeat=length)
        for way in walk(edges, head, kind)
        if way[-1] == tail and len(set(way)) == len(way) and kind != (relation,)
    }
    found = supporting_paths(answers, head, relation, tail, count=1_000)
    assert {path.relation_ids for path in found} == kinds
    for path in found:
        for step in zip(path.entity_ids, path.relation_ids, path.entity_ids[1:], strict=False):
            assert list(step) in edges


def test_confidence_is_the_share_of_walks_that_end_at_a_fact():
    # a knows b, b knows c, a reaches c; d knows e, e knows f without d reaches f
    train = np.array([[0, 0, 1], [1, 0, 2], [0, 1, 2], [3, 0, 4], [4, 0, 5]])
    answers = KnownTails.of(torch.from_numpy(add_inverses(train, 2)), 4)
    share, walks = path_confidence(answers, (0, 0), 1)
    assert share == pytest.approx(0.5, abs=0.05)
    assert 800 < walks < 1_200  # half of the starts cannot go on
    assert path_confidence(answers, (1,), 1) == (0.0, 0)  # the edge itself tells nothing
    assert path_confidence(answers, (3,), 1)[0] == 0.0


def test_a_walk_that_comes_to_an_entity_twice_does_not_count():
    # a - b - c by relation 0, and a to c by relation 1; forth and back along relation 0 is no path
    triples = np.array([[0, 0, 1], [1, 0, 2], [0, 1, 2], [2, 1, 2]])
    answers = KnownTails.from_splits([triples], 2)
    assert path_confidence(answers, (0, 2), 1) == (0.0, 0)  # a -> b -> a, b -> c -> b
    assert path_confidence(answers, (0, 0, 3, 0), 1)[1] == 0  # a -> b -> c -> a -> b
    assert path_confidence(answers, (0, 1), 1)[1] == 0  # nothing leads on from b or c but c to itself
    share, walks = path_confidence(answers, (0, 0), 1)
    assert share == 1.0
    assert walks > 0


@pytest.fixture(scope="module")
def read_run(tmp_path_factory):
    changes = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 5.0, "train.threads": 1}
    folder = tmp_path_factory.mktemp("explained") / "run"
    return api.train(toy_dataset(), out=folder, overrides=changes, callback=NullCallback())


def test_a_what_if_is_the_model_on_the_graph_without_the_edge(read_run):
    found = read_run.explain("e000", "plus1", "e001", k=3)
    assert len(found.edges) == 3
    train = read_run.folder.split("train")
    rows = []
    for edge in found.edges:
        ids = [read_run.entities.id_of(edge.head), read_run.relations.id_of(edge.relation)]
        rows.append(int(np.flatnonzero((train == [*ids, read_run.entities.id_of(edge.tail)]).all(1))[0]))
    left = EmbeddingScorer(read_run.model, np.delete(train, rows, 0))
    scores = left.scores(torch.tensor([0]), torch.tensor([0]))[0]
    assert found.without_all.score == pytest.approx(float(scores[1]), abs=1e-6)


def test_the_command_says_it_in_words_json_and_a_picture(read_run, tmp_path):
    asked = ["explain", str(read_run.path), "e000", "plus1", "e001", "-k", "2"]
    picture = tmp_path / "why.svg"
    shown = CliRunner().invoke(app, [*asked, "--plot", str(picture)])
    assert shown.exit_code == 0, shown.output
    assert "Edges that carried the score" in shown.stdout
    assert "without all 2: rank" in shown.stdout
    assert "<svg" in picture.read_text()
    parsed = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert (parsed["head"], parsed["relation"], parsed["tail"]) == ("e000", "plus1", "e001")
    assert len(parsed["edges"]) == 2


def test_the_command_says_that_a_decoder_alone_reads_no_edge(toy_run):
    shown = CliRunner().invoke(app, ["explain", str(toy_run.path), "e000", "plus1", "e001"])
    assert "no edge of the graph enters the score" in shown.stdout


def test_an_answer_that_predict_does_not_list_is_said_to_be_left_out(toy_run):
    """Ranks are over all entities: one that no fact has in that place may be the first of them."""
    said = "predict leaves it out"
    listed = {fact.tail for fact in toy_run.predict("e000", "plus1", k=50, known=True)}
    for tail in ("e000", "e001"):
        shown = CliRunner().invoke(app, ["explain", str(toy_run.path), "e000", "plus1", tail]).stdout
        assert (said in shown) == (tail not in listed)

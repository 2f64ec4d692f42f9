"""Messages that start from the question: the compiled model and the plain one against a loop over the equations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graphs import random_triples
from hypothesis import given, settings
from hypothesis import strategies as st
from path_questions import (
    CLOSE,
    GRAPHS,
    N,
    R,
    asking,
    assert_same,
    edges_of,
    every_question,
    gradients,
    naive_loss,
    naive_scores,
    path_model,
    questions_about,
    without_hidden,
)

from tuckerkg.graph.in_edges import in_edges
from tuckerkg.kernels.questions import graph as question_graph
from tuckerkg.nn import paths
from tuckerkg.nn.model import ParameterCounts
from tuckerkg.nn.paths import PathModel, hidden_edges

# ---------------------------------------------------------------------------------------------------- scores


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    ("power", "layers", "core"), [(0.0, 3, "question"), (0.5, 1, "question"), (0.5, 4, "cp"), (1.0, 2, "question")]
)
def test_scores_are_those_of_the_loop(graph, width, power, layers, core):
    triples = GRAPHS[graph]
    model = path_model(N, R, width, width=width, layers=layers, power=power, core=core)
    asked = model.message_graph(triples)
    heads, relation_ids = torch.tensor([0, 2, 2, 4, N - 1]), torch.tensor([0, 0, 4, 2, 1])
    expected = np.stack(
        [
            naive_scores(model, edges_of(triples, R), head, relation, N)
            for head, relation in zip(heads.tolist(), relation_ids.tolist(), strict=True)
        ]
    )
    plain = model.plain_scores(asked.edges, heads, relation_ids).detach().numpy()
    assert np.allclose(plain, expected, **CLOSE)
    assert model.compiled
    assert np.allclose(model.scores(asked, heads, relation_ids).numpy(), expected, **CLOSE)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), facts=st.integers(1, 40), layers=st.integers(1, 4), relations=st.integers(1, 3))
def test_scores_are_those_of_the_loop_on_any_graph(seed, facts, layers, relations):
    triples = random_triples(seed, 7, relations, facts)
    model = path_model(N, relations, seed, layers=layers)
    head, asked = seed % N, seed % (2 * relations)
    expected = naive_scores(model, edges_of(triples, relations), head, asked, N)
    graph, question = model.message_graph(triples), (torch.tensor([head]), torch.tensor([asked]))
    assert np.allclose(model.scores(graph, *question)[0].numpy(), expected, **CLOSE)
    assert np.allclose(model.plain_scores(graph.edges, *question)[0].detach().numpy(), expected, **CLOSE)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_full_core_has_the_scores_of_the_loop(layers):
    triples = GRAPHS["random"]
    model = path_model(N, R, layers=layers, core="tucker")
    assert not model.compiled
    graph = model.message_graph(triples)
    heads, relation_ids = torch.tensor([0, 3, N - 1]), torch.tensor([1, 5, 0])
    found = model.scores(graph, heads, relation_ids)
    assert not found.requires_grad
    for row, (head, asked) in enumerate(zip(heads.tolist(), relation_ids.tolist(), strict=True)):
        assert np.allclose(found[row].numpy(), naive_scores(model, edges_of(triples, R), head, asked, N), **CLOSE)


def test_single_precision_is_the_same_up_to_its_rounding():
    triples, asked = GRAPHS["dense"], every_question()
    exact, single = path_model(N, R), path_model(N, R).float()
    found = single.scores(single.message_graph(triples), *asked)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), exact.scores(exact.message_graph(triples), *asked), rtol=1e-4, atol=1e-4)


def test_a_head_without_edges_tells_itself_from_the_others_alone():
    model = path_model(N, R)
    row = model.scores(model.message_graph(GRAPHS["random"]), torch.tensor([N - 1]), torch.tensor([0]))[0]
    assert len(row.unique()) == 2
    assert (row == row[N - 1]).sum() == 1


def test_entities_further_than_the_layers_share_one_score():
    chain = np.array([[i, 0, i + 1] for i in range(N - 1)])
    model = path_model(N, R, layers=3)
    row = model.scores(model.message_graph(chain), torch.tensor([0]), torch.tensor([0]))[0]
    assert len(row[4:].unique()) == 1
    assert len(row[:5].unique()) == 5


def test_entities_under_other_numbers_keep_their_scores():
    triples, order = GRAPHS["dense"], np.random.default_rng(0).permutation(N)  # old id -> new id
    renamed = np.stack([order[triples[:, 0]], triples[:, 1], order[triples[:, 2]]], 1)
    model, (heads, relation_ids) = path_model(N, R), every_question()
    own = model.scores(model.message_graph(triples), heads, relation_ids)
    other = model.scores(model.message_graph(renamed), torch.from_numpy(order)[heads], relation_ids)
    assert torch.allclose(other[:, order], own, rtol=1e-12, atol=1e-12)


def test_relations_under_other_numbers_keep_their_scores():
    triples, order = GRAPHS["dense"], np.array([2, 0, 1])
    renamed = np.stack([triples[:, 0], order[triples[:, 1]], triples[:, 2]], 1)
    both = torch.from_numpy(np.concatenate([order, order + R]))  # inverses follow
    model, moved = path_model(N, R), path_model(N, R)
    with torch.no_grad():
        moved.queries[both] = model.queries
        moved.relations[:, both] = model.relations
        moved.features[:, both] = model.features
    heads, relation_ids = every_question()
    own = model.scores(model.message_graph(triples), heads, relation_ids)
    assert torch.allclose(
        moved.scores(moved.message_graph(renamed), heads, both[relation_ids]), own, rtol=1e-12, atol=1e-12
    )


def test_no_question_depends_on_the_ones_beside_it():
    model, graph = path_model(N, R), question_graph.QuestionGraph(in_edges(GRAPHS["dense"], N, R))
    heads, relation_ids = every_question()
    together = model.scores(graph, heads, relation_ids)
    for row in (0, 7, len(heads) - 1):
        alone = model.scores(graph, heads[row : row + 1], relation_ids[row : row + 1])[0]
        assert torch.allclose(together[row], alone, rtol=1e-12, atol=1e-12)


def test_many_kinds_of_questions_are_asked_in_parts(monkeypatch):
    triples, (heads, relation_ids) = GRAPHS["dense"], every_question()
    model = path_model(N, R)
    graph, without = model.message_graph(triples), [triples[row : row + 2] for row in range(len(heads))]
    expected = model.scores(graph, heads, relation_ids, without)
    monkeypatch.setattr(paths, "TABLE_NUMBERS", 2 * model.relations.numel())
    found = model.scores(graph, heads, relation_ids, without)
    assert found.dtype == expected.dtype
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_relations_mean_the_same_to_every_question_at_the_start():
    torch.manual_seed(0)
    model = PathModel(N, R, width=8)
    tables = model.relation_tables(torch.arange(2 * R))
    assert torch.equal(tables, model.relations.expand_as(tables))


# ---------------------------------------------------------------------------------------------------- loss, gradients


@pytest.mark.parametrize("hide", ["own", "pair"])
@pytest.mark.parametrize("core", ["question", "cp", "tucker"])
def test_the_loss_and_its_gradients_are_those_of_the_loop(core, hide):
    triples = GRAPHS["random"]
    model, questions = path_model(N, R, layers=2, core=core), questions_about(triples, R, 3)
    value = model.loss(model.message_graph(triples), questions, hide=hide)
    assert value.item() == pytest.approx(naive_loss(model, triples, questions, hide, N), rel=1e-10)
    found = gradients(model, model.plain_loss(in_edges(triples, N, R), questions, hide == "pair"))
    random, step = np.random.default_rng(0), 1e-6
    for name, parameter in model.named_parameters():
        # Entries with a gradient tell more: those of relations and questions that were not used have none.
        entries = np.flatnonzero(found[name].abs().numpy().ravel() > 1e-6)
        assert len(entries), name
        for entry in random.choice(entries, 2).tolist():
            flat, around = parameter.detach().view(-1), []
            before = flat[entry].item()
            for moved in (before + step, before - step):
                flat[entry] = moved
                around.append(naive_loss(model, triples, questions, hide, N))
            flat[entry] = before
            expected = (around[0] - around[1]) / (2 * step)
            assert found[name].reshape(-1)[entry].item() == pytest.approx(expected, rel=1e-5, abs=1e-8), name


@pytest.mark.parametrize("hide", ["own", "pair"])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(("width", "power", "layers"), [(8, 0.5, 4), (16, 1.0, 2), (8, 0.0, 1)])
def test_compiled_gradients_are_those_of_autograd(graph, width, power, layers, hide):
    triples = GRAPHS[graph]
    model = path_model(N, R, layers, width=width, layers=layers, power=power)
    asked, questions = model.message_graph(triples), questions_about(triples, R)
    plain = model.plain_loss(asked.edges, questions, hide == "pair")
    value = model.loss(asked, questions, hide=hide)
    assert value.item() == pytest.approx(plain.item(), rel=1e-10)
    assert_same(gradients(model, value), gradients(model, plain))


@pytest.mark.parametrize("hide", ["own", "pair"])
def test_the_search_of_a_crowd_keeps_to_open_edges(hide):
    triples, model = GRAPHS["crowd"], path_model(N, R, layers=2)
    graph = model.message_graph(triples)
    for rows in ([(0, 0, [6], [1])], [(6, R, [0], [])], [(0, 1, [6, 2], [])], [(7, 1 + R, [6], [])], [(0, 2, [0], [])]):
        value = model.loss(graph, asking(rows), hide=hide)
        assert value.item() == pytest.approx(naive_loss(model, triples, asking(rows), hide, N), rel=1e-10)
        plain = model.plain_loss(graph.edges, asking(rows), hide == "pair")
        assert_same(gradients(model, value), gradients(model, plain))


def test_equal_messages_share_the_gradient_of_a_maximum():
    """Two relations with one vector join the same entities: either message is the largest, each gets half."""
    triples = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 2], [1, 1, 2], [2, 2, 3]])
    model = path_model(N, R, layers=3, core="cp")
    with torch.no_grad():
        model.relations[:, 1] = model.relations[:, 0]
        model.relations[:, R + 1] = model.relations[:, R]
    graph, questions = model.message_graph(triples), asking([(0, 2, [3], []), (3, 2 + R, [0], [])])
    found = gradients(model, model.loss(graph, questions, hide="own"))
    assert_same(found, gradients(model, model.plain_loss(graph.edges, questions, False)))
    assert found["relations"][:, 0].abs().max() > 0
    assert torch.allclose(found["relations"][:, 0], found["relations"][:, 1], **CLOSE)


def test_a_gradient_from_outside_is_multiplied():
    model, triples = path_model(N, R), GRAPHS["random"]
    graph, questions = model.message_graph(triples), questions_about(triples, R)
    plain = gradients(model, model.loss(graph, questions, hide="own"))
    scaled = gradients(model, 3 * model.loss(graph, questions, hide="own"))
    assert_same(scaled, {name: 3 * gradient for name, gradient in plain.items()})


def test_known_answers_are_no_candidates():
    model, triples = path_model(N, R), GRAPHS["dense"]
    graph = model.message_graph(triples)
    head, relation, tail = triples[4].tolist()
    others = [entity for entity in range(N) if entity != tail]
    for known in ([], others[:3], others):
        value = model.loss(graph, asking([(head, relation, [tail], known)]), hide="own").item()
        expected = naive_loss(model, triples, asking([(head, relation, [tail], known)]), "own", N)
        assert value == pytest.approx(expected, abs=1e-12)
    assert value == pytest.approx(0.0, abs=1e-12)  # nothing is left to be told apart


@pytest.mark.parametrize("tails", [[2], [N - 1], [2, N - 1]])
@pytest.mark.parametrize("known", [[], [N - 2], [1, N - 2]])
def test_answers_that_no_message_reaches_are_left_out_or_asked_for_as_others_are(tails, known):
    """The last two entities have no edge: they share one score, and each still counts as one candidate."""
    model, triples = path_model(N, R), GRAPHS["random"]
    graph, questions = model.message_graph(triples), asking([(0, 0, tails, known)])
    value = model.loss(graph, questions, hide="own")
    assert value.item() == pytest.approx(naive_loss(model, triples, questions, "own", N), rel=1e-10)
    assert_same(gradients(model, value), gradients(model, model.plain_loss(graph.edges, questions, False)))


# ---------------------------------------------------------------------------------------------------- hidden edges


@pytest.mark.parametrize("hide", ["own", "pair"])
@pytest.mark.parametrize("graph", ["random", "dense", "loops alone", "complete"])
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_a_hidden_fact_is_as_good_as_absent(graph, power, hide):
    """Loss and gradients are those on a graph without it; with power 1 its degrees count too."""
    triples = GRAPHS[graph]
    model = path_model(N, R, power=power)
    questions = questions_about(triples, R, 6)
    for row in range(len(questions.heads)):
        alone = asking(
            [
                (
                    int(questions.heads[row]),
                    int(questions.relations[row]),
                    questions.answers(row).tolist(),
                    questions.other_answers(row).tolist(),
                )
            ]
        )
        kept = without_hidden(triples, R, questions, row, hide)
        assert len(kept) < len(triples)
        given = model.loss(model.message_graph(triples), alone, hide=hide)
        absent = model.loss(model.message_graph(kept), alone, hide=hide)
        assert given.item() == pytest.approx(absent.item(), rel=1e-12)
        assert_same(gradients(model, given), gradients(model, absent), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("hide", ["own", "pair"])
def test_hidden_edges_are_both_directions_of_what_is_hidden(hide):
    triples = GRAPHS["dense"]
    edges, questions = in_edges(triples, N, R), questions_about(triples, R, 6)
    model, everything = path_model(N, R), set(edges_of(triples, R))
    for row in range(len(questions.heads)):
        head, relation = int(questions.heads[row]), int(questions.relations[row])
        facts = np.split(questions.hidden(hide == "pair"), questions.tail_starts[1:-1])[row]
        hidden = hidden_edges(edges, facts)
        kept = without_hidden(triples, R, questions, row, hide)
        assert {tuple(edge) for edge in edges.triples()[hidden].tolist()} == everything - set(edges_of(kept, R))
        asked = torch.tensor([head]), torch.tensor([relation])
        masked = model.plain_scores(edges, *asked, torch.from_numpy(hidden)[None])
        assert torch.allclose(masked, model.scores(model.message_graph(kept), *asked), rtol=1e-12, atol=1e-12)
        without = model.scores(model.message_graph(triples), *asked, [facts])
        assert torch.allclose(without, masked, rtol=1e-12, atol=1e-12)


def test_only_the_questions_own_fact_is_hidden_by_own():
    """Another relation between the same two still says where the answer is; pair hides it too."""
    triples = np.array([[0, 0, 1], [0, 1, 1], [1, 2, 2]])
    model, question = path_model(N, R, layers=1), asking([(0, 0, [1], [])])
    graph = model.message_graph(triples)
    row = model.plain_scores(graph.edges, torch.tensor([0]), torch.tensor([0]))[0]
    assert row[1] != row[2]
    alone = model.loss(model.message_graph(triples[1:]), question, hide="own").item()
    nothing = model.loss(model.message_graph(triples[2:]), question, hide="own").item()
    assert alone != pytest.approx(nothing)
    assert model.loss(graph, question, hide="own").item() == pytest.approx(alone, rel=1e-12)
    assert model.loss(graph, question, hide="pair").item() == pytest.approx(nothing, rel=1e-12)


@pytest.mark.parametrize("core", ["question", "tucker"])
def test_facts_are_left_out_question_by_question(core):
    triples, model = GRAPHS["dense"], path_model(N, R, core=core)
    graph, asked = model.message_graph(triples), (torch.tensor([0, 1, 0]), torch.tensor([2, 4, 2]))
    without = [triples[:0], triples[5:9], triples[[40, 3]]]
    found = model.scores(graph, *asked, without)
    for row, facts in enumerate(without):
        kept = np.array([fact for fact in triples.tolist() if fact not in facts.tolist()])
        question = asked[0][row : row + 1], asked[1][row : row + 1]
        expected = model.scores(model.message_graph(kept), *question)[0]
        assert torch.allclose(found[row], expected, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(found[0], found[2])


# ---------------------------------------------------------------------------------------------------- parameters


def test_parameters_are_counted_by_their_kind():
    d, layers = 8, 3
    model = PathModel(N, R, width=d, layers=layers, core="cp")
    relations, score = 2 * R * d * (1 + layers), 2 * d * d * 2 + 2 * d * 2
    layer = 4 * d * d + 3 * d + d * d
    assert model.counts() == ParameterCounts(relations, layers * layer + score, layers * layer)
    assert sum(parameter.numel() for parameter in model.parameters()) == relations + layers * layer + score
    full = PathModel(N, R, width=d, layers=layers, core="tucker").counts()
    assert full.nfp == model.counts().nfp + layers * d**3
    asked = PathModel(N, R, width=d, layers=layers, core="question").counts()
    assert asked == ParameterCounts(relations + 2 * R * d * layers, full.nfp, full.enfp)


def test_no_parameter_depends_on_the_entities():
    small, large = (PathModel(number, R, width=8).state_dict() for number in (3, 1_000))
    assert {name: tensor.shape for name, tensor in small.items()} == {
        name: tensor.shape for name, tensor in large.items()
    }

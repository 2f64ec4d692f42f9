"""Whatever scores questions can be ranked, asked, calibrated and explained: a fixed table, and a sum of two scorers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from graphs import brute_force_ranks, toy_dataset

from tuckerkg.data.labels import Labels
from tuckerkg.errors import TuckerkgError
from tuckerkg.evaluation.conformal import fit_conformal, measure_coverage
from tuckerkg.evaluation.ranking import rank
from tuckerkg.explain.explainer import Explainer, explain_fact
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.inference.predictor import Predictor, Question
from tuckerkg.inference.run import Run, load
from tuckerkg.nn.contracts import HasVectors, ReadsEdges, Scorer
from tuckerkg.probability.calibration import fit_calibration
from tuckerkg.storage.run_folder import RunFolder

DATA = toy_dataset()
N, R = len(DATA.entities), len(DATA.relations)
SPLITS = [DATA.train, DATA.valid, DATA.test]
KNOWN = {tuple(fact) for split in SPLITS for fact in split.tolist()}


class QuestionTable:
    """A row of scores for each question, ``[2R * N, N]``: no embeddings, no messages, no base class."""

    def __init__(self, seed: int) -> None:
        self.num_entities, self.num_relations = N, R
        self.table = 3.0 * torch.randn(2 * R * N, N, generator=torch.Generator().manual_seed(seed))

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        return self.table[relation_ids * N + heads]


class WeightedSum(Scorer):
    """Several scorers, each with its weight."""

    def __init__(self, *parts: tuple[float, Scorer]) -> None:
        self.parts = parts
        self.num_entities, self.num_relations = parts[0][1].num_entities, parts[0][1].num_relations

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        return sum(weight * scorer.scores(heads, relation_ids) for weight, scorer in self.parts)


@pytest.fixture(params=["a table", "a sum"])
def scorer(request, toy_run):
    if request.param == "a table":
        return QuestionTable(1)
    return WeightedSum((0.3, toy_run.scorer), (0.7, QuestionTable(2)))


@pytest.fixture
def names():
    return Labels("entity", list(DATA.entities.labels), {}), Labels("relation", list(DATA.relations.labels), {})


@pytest.fixture
def predictor(scorer, names):
    return Predictor(scorer, *names, SPLITS)


def row_of(scorer, head: int, relation: int) -> list[float]:
    return scorer.scores(torch.tensor([head]), torch.tensor([relation]))[0].tolist()


def best_of(scorer, head: int, relation: int, k: int) -> list[int]:
    """The best unknown answers to one question, by sorting."""

    def fact(entity):
        return (head, relation, entity) if relation < R else (entity, relation - R, head)

    row = row_of(scorer, head, relation)
    return sorted((entity for entity in range(N) if fact(entity) not in KNOWN), key=lambda entity: -row[entity])[:k]


def test_both_are_scorers_and_nothing_more(scorer):
    assert isinstance(scorer, Scorer)
    assert not isinstance(scorer, HasVectors)
    assert not isinstance(scorer, ReadsEdges)


@pytest.mark.parametrize("chunk_scores", [1, 50, 10_000])
def test_ranks_are_those_of_brute_force(scorer, chunk_scores):
    ranks = rank(scorer, DATA.test, KnownTails.from_splits(SPLITS, R), chunk_scores=chunk_scores)
    expected = brute_force_ranks(lambda h, r: row_of(scorer, h, r), DATA.test, KNOWN, N, R)
    assert np.array_equal(np.stack([ranks.best, ranks.worst, ranks.candidates], 1), expected)


def test_tails_heads_and_relations_are_predicted(scorer, predictor):
    tails = predictor.predict("e003", "plus2", k=5, typed=False)
    assert [int(fact.tail[1:]) for fact in tails] == best_of(scorer, 3, 1, 5)
    heads = predictor.predict(relation="plus1", tail="e007", k=5, typed=False)
    assert [int(fact.head[1:]) for fact in heads] == best_of(scorer, 7, 0 + R, 5)
    between = predictor.predict("e001", tail="e002", k=9, known=True)
    expected = {f"plus{relation + 1}": row_of(scorer, 1, relation)[2] for relation in range(R)}
    assert {fact.relation: fact.score for fact in between} == pytest.approx(expected, abs=1e-5)
    assert [fact.relation for fact in between] == sorted(expected, key=lambda name: -expected[name])


def test_one_entity_alone_asks_over_all_relations(scorer, predictor):
    for asked, turned in ({"head": "e001"}, 0), ({"tail": "e001"}, R):
        found = predictor.predict(**asked, k=3 * N, known=True, typed=False)
        everything = [score for relation in range(R) for score in row_of(scorer, 1, relation + turned)]
        assert [fact.score for fact in found] == pytest.approx(sorted(everything, reverse=True), abs=1e-5)


def test_many_questions_are_answered_at_once(scorer, predictor):
    asked = [Question(3, 1, 5, False, False), Question(7, 0 + R, 4, False, False)]
    tails, heads = predictor.answer_many(asked)
    assert [int(fact.tail[1:]) for fact in tails] == best_of(scorer, 3, 1, 5)
    assert [int(fact.head[1:]) for fact in heads] == best_of(scorer, 7, 0 + R, 4)
    scores, places = predictor.best_tails(torch.tensor([3, 7]), torch.tensor([1, 0 + R]), k=4)
    assert places.tolist() == [best_of(scorer, 3, 1, 4), best_of(scorer, 7, 0 + R, 4)]
    assert scores[0].tolist() == pytest.approx([row_of(scorer, 3, 1)[tail] for tail in places[0].tolist()])


def test_missing_facts_are_the_best_of_the_whole_graph(scorer, predictor):
    everything = [
        (row_of(scorer, h, r)[t], h, r, t)
        for h in range(N)
        for r in range(R)
        for t in range(N)
        if (h, r, t) not in KNOWN
    ]
    found = predictor.top_missing(15, typed=False)
    assert [fact.score for fact in found] == pytest.approx(
        [best[0] for best in sorted(everything)[::-1][:15]], abs=1e-5
    )
    for fact in predictor.top_missing(5):
        assert not fact.known
        assert fact.head != fact.tail


def test_triples_are_scored_in_their_order(scorer, predictor):
    heads, relations, tails = ["e003", "e000"], ["plus2", "plus1"], ["e005", "e009"]
    found = predictor.score(heads, relations, tails)
    assert [fact.score for fact in found] == pytest.approx([row_of(scorer, 3, 1)[5], row_of(scorer, 0, 0)[9]], abs=1e-5)
    assert [fact.known for fact in found] == [True, False]
    assert found[0].probability == pytest.approx(1 / (1 + math.exp(-found[0].score)), rel=1e-5)


def test_asking_leaves_the_scorer_as_it_was(scorer, predictor):
    heads, relation_ids = torch.arange(N).repeat(2 * R), torch.arange(2 * R).repeat_interleave(N)
    before = scorer.scores(heads, relation_ids).clone()
    predictor.predict("e003", "plus2", k=5)
    predictor.top_missing(5)
    rank(scorer, DATA.test, predictor.known)
    fit_calibration(scorer, DATA.train, DATA.valid, len(DATA.test))
    fit_conformal(scorer, DATA.train, DATA.valid, 0.5)
    assert torch.equal(scorer.scores(heads, relation_ids), before)


class StoredRow:
    """The same scores for every question, without a copy."""

    def __init__(self) -> None:
        self.num_entities, self.num_relations = N, R
        self.row = torch.randn(1, N, generator=torch.Generator().manual_seed(3))

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        return self.row if len(heads) == 1 else self.row.expand(len(heads), -1)


@pytest.mark.parametrize("count", [1, 3])
def test_a_scorer_may_give_what_it_holds(names, count):
    stored = StoredRow()
    before = stored.row.clone()
    asked = Predictor(stored, *names, SPLITS)
    questions = [Question(head, 1, 4) for head in range(count)]
    first = asked.answer_many(questions)
    assert asked.answer_many(questions) == first
    asked.predict("e003", "plus2", k=5)
    asked.best_tails(torch.arange(count), torch.ones(count, dtype=torch.long))
    asked.top_missing(5)
    rank(stored, DATA.test[:count], asked.known)
    fit_calibration(stored, DATA.train, DATA.valid[:count], 5)
    fit_conformal(stored, DATA.train, DATA.valid[:count], 0.5)
    Explainer(stored, DATA.train, asked.known).standing(0, 0, 1)
    assert torch.equal(stored.row, before)


def test_probabilities_are_fitted(scorer, names):
    fitted = fit_calibration(scorer, DATA.train, DATA.valid, len(DATA.test))
    assert fitted.fitted
    for fact in Predictor(scorer, *names, SPLITS, fitted).predict("e003", "plus2", k=20, typed=False):
        assert 0.0 < fact.probability < 1.0


def test_answer_sets_are_fitted(scorer):
    fitted = fit_conformal(scorer, DATA.train, DATA.valid, 0.5)
    assert fitted.tail < 0.0
    assert fitted.head < 0.0
    found = measure_coverage(scorer, fitted, SPLITS, DATA.valid)
    assert min(found.tail, found.head) >= 0.5  # of what it was fitted on
    assert 1.0 <= found.mean_size_tail <= N


def test_a_fact_is_explained_by_paths_alone(scorer, names):
    explainer = Explainer(scorer, DATA.train, KnownTails.from_splits(SPLITS, R))
    standing = explainer.standing(0, 0, 1)
    row = row_of(scorer, 0, 0)
    assert standing.score == pytest.approx(row[1], abs=1e-5)
    assert standing.rank == 1 + sum(row[tail] > row[1] for tail in range(N) if (0, 0, tail) not in KNOWN)
    assert explainer.standing(0, 0, 1, without=[0, 1]) == standing
    assert explainer.important(0, 0, 1, 5) == []
    found = explain_fact(explainer, *names, (0, 0, 1), 0.5, True)
    assert not found.uses_messages
    assert found.edges == ()
    assert found.without_all is None
    assert found.paths


@pytest.fixture
def run(scorer, toy_run):
    return Run(toy_run.folder, scorer=scorer)


def test_a_run_answers_with_the_scorer_it_was_given(run, scorer, toy_run):
    assert run.scorer is scorer
    assert not run.uses_messages
    evaluation = run.evaluate("test")
    expected = brute_force_ranks(lambda h, r: row_of(scorer, h, r), DATA.test, KNOWN, N, R)
    assert np.array_equal(evaluation.ranks.best, expected[:, 0])
    assert evaluation.protocol == toy_run.evaluate("test").protocol
    assert run.evaluate("test", messages=False).mrr == evaluation.mrr  # there are none to switch off
    answers = run.predict("e003", "plus2", k=10, typed=False)
    assert {int(fact.tail[1:]) for fact in answers} == set(best_of(scorer, 3, 1, 10))
    assert run.score([("e003", "plus2", "e005")])[0].score == pytest.approx(row_of(scorer, 3, 1)[5], abs=1e-5)
    assert len(run.top_missing(7, typed=False)) == 7
    assert run.explain("e000", "plus1", "e001").standing.score == pytest.approx(row_of(scorer, 0, 0)[1], abs=1e-5)
    assert 0.0 <= run.reliability().ece <= 1.0
    assert 0.0 <= run.answer_set_coverage("test", 0.5).tail <= 1.0


def test_a_run_whose_scorer_has_no_vectors_says_so(run, tmp_path):
    for refused in (run.vectors, lambda: run.export(tmp_path / "v.npz")):
        with pytest.raises(TuckerkgError, match="has no vectors"):
            refused()
    assert not (tmp_path / "v.npz").exists()


def same(one, other):
    one, other = one.tensors(), other.tensors()
    return one.keys() == other.keys() and all(torch.allclose(one[name], other[name]) for name in one)


def test_probabilities_of_another_scorer_are_fitted_for_it_and_not_stored(scorer, toy_run, tmp_path):
    import shutil

    shutil.copytree(toy_run.path, tmp_path / "run")
    plain, own = load(tmp_path / "run"), Run(RunFolder.open(tmp_path / "run"), scorer=scorer)
    fitted = fit_calibration(scorer, DATA.train, DATA.valid, len(DATA.test))
    assert same(own.calibration, fitted)
    assert not same(own.calibration, plain.calibration)
    shutil.rmtree(tmp_path / "run" / "calibration")
    again = Run(RunFolder.open(tmp_path / "run"), scorer=scorer)
    assert same(again.calibration, fitted)
    assert same(load(tmp_path / "run").calibration, plain.calibration)


def test_the_service_answers_with_the_scorer_it_was_given(run, scorer):
    from tuckerkg.serve.engine.engine import Engine
    from tuckerkg.serve.schemas.asked import Asked, AskedWhy

    engine = Engine(run)
    (answers,) = engine.answer([Asked(head="e003", relation="plus2", k=10, typed=False)])
    assert {int(fact["tail"][1:]) for fact in answers} == set(best_of(scorer, 3, 1, 10))
    explained = engine.explaining.explain(AskedWhy(head="e000", relation="plus1", tail="e001"))
    assert explained.standing.score == pytest.approx(row_of(scorer, 0, 0)[1], abs=1e-5)
    engine.close()

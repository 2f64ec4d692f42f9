"""A search with a budget: a fast run finds the questions, a slow one is asked no more than that and ranks the facts."""

from __future__ import annotations

import shutil

import pytest
import torch
from graphs import toy_dataset
from typer.testing import CliRunner

import tuckerkg
from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.data.labels import Labels
from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.predictor import Predictor
from tuckerkg.inference.retrieval import Retrieval
from tuckerkg.training.callbacks import NullCallback

DATA = toy_dataset()
N, R = len(DATA.entities), len(DATA.relations)
SPLITS = [DATA.train, DATA.valid, DATA.test]
NAMES = Labels("entity", list(DATA.entities.labels), {}), Labels("relation", list(DATA.relations.labels), {})


class Table:
    """A row of scores for each question; remembers the questions that it is asked."""

    def __init__(self, seed: int, noise: float = 0.0) -> None:
        self.num_entities, self.num_relations = N, R
        self.asked: list[tuple[int, int]] = []
        table = torch.randn(2 * R, N, N, generator=torch.Generator().manual_seed(0))
        self.table = table + noise * torch.randn(2 * R, N, N, generator=torch.Generator().manual_seed(seed))

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        self.asked += zip(heads.tolist(), relation_ids.tolist(), strict=True)
        return self.table[relation_ids, heads]


def search(slow: Table, fast: Table, **options) -> Retrieval:
    found = Retrieval(Predictor(slow, *NAMES, SPLITS), Predictor(fast, *NAMES, SPLITS), typed=False, **options)
    found.cost  # noqa: B018  (measured once, by asking a few)
    slow.asked.clear()
    return found


def facts(found):
    return [(fact.head, fact.relation, fact.tail) for fact in found]


def test_the_slow_run_is_asked_only_the_most_promising_questions():
    slow, fast = Table(1, noise=0.3), Table(2)
    found = search(slow, fast, ask=12)
    assert found.cost.asked == 12
    assert found.cost.questions == N * R
    best = found.top_missing(5)
    assert len(slow.asked) == 12
    known = {tuple(fact) for split in SPLITS for fact in split.tolist()}
    highest = {
        (h, r): max(float(fast.table[r, h, t]) for t in range(N) if (h, r, t) not in known)
        for h in range(N)
        for r in range(R)
    }
    assert slow.asked == sorted(highest, key=lambda question: -highest[question])[:12]
    assert [fact.score for fact in best] == sorted((fact.score for fact in best), reverse=True)
    for fact in best:  # scores are the slow run's
        h, r, t = int(fact.head[1:]), int(fact.relation[4:]) - 1, int(fact.tail[1:])
        assert fact.score == pytest.approx(float(slow.table[r, h, t]))


def test_with_all_questions_asked_it_is_the_search_over_the_whole_graph():
    slow, fast = Table(1, noise=1.0), Table(2, noise=1.0)
    whole = Predictor(slow, *NAMES, SPLITS).top_missing(10, typed=False)
    assert facts(search(slow, fast, ask=10_000).top_missing(10)) == facts(whole)


def test_a_retriever_that_agrees_finds_the_same_facts_with_few_questions():
    slow, fast = Table(1, noise=0.05), Table(2, noise=0.05)
    whole = Predictor(slow, *NAMES, SPLITS).top_missing(5, typed=False)
    found = search(slow, fast, ask=15)
    assert facts(found.top_missing(5)) == facts(whole)
    assert len(slow.asked) == 15


def test_minutes_become_a_number_of_questions(monkeypatch):
    monkeypatch.setattr(Predictor, "seconds_for", lambda self, questions, typed: 2.0 * len(questions))
    found = search(Table(1), Table(2), minutes=(2.0 * N * R + 21.0) / 60.0)  # all by the retriever, then ten more
    assert found.cost.asked == 10
    assert found.cost.seconds == 20.0
    assert "10 of 60 questions are asked" in str(found.cost)
    assert "about 120 s to find and 20 s to ask them here; all would take 120 s" in str(found.cost)
    with pytest.raises(TuckerkgError, match=r"1 minutes are too few: finding the questions takes about 120 s"):
        search(Table(1), Table(2), minutes=1.0)
    assert search(Table(1), Table(2)).cost.asked == N * R  # as many as there are, below the usual number


def test_a_slow_scorer_is_measured_on_few_questions(monkeypatch):
    import time

    class Slow(Table):
        def scores(self, heads, relation_ids):
            clock[0] += 0.1 * len(heads)
            return super().scores(heads, relation_ids)

    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    slow = Slow(1)
    predictor = Predictor(slow, *NAMES, SPLITS)
    assert predictor.seconds_for(predictor.missing_questions(False), False) == pytest.approx(0.1 * N * R)
    assert len(slow.asked) == 1 + 1 + 8


def test_the_logit_of_the_best_missing_answer(toy_run):
    questions = toy_run.predictor.missing_questions(typed=False)
    found = toy_run.predictor.best_logits(questions, typed=False)
    for (head, relation), logit in zip(questions.tolist()[:9], found.tolist(), strict=False):
        answers = toy_run.predict(f"e{head:03}", f"plus{relation + 1}", k=10, typed=False, joined=False)
        best = max(answers, key=lambda fact: fact.score)
        assert best.probability == pytest.approx(float(torch.sigmoid(torch.tensor(logit))), rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ask": 0}, "questions to ask is 0"),
        ({"minutes": 0.0}, "minutes is 0.0"),
        ({"minutes": float("nan")}, "minutes is nan"),
        ({"ask": 3, "minutes": 2.0}, "not both"),
    ],
)
def test_budgets_that_cannot_be_are_refused(options, message):
    with pytest.raises(TuckerkgError, match=message):
        search(Table(1), Table(2), **options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("retrieval")
    small = {"model.dim": 8, "model.relation_dim": 8, "train.threads": 1, "train.epochs": 6.0}
    for name, data in (("one", DATA), ("two", DATA), ("larger", toy_dataset(num_entities=25))):
        overrides = {**small, "encoder": "none", "train.seed": len(name)}
        api.train(data, out=place / name, overrides=overrides, callback=NullCallback())
    tuckerkg.blend([place / "one", place / "two"], out=place / "both")
    return place


def test_a_member_with_embeddings_is_the_retriever_of_a_blend(runs):
    run = tuckerkg.load(runs / "both")
    found = run.retrieval(ask=5, typed=False)
    assert torch.equal(found.retriever.scorer.vectors(), tuckerkg.load(runs / "one").scorer.vectors())
    assert len(found.top_missing(3)) == 3
    given = run.retrieval(tuckerkg.load(runs / "two"), ask=5)
    assert torch.equal(given.retriever.scorer.vectors(), tuckerkg.load(runs / "two").scorer.vectors())


def test_a_run_without_a_retriever_or_with_another_graph_is_refused(runs):
    run = tuckerkg.load(runs / "one")
    with pytest.raises(TuckerkgError, match=r"needs a run that finds them; .* --retriever RUN"):
        run.retrieval(ask=5)
    with pytest.raises(TuckerkgError, match=r"larger: knows 25 entities, which are not the 20 of .*one"):
        run.retrieval(tuckerkg.load(runs / "larger"))


def test_the_verb_states_the_cost_first(runs, tmp_path):
    shutil.copytree(runs / "both", tmp_path / "both")
    words = ["predict", str(tmp_path / "both"), "--top-missing", "3", "--untyped", "--format", "json"]
    for more in (["--ask", "7"], ["--retriever", str(runs / "two"), "--minutes", "5"]):
        shown = CliRunner().invoke(app, [*words, *more])
        assert shown.exit_code == 0, shown.output
        assert "questions are asked, the most promising ones" in shown.stderr
        assert shown.stdout.count('"probability"') == 3
    refused = CliRunner().invoke(app, ["predict", str(tmp_path / "both"), "--head", "e001", "--ask", "7"])
    assert refused.exit_code != 0
    assert "are for --top-missing" in str(refused.exception)

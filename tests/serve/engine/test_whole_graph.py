"""The search over the whole graph: what a slow run is asked, how many questions, and that requests go first."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch

import tuckerkg
from tuckerkg import api
from tuckerkg.inference.predictor import Predictor
from tuckerkg.inference.run import Run
from tuckerkg.nn.contracts import Scorer
from tuckerkg.serve.engine import whole_graph
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.engine.listing import Filters
from tuckerkg.serve.engine.whole_graph import MissingSearch, Requests
from tuckerkg.serve.schemas.links import Missing
from tuckerkg.training.callbacks import NullCallback

SECONDS = 0.004  # of a question to the slow run


class Slow(Scorer):
    """Another scorer, slower; counts its questions."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.asked, self.largest = scorer, 0, 0
        self.num_entities, self.num_relations = scorer.num_entities, scorer.num_relations

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        self.asked, self.largest = self.asked + len(heads), max(self.largest, len(heads))
        time.sleep(SECONDS * len(heads))
        return self.scorer.scores(heads, relation_ids)


def people() -> list[tuple[str, str, str]]:
    """Who likes and knows whom, at random: every question is open."""
    random = np.random.default_rng(3)
    pairs = {(relation, *random.integers(0, 20, 2).tolist()) for relation in ("likes", "knows") for _ in range(110)}
    return [(f"p{head:02}", relation, f"p{tail:02}") for relation, head, tail in sorted(pairs)]


SMALL = {"model.dim": 8, "model.relation_dim": 8, "train.threads": 1, "train.epochs": 4.0, "encoder": "none"}


@pytest.fixture(scope="module")
def fast_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("people") / "fast"
    return api.train(people(), out=out, overrides=SMALL, callback=NullCallback())


@pytest.fixture
def slow_run(fast_run):
    run = Run(fast_run.folder, scorer=Slow(fast_run.scorer))
    run.calibration  # noqa: B018  (fitted before anything is counted)
    return run


@pytest.fixture(autouse=True)
def _measured(monkeypatch):
    """As many seconds as the scorer sleeps, whatever else this machine does."""

    def seconds_for(self, questions, typed=True):
        return SECONDS * len(questions) if isinstance(self.scorer, Slow) else 0.0

    monkeypatch.setattr(Predictor, "seconds_for", seconds_for)


def finished(search: MissingSearch) -> MissingSearch:
    search.start()
    end = time.monotonic() + 60
    while search.found is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    search.close()
    return search


def test_a_fast_run_is_asked_everything(fast_run):
    search = finished(MissingSearch(fast_run, Requests()))
    total = len(fast_run.predictor.missing_questions())
    assert (search.questions, search.asked, search.chosen, search.progress) == (total, total, "all", (total, total))
    assert search.found == fast_run.top_missing(whole_graph.KEPT)


def test_a_slow_run_in_time_is_asked_everything_part_by_part(slow_run, fast_run, monkeypatch):
    monkeypatch.setattr(whole_graph, "PART", 3.5 * SECONDS)
    search = MissingSearch(slow_run, Requests())
    slow_run.scorer.largest = 0
    finished(search)
    assert search.chosen == "all"
    assert slow_run.scorer.largest == 3
    expected = fast_run.top_missing(whole_graph.KEPT)
    assert [fact.probability for fact in search.found] == pytest.approx(
        [fact.probability for fact in expected], rel=1e-4
    )


def test_a_slow_run_without_a_retriever_is_asked_random_questions_within_its_minutes(slow_run):
    total = len(slow_run.predictor.missing_questions())
    search = finished(MissingSearch(slow_run, Requests(), minutes=(total / 4 + 0.5) * SECONDS / 60))
    assert search.chosen == "random"
    assert search.asked == int(total / 4 + 0.5)
    assert search.questions == total
    probabilities = [fact.probability for fact in search.found]
    assert probabilities == sorted(probabilities, reverse=True)
    assert len({fact.relation for fact in search.found}) > 1


def test_a_blend_is_asked_what_its_member_finds_promising(fast_run, tmp_path):
    overrides = {"kind": "paths", "paths.width": 8, "paths.layers": 2, "train.steps": 4, "train.threads": 1}
    api.train(people(), out=tmp_path / "paths", overrides=overrides, callback=NullCallback())
    both = tuckerkg.blend([tmp_path / "paths", fast_run.path], out=tmp_path / "both")
    both.predictor.scorer = Slow(both.scorer)
    total = len(both.predictor.missing_questions())
    search = finished(MissingSearch(both, Requests(), minutes=(total / 2 + 0.5) * SECONDS / 60))
    assert search.chosen == "promising"
    assert search.asked == int(total / 2 + 0.5)
    again = both.predictor.scorer.asked - search.asked  # in the other direction
    assert 0 < again <= both.predictor.shortlist_size(whole_graph.KEPT_SLOW)


def test_a_search_waits_for_requests_but_not_for_ever(slow_run, monkeypatch):
    monkeypatch.setattr(whole_graph, "PART", SECONDS)
    monkeypatch.setattr(whole_graph, "WAIT", 0.2)
    requests = Requests()
    search = MissingSearch(slow_run, requests)
    with requests:
        search.start()
        time.sleep(0.7)
        during = search.progress[0]
    finished(search)
    assert 1 <= during <= 4  # one question per wait
    assert search.progress[0] == search.asked > 10


def test_closing_ends_it(slow_run, monkeypatch):
    monkeypatch.setattr(whole_graph, "PART", SECONDS)
    search = MissingSearch(slow_run, Requests())
    search.start()
    search.close()
    assert search.found is None
    assert not [thread for thread in threading.enumerate() if thread is search._thread]


def test_the_engine_says_how_many_questions_were_asked(fast_run):
    engine = Engine(fast_run)
    end = time.monotonic() + 60
    everything = Filters(at_least=0.0)
    while (found := engine.listing.missing(3, 0, everything)).state == "working":
        assert time.monotonic() < end
        time.sleep(0.01)
    engine.close()
    assert isinstance(found, Missing)
    assert found.asked == found.questions == len(fast_run.predictor.missing_questions())
    assert found.chosen == "all"
    assert len(found.answers) == 3


def test_a_search_that_fails_says_so_and_is_begun_again(fast_run, monkeypatch):
    engine = Engine(fast_run)

    def fail(*_, **__):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(MissingSearch, "_ask", fail)
        assert engine.listing.missing(5).state == "working"
        engine.search()._thread.join(30)
        found = engine.listing.missing(5)
    assert (found.state, found.reason, found.answers) == ("failed", "the memory does not suffice", [])
    assert engine.listing.missing(5).state in ("working", "ready")
    engine.search()._thread.join(30)
    assert engine.listing.missing(5).state == "ready"
    engine.close()

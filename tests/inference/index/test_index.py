"""An index proposes, exact scores decide: recall is measured, sums are estimated, and what is stale is built again."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from graphs import random_triples, toy_dataset

import tuckerkg
from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.answers.search import ExactSearch
from tuckerkg.inference.index import search as indexed_search
from tuckerkg.inference.index.candidates import CandidateIndex
from tuckerkg.inference.index.search import Candidates, IndexedSearch, measured
from tuckerkg.nn.decoders.distmult import DistMult
from tuckerkg.nn.embedding_scorer import EmbeddingScorer
from tuckerkg.nn.encoders import ENCODERS
from tuckerkg.nn.model import Model
from tuckerkg.probability.features import GraphFacts

pytest.importorskip("faiss")
N, R, D = 6_000, 3, 16


def candidates_of(bias: str = "none") -> Candidates:
    torch.manual_seed(0)
    model = Model(N, R, D, D, ENCODERS["none"](D, D, 2 * R), DistMult(D, D), init_std=1.0, bias=bias)
    centres = torch.randn(50, D)
    with torch.no_grad():
        model.entities.copy_(centres[torch.randint(50, (N,))] + 0.3 * torch.randn(N, D))
        if model.bias is not None:
            model.bias.normal_()
    model.eval()
    return Candidates(EmbeddingScorer(model, np.empty((0, 3), dtype=np.int64)))


def questions(count: int) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.stack([torch.randint(N, (count,)), torch.randint(2 * R, (count,))], 1)


@pytest.fixture(scope="module", params=["none", "free"])
def built(request):
    candidates = candidates_of(request.param)
    index = CandidateIndex.of(candidates.vectors)
    return candidates, index, measured(candidates, index, questions(200))


def test_its_recall_is_measured_against_a_scan_and_good(built):
    candidates, index, quality = built
    asked = questions(200)[1::2]
    scores = candidates.scorer.scores(*asked.unbind(1))
    best = scores.topk(10).indices
    ids = index.propose(candidates.queries(*asked.unbind(1)), 300)
    hits = [len(set(row.tolist()) & set(found.tolist())) for row, found in zip(best, ids, strict=True)]
    assert quality["recall_at_10"] == pytest.approx(np.mean(hits) / 10, abs=0.01)
    assert quality["recall_at_10"] > 0.95
    assert quality["probes"] == index.probes <= quality["lists"] == index.lists
    index.read(1)
    worse = measured(candidates, index, questions(200)[:2])  # chooses again
    assert worse["probes"] >= 1
    index.read(quality["probes"])


def test_scores_of_proposals_are_exact(built):
    candidates, index, _ = built
    asked = questions(20)
    queries = candidates.queries(*asked.unbind(1))
    ids = index.propose(queries, 300)
    expected = candidates.scorer.scores(*asked.unbind(1)).gather(1, ids)
    assert torch.allclose(candidates.scores(queries, ids), expected, rtol=1e-4, atol=1e-4)


def test_sums_are_estimated_and_exact_where_the_sample_is_all(built, monkeypatch):
    candidates, index, quality = built
    asked = questions(30)
    queries = candidates.queries(*asked.unbind(1))
    exact = torch.logsumexp(candidates.scorer.scores(*asked.unbind(1)).double(), 1)
    ids = index.propose(queries, 300)
    everyone = Candidates(candidates.scorer)
    assert torch.allclose(everyone.log_sums(queries, ids, everyone.scores(queries, ids)), exact, atol=1e-4)
    monkeypatch.setattr(indexed_search, "SAMPLE", 500)
    few = Candidates(candidates.scorer)
    error = (few.log_sums(queries, ids, few.scores(queries, ids)) - exact).abs()
    assert 1e-6 < error.median() < 0.2
    none = torch.full_like(ids, -1)
    of_sample = few.log_sums(queries, none, few.scores(queries, none))
    scores = candidates.scorer.scores(*asked.unbind(1))[:, few.sample].double()
    assert torch.allclose(of_sample, torch.logsumexp(scores, 1) + np.log(N / 500), atol=1e-4)
    assert quality["sum_error"][0] < 1e-4  # 20,000 are all of them


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("few", [4_096, 10])  # all of a type are scored, or what is proposed and a scan where needed
def test_answers_are_those_of_a_scan(built, typed, few, monkeypatch):
    monkeypatch.setattr(indexed_search, "FEW", few)
    candidates, index, quality = built
    index.read(index.lists)  # nothing is missed
    graph = GraphFacts(random_triples(2, N, R, 2_000), N, R)
    search, scan = IndexedSearch(candidates, index, graph), ExactSearch(candidates.scorer, graph)
    asked = torch.cat([questions(90), torch.from_numpy(random_triples(2, N, R, 2_000)[:10, :2])])
    known = torch.arange(len(asked)) % 2 == 0
    wanted = known, torch.full((len(asked),), typed), torch.full((len(asked),), 10)
    found, expected = (
        {
            (question, answer): (score, share)
            for part in each.best(asked, *wanted)
            for question, answer, score, share in zip(
                part.questions.tolist(), part.answers.tolist(), part.scores.tolist(), part.shares.tolist(), strict=True
            )
        }
        for each in (search, scan)
    )
    assert len(found) == len(expected) > 900
    missed = expected.keys() - found.keys()
    assert len(missed) <= 0.01 * len(expected)  # eight bits a number; the proposals make up for most
    for key in expected.keys() & found.keys():
        assert found[key] == pytest.approx(expected[key], abs=1e-3)
    index.read(quality["probes"])


def test_shares_of_given_answers_are_those_of_a_scan(built):
    candidates, index, _ = built
    graph = GraphFacts(random_triples(2, N, R, 2_000), N, R)
    asked, answers = questions(100), torch.randint(N, (100,))
    ours = IndexedSearch(candidates, index, graph).log_shares(*asked.unbind(1), answers)
    theirs = ExactSearch(candidates.scorer, graph).log_shares(*asked.unbind(1), answers)
    for found, expected in zip(ours, theirs, strict=True):
        assert torch.allclose(found.double(), expected.double(), atol=1e-3)


def test_a_run_with_an_index_gives_the_answers_of_the_run(toy_run, tmp_path):
    run = tuckerkg.load(toy_run.save(tmp_path / "run"))
    indexed = run.indexed()
    assert indexed.index.quality.recall_at_10 == 1.0
    for question in ({"head": "e003", "relation": "plus1"}, {"relation": "plus2", "tail": "e007"}, {"head": "e001"}):
        ours, theirs = indexed.predict(**question), run.predict(**question)
        assert [fact.tail for fact in ours] == [fact.tail for fact in theirs]
        assert [fact.probability for fact in ours] == pytest.approx([fact.probability for fact in theirs], abs=1e-4)
    assert [fact.tail for fact in indexed.top_missing(5)] == [fact.tail for fact in run.top_missing(5)]
    assert run.index is None


@pytest.mark.parametrize("damage", ["flipped", "absent", "other weights", "other facts"])
def test_f20_a_damaged_or_stale_index_is_built_again(toy_run, tmp_path, damage, caplog):
    run = tuckerkg.load(toy_run.save(tmp_path / "run"))
    quality = run.indexed().index.quality
    place = run.path / "index" / f"step-{run.step:08d}-version-0001"
    before = (place / "candidates.faiss").read_bytes()
    caplog.clear()
    assert run.indexed().index.quality == quality
    assert "building an index" not in caplog.text
    if damage == "flipped":
        (place / "candidates.faiss").write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    elif damage == "absent":
        (place / "about.json").unlink()
    elif damage == "other weights":
        from tuckerkg.storage.sealed_folder import json_bytes, write_sealed

        about = json.loads((place / "about.json").read_text())
        about["made_of"]["checkpoint"] = "another"
        write_sealed(place, {"candidates.faiss": before, "about.json": json_bytes(about)})
    else:
        run = run.add([("e001", "plus1", "new")])
    assert run.indexed().index.quality.questions == quality.questions
    assert "building an index" in caplog.text
    assert (place / "candidates.faiss").read_bytes() == before


def test_what_has_no_index_is_refused_in_words(path_run, tmp_path, monkeypatch, toy_run):
    with pytest.raises(TuckerkgError, match="asks in another way"):
        path_run.indexed()
    far = {"decoder": "transe", "encoder": "none", "train.steps": 1, "model.dim": 4, "model.relation_dim": 4}
    with pytest.raises(TuckerkgError, match="compares by a distance"):
        tuckerkg.train(toy_dataset(), out=tmp_path / "far", overrides=far).indexed()

    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(TuckerkgError, match=r"pip install 'tuckerkg\[faiss\]'"):
        toy_run.indexed()


def test_the_command_line_and_the_service_say_that_sums_are_estimated(toy_run, tmp_path, monkeypatch):
    from services import running
    from typer.testing import CliRunner

    from tuckerkg.cli.app import app

    place = toy_run.save(tmp_path / "run")
    words = ["predict", str(place), "--head", "e003", "--relation", "plus1"]
    shown = CliRunner().invoke(app, [*words, "--index"])
    assert shown.exit_code == 0, shown.output
    assert "recall@10 1.000" in shown.stderr
    assert "sums estimated from 20 random entities" in shown.stderr
    assert "index" not in CliRunner().invoke(app, words).stderr
    monkeypatch.setattr("tuckerkg.inference.index.of_run.INDEXED_FROM", 20)
    assert "recall@10 1.000" in CliRunner().invoke(app, words).stderr
    assert "recall@10" not in CliRunner().invoke(app, [*words, "--no-index"]).stderr
    with running(place, "--index") as service:
        about = json.loads(service.ask("GET", "/api/v1/run")[1])
        assert about["index"]["recall_at_10"] == 1.0
        assert "estimated" in about["model"]["index"]
        assert service.post("/api/v1/predict", {"head": "e003", "relation": "plus1"})[1]["sums"] == "estimated"

"""A blend as a run: made of trained runs, whole without them, used like any other; refusals in words; the verb."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from typer.testing import CliRunner

import tuckerkg
from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.config.toml import load_settings
from tuckerkg.errors import RunFolderError, SettingsError, TuckerkgError
from tuckerkg.explain.explainer import Explainer
from tuckerkg.nn.blend_scorer import BlendScorer
from tuckerkg.nn.contracts import HasVectors
from tuckerkg.reports.blends import BlendReport
from tuckerkg.storage.versions import version_numbers
from tuckerkg.training.callbacks import NullCallback

SHORT = {"train.threads": 1, "train.evaluate_every": 4.0, "train.epochs": 8.0}
SMALL = {**SHORT, "model.dim": 8, "model.relation_dim": 8}
QUESTIONS = torch.arange(12), torch.arange(12) % 6


def trained(path, data=None, **changes):
    overrides = {**(SHORT if changes.get("kind") == "paths" else SMALL), **changes}
    return api.train(data or toy_dataset(), out=path, overrides=overrides, callback=NullCallback())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two trained runs, one with and one without encoder, and their blend."""
    place = tmp_path_factory.mktemp("blends")
    trained(place / "tucker", encoder="none", **{"train.lr": 0.02})
    trained(place / "tgcn", **{"decoder": "distmult", "train.lr": 0.02, "train.seed": 1})
    tuckerkg.blend([place / "tucker", tuckerkg.load(place / "tgcn")], out=place / "both")
    return place


@pytest.fixture
def place(folder, tmp_path):
    """A copy, to be changed."""
    shutil.copytree(folder, tmp_path / "runs")
    return tmp_path / "runs"


def both_scorers(place, weights):
    return BlendScorer([tuckerkg.load(place / name).scorer for name in ("tucker", "tgcn")], weights)


def test_scores_are_the_weighted_log_shares_of_the_members(folder):
    run = tuckerkg.load(folder / "both")
    assert run.settings.kind == "blend"
    weights = run.folder.checkpoints.weights().weights["weights"]
    assert (weights.shape, weights.dtype) == ((6, 2), torch.float64)
    assert bool((weights >= 0).all())
    expected = 0
    for place, name in enumerate(("tucker", "tgcn")):
        scores = tuckerkg.load(folder / name).scorer.scores(*QUESTIONS).double()
        expected = expected + weights[QUESTIONS[1], place, None] * torch.log_softmax(scores, 1)
    assert torch.allclose(run.scorer.scores(*QUESTIONS).double(), expected, atol=1e-4)


def test_a_blend_is_no_worse_on_validation_than_its_members(folder):
    run = tuckerkg.load(folder / "both")
    alone = [tuckerkg.load(folder / name).evaluate("valid").mrr for name in ("tucker", "tgcn")]
    assert [member["valid_mrr"] for member in run.state["members"]] == pytest.approx(alone)
    assert run.evaluate("valid").mrr == pytest.approx(run.state["best_mrr"])
    assert run.state["best_mrr"] >= max(alone)
    assert run.metrics[0]["valid"]["mrr"] == run.state["best_mrr"]
    assert run.member_names == ["tucker", "tgcn"]


def test_it_opens_after_its_members_are_gone(place):
    before = tuckerkg.load(place / "both").scorer.scores(*QUESTIONS)
    for name in ("tucker", "tgcn"):
        shutil.rmtree(place / name)
    assert torch.equal(tuckerkg.load(place / "both").scorer.scores(*QUESTIONS), before)


def test_training_a_member_on_does_not_change_the_blend(folder, tmp_path):
    trained(tmp_path / "one", encoder="none")
    trained(tmp_path / "two", decoder="distmult")
    made = tuckerkg.blend([tmp_path / "one", tmp_path / "two"], out=tmp_path / "both")
    before, rows = made.scorer.scores(*QUESTIONS), made.members[0].metrics
    stored = json.loads((tmp_path / "one" / "settings.json").read_text())
    stored["train"]["epochs"] = 16.0
    (tmp_path / "one" / "settings.json").write_text(json.dumps(stored))
    api.resume(tmp_path / "one", NullCallback())
    opened = tuckerkg.load(tmp_path / "both")
    assert torch.equal(opened.scorer.scores(*QUESTIONS), before)
    assert opened.members[0].metrics == rows
    opened.members[0].folder.checkpoints.at(opened.members[0].step)  # every sealed file is there


def test_everything_that_is_asked_of_a_run_works(folder, tmp_path):
    run = tuckerkg.load(folder / "both")
    assert 0.0 < run.evaluate("test").mrr <= 1.0
    assert len(run.predict("e003", "plus2", k=5, typed=False)) == 5
    assert run.score([("e003", "plus2", "e005")])[0].probability < 1.0
    assert len(run.top_missing(4, typed=False)) == 4
    assert 0.0 <= run.reliability().ece <= 1.0
    assert 0.0 <= run.answer_set_coverage("test", 0.5).tail <= 1.0
    assert run.folder.calibration(run.step, 1) is not None
    parts = [tuckerkg.load(folder / name).model.counts() for name in ("tucker", "tgcn")]
    assert run.counts().as_dict() == {
        name: sum(getattr(part, name) for part in parts) for name in ("efp", "nfp", "enfp")
    }
    compared = tuckerkg.compare([folder / "tucker", run])
    assert compared.groups[1].parameters == sum(part.efp + part.nfp for part in parts)
    for page in ("page.html", "card.md"):
        tuckerkg.report(run, tmp_path / page)
        assert "tucker and tgcn" in (tmp_path / page).read_text(encoding="utf-8").replace("\\", "")


def test_edges_are_read_where_a_member_reads_them(folder):
    run = tuckerkg.load(folder / "both")
    weights = torch.ones(6, 2, dtype=torch.float64)
    blended = tuckerkg.Run(run.folder, scorer=BlendScorer([member.scorer for member in run.members], weights))
    assert blended.uses_messages
    found = blended.explain("e000", "plus1", "e001", k=3)
    assert len(found.edges) == 3
    assert found.paths
    assert blended.evaluate("test", messages=False).mrr > 0.0
    reader = tuckerkg.load(folder / "tgcn").scorer
    expected = BlendScorer([tuckerkg.load(folder / "tucker").scorer, reader.without([3])], weights)
    assert torch.equal(blended.scorer.without([3]).scores(*QUESTIONS), expected.scores(*QUESTIONS))


def test_it_is_served(folder):
    from tuckerkg.serve.engine.engine import Engine
    from tuckerkg.serve.schemas.asked import Asked

    engine = Engine(tuckerkg.load(folder / "both"))
    (answers,) = engine.answer([Asked(head="e003", relation="plus2", k=5, typed=False)])
    assert len(answers) == 5
    assert engine.page.about.model["blend of"] == "tucker and tgcn"
    engine.close()


def test_facts_are_added_to_every_member(place, tmp_path):
    (tmp_path / "new.tsv").write_text("fresh\tplus1\te005\nfresh\tplus2\te006\ne003\tplus1\tfresh\n")
    tuckerkg.blend([place / "both", place / "tucker"], out=place / "nested")
    for name in ("both", "nested"):
        added = tuckerkg.load(place / name).add(tmp_path / "new.tsv")
        assert added.version == 2
        assert [member.version for member in added.members] == [2, 2]
        assert len(added.entities) == added.scorer.num_entities == 21
        assert {fact.tail for fact in added.predict("fresh", "plus1", k=21, known=True) if fact.known} == {"e005"}
        old = tuckerkg.load(f"{place / name}@1")
        assert len(old.entities) == old.scorer.num_entities == 20
    assert version_numbers(place / "tucker") == [1]  # the runs it was made of are not touched


def test_a_blend_of_blends_is_a_blend(place):
    made = tuckerkg.blend([place / "both", place / "tucker"], out=place / "nested")
    assert made.state["best_mrr"] >= tuckerkg.load(place / "both").state["best_mrr"]
    shutil.rmtree(place / "both")
    shutil.rmtree(place / "tucker")
    again = tuckerkg.load(place / "nested")
    assert torch.equal(again.scorer.scores(*QUESTIONS), made.scorer.scores(*QUESTIONS))
    assert len(again.members[0].members) == 2


@pytest.fixture(scope="module")
def with_paths(folder):
    """A run that starts from the question, blended with one of embeddings."""
    trained(folder / "paths", kind="paths", **{"paths.width": 8, "paths.layers": 3, "train.lr": 0.01})
    return tuckerkg.blend([folder / "paths", folder / "tucker"], out=folder / "mixed")


def test_a_run_that_starts_from_the_question_is_a_member_like_others(with_paths, folder, tmp_path):
    assert with_paths.state["best_mrr"] >= max(member["valid_mrr"] for member in with_paths.state["members"])
    assert with_paths.uses_messages
    search = with_paths.retrieval(ask=4, typed=False)
    assert torch.equal(search.retriever.scorer.vectors(), tuckerkg.load(folder / "tucker").scorer.vectors())
    assert len(search.top_missing(3)) == 3
    assert len(with_paths.explain("e000", "plus1", "e001", k=2).edges) == 2
    shutil.copytree(folder / "mixed", tmp_path / "mixed")
    added = tuckerkg.load(tmp_path / "mixed").add([("fresh", "plus1", "e005"), ("e003", "plus1", "fresh")])
    assert [member.scorer.num_entities for member in added.members] == [21, 21]
    assert len(added.predict("fresh", "plus2", k=3, typed=False)) == 3


def test_paths_of_a_member_are_named_with_its_share_of_the_weights(with_paths):
    alone, weights = with_paths.members[0].scorer, torch.tensor([[1.0, 3.0]]).expand(6, 2)
    scorer = BlendScorer([member.scorer for member in with_paths.members], weights)
    named = [(fact, path) for fact in toy_dataset().test.tolist() for path in alone.strongest_paths(*fact, 1)]
    assert named
    for fact, path in named:
        (found,) = scorer.strongest_paths(*fact, 1)
        assert (found.entity_ids, found.relation_ids) == (path.entity_ids, path.relation_ids)
        assert found.share == pytest.approx(path.share / 4)
    fact, path = named[0]
    explainer = Explainer(scorer, with_paths.split("train"), with_paths.predictor.known)
    assert explainer.paths(*fact, 1)[0].share == pytest.approx(path.share / 4)
    unasked = BlendScorer(scorer.members, torch.tensor([[0.0, 1.0]]).expand(6, 2))
    explained = Explainer(unasked, with_paths.split("train"), with_paths.predictor.known).paths(*fact, 1)
    assert all(path.share is None for path in explained)


def test_a_blend_answers_for_another_graph_by_the_members_that_can(with_paths, folder, place, tmp_path):
    graph = [("x", "plus1", "y"), ("y", "plus1", "z")]
    assert len(with_paths.on(graph).scorer.members) == 1
    with pytest.raises(TuckerkgError, match="this run learnt a vector for each entity"):
        tuckerkg.load(place / "both").on(graph)
    elsewhere = tuckerkg.load(folder / "paths").on(graph)
    with pytest.raises(TuckerkgError, match=r"paths: answers for .*, and weights are fitted on the graph of training"):
        tuckerkg.blend([folder / "tucker", elsewhere], out=tmp_path / "out")


def test_a_blend_of_runs_that_start_from_the_question_answers_for_other_graphs(with_paths, folder):
    small = {"paths.width": 8, "paths.layers": 2, "train.lr": 0.01, "train.seed": 1}
    trained(folder / "shorter", kind="paths", **small)
    both = tuckerkg.blend([folder / "paths", folder / "shorter"], out=folder / "path-models")
    facts = [("x", "plus1", "y"), ("y", "plus1", "z"), ("z", "plus1", "u")]
    other = both.on(facts)
    assert other.scorer.num_entities == 4
    members = [tuckerkg.load(folder / name).on(facts) for name in ("paths", "shorter")]
    expected = BlendScorer([member.scorer for member in members], both.scorer.weights)
    asked = torch.tensor([0, 1]), torch.tensor([1, 0])
    assert torch.equal(other.scorer.scores(*asked), expected.scores(*asked))
    assert other.calibration is both.calibration


def test_what_a_blend_cannot_do_is_refused_in_words(place):
    run = tuckerkg.load(place / "both")
    assert not isinstance(run.scorer, HasVectors)
    with pytest.raises(TuckerkgError, match="a blend has no vectors of its own; those of a member are in"):
        run.vectors()
    with pytest.raises(TuckerkgError, match=r"a blend has no model of its own; run.members\[0\].model"):
        run.model  # noqa: B018
    with pytest.raises(SettingsError, match="nothing to train itself"):
        api.resume(place / "both", NullCallback())
    with pytest.raises(TuckerkgError, match="both: a warm start takes over vectors of entities"):
        trained(place / "warm", **{"start.run": str(place / "both")})


def test_runs_that_do_not_fit_together_are_refused(place, tmp_path):
    ring, larger = toy_dataset(), toy_dataset(num_entities=21)
    trained(tmp_path / "larger", larger, encoder="none")
    trained(
        tmp_path / "renamed", replace(ring, relations=type(ring.relations)(("plus1", "plus2", "plus4"))), encoder="none"
    )
    trained(tmp_path / "swapped", replace(ring, valid=ring.test, test=ring.valid), encoder="none")
    one = place / "tucker"
    for runs, message in (
        ([one], "two runs at least, 1 given"),
        ([one, one], "is named twice"),
        ([one, tmp_path / "larger"], "larger: was trained on other entities than .*tucker: it has 21, the other 20"),
        ([one, tmp_path / "renamed"], "other relations than .*the first that differ are 'plus4' and 'plus3'"),
        ([one, tmp_path / "swapped"], "swapped: has another valid split than"),
        ([one, tmp_path / "none"], "there is no such folder"),
    ):
        with pytest.raises(TuckerkgError, match=message):
            tuckerkg.blend(runs, out=tmp_path / "out")
        assert not (tmp_path / "out").exists()
    with pytest.raises(RunFolderError, match="already holds a run"):
        tuckerkg.blend([one, place / "tgcn"], out=place / "both")
    tuckerkg.load(one).add([("e000", "plus1", "e009")])
    with pytest.raises(TuckerkgError, match=r"tucker: is version 2, .*tucker@1, and add the facts to the blend"):
        tuckerkg.blend([one, place / "tgcn"], out=tmp_path / "out")
    assert tuckerkg.blend([f"{one}@1", place / "tgcn"], out=tmp_path / "out").members[0].version == 1


def test_a_blend_that_fails_half_way_leaves_nothing(place, tmp_path, monkeypatch):
    from tuckerkg.inference import blend as module

    def fail(*_):
        raise RunFolderError("the disk is full")

    monkeypatch.setattr(module, "copy_member", fail)
    with pytest.raises(RunFolderError, match="the disk is full"):
        tuckerkg.blend([place / "tucker", place / "tgcn"], out=tmp_path / "deep" / "out")
    assert list((tmp_path / "deep").iterdir()) == []


def test_a_member_that_is_a_link_is_refused(place):
    shutil.rmtree(place / "both" / "members" / "1")
    (place / "both" / "members" / "1").symlink_to(place / "both")
    with pytest.raises(RunFolderError, match="members/1: is a link"):
        tuckerkg.load(place / "both")


@pytest.mark.parametrize("weights", [torch.zeros(6, 0).double(), torch.ones(6).double(), torch.ones(4, 2).double()])
def test_weights_that_do_not_fit_are_refused(place, weights):
    run = tuckerkg.load(place / "both")
    run.folder.checkpoints.save(0, {"weights": weights}, {}, run.state, best=0)
    with pytest.raises(RunFolderError, match="tensor 'weights' has shape"):
        tuckerkg.load(place / "both")


def test_damage_is_found_when_it_is_opened(place):
    shutil.rmtree(place / "both" / "members" / "1")
    with pytest.raises(RunFolderError, match="members/1: there is no such folder"):
        tuckerkg.load(place / "both")


def test_without_hard_links_members_are_copied(place, monkeypatch):
    import os

    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    made = tuckerkg.blend([place / "tucker", place / "tgcn"], out=place / "copied")
    assert torch.equal(made.scorer.scores(*QUESTIONS), tuckerkg.load(place / "both").scorer.scores(*QUESTIONS))


def test_a_member_that_training_ranked_on_a_part_is_ranked_on_all_of_validation(place):
    """Otherwise a lucky part would win over the blend, which is ranked on all."""
    run = tuckerkg.load(place / "tucker")
    part = trained(place / "part", encoder="none", **{"train.lr": 0.02, "train.validate_on": 2})
    noted = {row["step"]: row["valid"]["mrr"] for row in part.metrics if row["valid"]}[part.step]
    ranked = part.evaluate("valid").mrr
    assert noted != pytest.approx(ranked)
    both = tuckerkg.blend([run, part], out=place / "with-part")
    assert [member["valid_mrr"] for member in both.state["members"]] == pytest.approx(
        [run.evaluate("valid").mrr, ranked]
    )


def test_where_one_member_is_best_the_blend_says_so(place, monkeypatch):
    from tuckerkg.inference import blend as module

    def poor(*given, **options):
        fitted = fit(*given, **options)
        return replace(fitted, weights=torch.tensor([[1e-6, 1.0]]).double().expand(6, 2), by="direction")

    fit = module.fit_blend
    monkeypatch.setattr(module, "_validation_mrr", lambda run: 1.0 if run.path.name == "tucker" else 0.1)
    monkeypatch.setattr(module, "fit_blend", poor)
    made = tuckerkg.blend([place / "tucker", place / "tgcn"], out=place / "one")
    assert made.scorer.weights.tolist() == [[1.0, 0.0]] * 6
    alone = tuckerkg.load(place / "tucker")
    assert made.evaluate("test").mrr == alone.evaluate("test").mrr
    assert "tucker alone is as good as any blend" in BlendReport.of(made).verdict


def test_the_verb_prints_figures_and_weights(place):
    words = ["blend", str(place / "tucker"), str(place / "tgcn"), "--out"]
    shown = CliRunner().invoke(app, [*words, str(place / "made"), "--test"])
    assert shown.exit_code == 0, shown.output
    for part in ("weight, tails asked", "│ blend", "test split", "paired bootstrap", "next: tuckerkg evaluate"):
        assert part in shown.stdout
    shown = CliRunner().invoke(app, [*words, str(place / "again"), "--json"])
    found = json.loads(shown.stdout)
    assert found["names"] == ["tucker", "tgcn"]
    assert sum(found["tails"]) == pytest.approx(1.0)
    assert found["by"] in ("member", "direction", "relation")
    assert "test" not in found


def test_relations_with_weights_of_their_own_are_counted(folder):
    run = tuckerkg.load(folder / "both")
    said = {**run.state, "weights_by": "relation", "own": 3}
    run.state = said
    assert "3 with enough validation questions" in BlendReport.of(run).verdict
    run.state = {**said, "weights_by": "direction"}
    assert "weights by direction" in BlendReport.of(run).verdict


def test_a_file_of_settings_cannot_ask_for_a_blend(tmp_path):
    with pytest.raises(SettingsError, match="tuckerkg blend RUN RUN --out NEW"):
        api.prepare(toy_dataset(), load_settings(None, {"kind": "blend"}), tmp_path / "run")
    assert not np.any([(tmp_path / "run").exists()])

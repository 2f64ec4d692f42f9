"""A run whose messages start from the question: all that can be done with a run, and facts that count at once."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from graphs import brute_force_ranks, toy_dataset
from small_runs import PATHS, prepare
from typer.testing import CliRunner

import tuckerkg
from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.config.toml import load_settings
from tuckerkg.errors import SettingsError, TuckerkgError
from tuckerkg.inference.adding.add_facts import add_facts
from tuckerkg.inference.adding.fold_in import fold_in
from tuckerkg.losses.objective import QuestionObjective
from tuckerkg.nn.contracts import AnswersOtherGraphs, HasVectors, ReadsEdges
from tuckerkg.nn.path_scorer import PathScorer
from tuckerkg.out_of_memory import OutOfMemory
from tuckerkg.reports.comparison import compare
from tuckerkg.reports.html import write_report
from tuckerkg.reports.inspection import inspect_dataset
from tuckerkg.reports.run_report import report_of
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.schemas.asked import Asked
from tuckerkg.storage.versions import version_numbers
from tuckerkg.training.callbacks import NullCallback
from tuckerkg.training.loop import fit
from tuckerkg.tuning.tune import tune

DATA = toy_dataset()
N, R = len(DATA.entities), len(DATA.relations)
SPLITS = ("train", "valid", "test")
KNOWN = {tuple(fact) for name in SPLITS for fact in DATA.split(name).tolist()}


@pytest.fixture
def copied(path_run, tmp_path):
    """A copy of the run folder, to be changed."""
    shutil.copytree(path_run.path, tmp_path / "run")
    return tmp_path / "run"


def row_of(run, head: int, relation: int) -> list[float]:
    return run.scorer.scores(torch.tensor([head]), torch.tensor([relation]))[0].tolist()


def shown(*words: object) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, found.output
    return found.output


# ---------------------------------------------------------------------------------------------------- questions


def test_its_scorer_can_what_it_says(path_run):
    scorer = path_run.scorer
    assert isinstance(scorer, PathScorer)
    assert isinstance(scorer, ReadsEdges)
    assert isinstance(scorer, AnswersOtherGraphs)
    assert not isinstance(scorer, HasVectors)
    assert (scorer.num_entities, scorer.num_relations, path_run.uses_messages) == (N, R, True)


def test_a_scorer_without_facts_is_that_of_the_graph_without_them(path_run):
    scorer, asked = path_run.scorer, (torch.arange(N), torch.arange(N) % (2 * R))
    rows = [3, 17, 20]
    kept = PathScorer(path_run.model, np.delete(DATA.train, rows, 0))
    assert torch.equal(scorer.without(rows).scores(*asked), kept.scores(*asked))
    assert not torch.equal(scorer.without(rows).scores(*asked), scorer.scores(*asked))
    assert scorer.without([]) is scorer
    one_by_one = scorer.without(rows[:1]).without(rows[1:])
    assert torch.equal(one_by_one.scores(*asked), kept.scores(*asked))
    assert torch.equal(
        scorer.without(range(len(DATA.train))).scores(*asked), PathScorer(path_run.model, DATA.train[:0]).scores(*asked)
    )


def test_the_held_out_splits_are_ranked_and_training_has_helped(path_run):
    for split in ("valid", "test"):
        filtered_by = KNOWN if split == "test" else {tuple(f) for s in SPLITS[:2] for f in DATA.split(s).tolist()}
        found = path_run.evaluate(split)
        expected = brute_force_ranks(lambda h, r: row_of(path_run, h, r), DATA.split(split), filtered_by, N, R)
        assert np.array_equal(np.stack([found.ranks.best, found.ranks.worst, found.ranks.candidates], 1), expected)
    assert path_run.evaluate("test").mrr > 0.5  # chance: about .2
    assert path_run.evaluate("test", messages=False).mrr < 0.5


def test_tails_heads_and_relations_are_predicted(path_run):
    row = row_of(path_run, 4, 1)
    best = sorted((t for t in range(N) if (4, 1, t) not in KNOWN), key=lambda t: -row[t])[:3]
    found = sorted(path_run.predict("e004", "plus2", k=10, typed=False), key=lambda fact: -fact.score)
    assert [fact.tail for fact in found[:3]] == [f"e{t:03}" for t in best]
    row = row_of(path_run, 4, 1 + R)
    best = sorted((h for h in range(N) if (h, 1, 4) not in KNOWN), key=lambda h: -row[h])[:3]
    found = path_run.predict(relation="plus2", tail="e004", k=10, typed=False)
    assert [fact.head for fact in sorted(found, key=lambda fact: -fact.score)[:3]] == [f"e{h:03}" for h in best]
    found = path_run.predict(head="e004", tail="e006", known=True, typed=False)
    assert {fact.relation for fact in found} == {"plus1", "plus2", "plus3"}
    assert all(0.0 <= fact.probability <= 1.0 for fact in found)
    assert [fact.probability for fact in found] == sorted((f.probability for f in found), reverse=True)


def test_the_most_probable_missing_facts_are_found(path_run):
    missing = path_run.top_missing(8, typed=False)
    assert len(missing) == 8
    assert not any(fact.known for fact in missing)
    probabilities = [fact.probability for fact in missing]
    assert probabilities == sorted(probabilities, reverse=True)
    held_out = path_run.top_missing(25, typed=False, missing_from=("train",))
    assert any(fact.known for fact in held_out)


def test_probabilities_and_answer_sets_are_fitted(path_run):
    assert path_run.folder.calibration(path_run.step, 1) is not None
    assert 0.0 <= path_run.reliability("test").ece <= 1.0
    assert path_run.answer_set_coverage("test", 0.9).tail > 0.5
    assert path_run.conformal(0.8) is not None


def test_it_has_no_vectors_to_show(path_run, tmp_path):
    with pytest.raises(TuckerkgError, match="has no vectors"):
        path_run.vectors()
    with pytest.raises(TuckerkgError, match="has no vectors"):
        path_run.export(tmp_path / "vectors.npz")


def test_a_loaded_run_has_the_same_answers(path_run):
    again = tuckerkg.load(path_run.path)
    assert again.settings.kind == "paths"
    assert row_of(again, 3, 2) == row_of(path_run, 3, 2)


# ---------------------------------------------------------------------------------------------------- added facts


def test_a_new_fact_counts_at_once(copied, monkeypatch):
    before = tuckerkg.load(copied)
    head, relation, tail = next((h, r, t) for h, r, t in DATA.test.tolist())
    monkeypatch.setattr("tuckerkg.inference.adding.add_facts.fold_in", _refuse)
    after = before.add([(f"e{head:03}", f"plus{relation + 1}", f"e{tail:03}")])
    assert (after.version, version_numbers(copied)) == (2, [1, 2])
    assert row_of(after, head, relation) != row_of(before, head, relation)
    assert row_of(after, head, relation)[tail] != row_of(before, head, relation)[tail]
    for name, tensor in after.model.state_dict().items():
        assert torch.equal(tensor, before.model.state_dict()[name]), name
    assert row_of(tuckerkg.load(f"{copied}@1"), head, relation) == row_of(before, head, relation)
    assert row_of(tuckerkg.load(copied), head, relation) == row_of(after, head, relation)


def test_a_new_entity_is_asked_about_without_training(copied, tmp_path, monkeypatch):
    monkeypatch.setattr("tuckerkg.inference.adding.add_facts.fold_in", _refuse)
    file = tmp_path / "new.tsv"
    # between 5 and 6 of the ring, by its neighbours at both sides
    file.write_text("fresh\tplus1\te006\nfresh\tplus2\te007\ne004\tplus1\tfresh\n")
    done = add_facts(tuckerkg.load(copied), file)
    assert (done.version, done.facts, done.entities) == (2, 3, 1)
    after = tuckerkg.load(copied)
    assert len(after.entities) == after.scorer.num_entities == N + 1
    facts = np.concatenate([DATA.train, [[N, 0, 6], [N, 1, 7], [4, 0, N]]])
    expected = PathScorer(after.model, facts, num_entities=N + 1).scores(torch.tensor([N, 8]), torch.tensor([2, 1]))
    assert torch.equal(after.scorer.scores(torch.tensor([N, 8]), torch.tensor([2, 1])), expected)
    best = after.predict("fresh", "plus3", k=5, typed=False)
    assert "e008" in [fact.tail for fact in best]
    assert any(fact.head == "fresh" for fact in after.predict(relation="plus3", tail="e008", k=5, typed=False))
    again = after.add([("second", "plus1", "fresh"), ("second", "plus3", "e007")])
    assert (again.version, len(again.entities)) == (3, N + 2)
    assert len(tuckerkg.load(copied, version=2).entities) == N + 1
    assert len(again.predict("second", "plus2", k=3)) == 3


def _refuse(*_args, **_options):
    raise AssertionError("nothing is trained")


def test_embeddings_are_still_folded_in():
    """What the tests above replace by a refusal is what the package calls."""
    from tuckerkg.inference.adding import add_facts as module

    assert module.fold_in is fold_in


# ---------------------------------------------------------------------------------------------------- shown


def test_a_report_and_a_comparison_are_written(path_run, toy_run, tmp_path):
    found = report_of(path_run)
    assert (found.facts["model"], found.facts["width"]) == ("messages from the question", "8")
    assert found.facts["parameters"].startswith(f"{sum(p.numel() for p in path_run.model.parameters()):,} ")
    write_report(found, tmp_path / "report.html")
    assert f"{path_run.evaluate('test').mrr:.4f}" in (tmp_path / "report.html").read_text()
    compared = compare([toy_run.path, path_run.path])
    assert json.dumps(compared.as_dict())


def test_the_service_answers_for_it(path_run):
    engine = Engine(path_run)
    try:
        assert engine.page.about.model["model"] == "messages from the question"
        assert engine.page.about.model["width"] == 8
        (answers,) = engine.answer([Asked(head="e004", relation="plus2", k=3, typed=False)])
        assert [fact["tail"] for fact in answers] == [
            f.tail for f in path_run.predict("e004", "plus2", k=3, typed=False)
        ]
    finally:
        engine.close()


def test_the_service_runs_in_a_process_of_its_own(path_run):
    from services import running

    from tuckerkg.serve.client import Client

    with running(path_run.path) as service:
        found = Client(service.address).predict("e004", "plus2", k=3)
    assert [fact["tail"] for fact in found] == [fact.tail for fact in path_run.predict("e004", "plus2", k=3)]


def test_the_command_line_trains_evaluates_and_predicts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = [f"{key}={value}" for key, value in (PATHS | {"train.epochs": 1.0, "train.threads": 1}).items()]
    options = [part for each in small for part in ("--set", each)]
    shown("train", "countries", "--out", "run", "--result", "results", *options)
    (file,) = (tmp_path / "results").rglob("*.json")
    result = json.loads(file.read_text())
    assert file.name == "paths-seed0.json"
    assert (result["encoder"], result["decoder"], result["options"]["kind"]) == ("paths", "none", "paths")
    assert result["test_without_messages"]["mrr"] <= 1.0
    found = json.loads(shown("evaluate", "run", "--json"))
    assert found["mrr"] == pytest.approx(result["test"]["mrr"], abs=1e-6)
    answers = json.loads(shown("predict", "run", "--head", "germany", "--relation", "borders", "--format", "json"))
    assert len(answers) == 10


def test_parameters_are_counted_without_a_graph(path_run):
    settings = load_settings(None, PATHS)
    counts = api.count_parameters("fb15k-237", settings)
    assert counts["efp"] == 2 * 237 * 8 * (1 + 3 + 3)
    assert counts["nfp"] == path_run.model.counts().nfp
    assert api.count_parameters("wn18rr", settings)["nfp"] == counts["nfp"]


def test_training_is_timed_before_it_begins():
    found = inspect_dataset(DATA, load_settings(None, PATHS | {"train.epochs": 10.0}))
    assert found.seconds_per_epoch > 0
    assert found.minutes == pytest.approx(found.seconds_per_epoch * 10 / 60)


def test_its_settings_are_searched(tmp_path):
    fixed = PATHS | {"train.epochs": 1.0, "train.threads": 1}
    found = tune(DATA, {"paths.hide": ["own", "pair"]}, trials=2, folder=tmp_path, overrides=fixed)
    assert {trial.settings["paths.hide"] for trial in found.trials} <= {"own", "pair"}
    assert all(trial.state == "complete" for trial in found.trials)


# ---------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"paths.width": 12}, r"paths\.width = 12"),
        ({"paths.hide": "all"}, r"paths\.hide = 'all'"),
        ({"paths.power": 1.5}, r"paths\.power = 1\.5"),
        ({"paths.layers": 0}, r"paths\.layers = 0"),
        ({"paths.widht": 8}, "Did you mean 'width'"),
        ({"train.optimizer": "lazy-adam", "batch": "subgraph"}, r"lazy-adam moves .* no entity has any; use adam"),
        ({"regularizer.l2": 0.1}, r"regularizer\.l2: belongs to models with a vector per entity"),
        ({"phase": [{"messages": 0.5}]}, "phase: belongs to models with a vector per entity"),
        ({"model.dim": 50}, "model: belongs to models with a vector per entity"),
        ({"encoder": "none"}, "encoder: belongs to models with a vector per entity"),
        ({"decoder.dropout": 0.2}, "decoder: belongs to models with a vector per entity"),
        ({"loss": "bce"}, "loss: belongs to models with a vector per entity"),
        ({"batch": "subgraph"}, "batch: belongs to models with a vector per entity"),
        ({"train.precision": "bfloat16"}, r"train\.precision: belongs to models with a vector per entity"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, said):
    with pytest.raises(SettingsError, match=said):
        load_settings(None, PATHS | changes)


def test_a_warm_start_takes_vectors_of_entities(path_run, toy_run, tmp_path):
    for name, overrides, former in (
        ("paths", PATHS, toy_run),
        ("embeddings", {"model.dim": 8, "model.relation_dim": 8}, path_run),
        ("both", PATHS, path_run),
    ):
        with pytest.raises(TuckerkgError, match="a warm start takes over vectors of entities"):
            api.train(DATA, out=tmp_path / name, overrides=overrides, start=former.path, callback=NullCallback())


def test_want_of_memory_names_what_to_change(tmp_path, monkeypatch):
    def greedy(*_):
        raise MemoryError

    monkeypatch.setattr(QuestionObjective, "__call__", greedy)
    with pytest.raises(OutOfMemory, match=r"smaller paths\.width \(now 8\) or paths\.layers \(now 3\)"):
        fit(prepare(tmp_path / "run", **PATHS))


def test_messages_of_the_full_core_are_not_explained_by_those_of_another(tmp_path):
    overrides = PATHS | {"paths.core": "tucker", "train.epochs": 1.0, "train.threads": 1}
    run = api.train(DATA, out=tmp_path / "run", overrides=overrides, callback=NullCallback())
    assert run.evaluate("test").mrr > 0.0
    with pytest.raises(TuckerkgError, match=r"paths\.core = tucker: explanations follow .* paths\.core=question or cp"):
        run.explain("e001", "plus1", "e002")


def test_a_file_of_questions_to_a_slow_run_is_told_what_is_faster(path_run, tmp_path, monkeypatch):
    (tmp_path / "ask.tsv").write_text("e001\tplus1\t?\n", encoding="utf-8")
    asked = ["predict", str(path_run.path), "--questions", str(tmp_path / "ask.tsv")]
    assert "--one-way" not in CliRunner().invoke(app, asked).stderr
    monkeypatch.setattr("tuckerkg.nn.path_scorer.FEWEST_QUESTIONS", 10)
    monkeypatch.setattr("tuckerkg.nn.path_scorer.FIT_EDGES", 1)
    assert "--one-way leaves that out" in CliRunner().invoke(app, asked).stderr
    assert "--one-way" not in CliRunner().invoke(app, [*asked, "--one-way"]).stderr

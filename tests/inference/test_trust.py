"""Probabilities where people ask: what is said and what is true, labelled facts, verdicts, base rates."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import tuckerkg
from tuckerkg.cli.app import app
from tuckerkg.errors import InputError, TuckerkgError
from tuckerkg.inference.labelled import area_under_curve
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.schemas import asked as schemas
from tuckerkg.training.callbacks import NullCallback


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The graph of countries."""
    overrides = {"encoder": "none", "model.dim": 32, "model.relation_dim": 32, "train.epochs": 30.0, "train.threads": 1}
    out = tmp_path_factory.mktemp("countries") / "run"
    return tuckerkg.train("countries", out=out, overrides=overrides, callback=NullCallback())


def names(run, triples):
    labels = run.entities.labels, run.relations.labels, run.entities.labels
    return [tuple(kind[number] for kind, number in zip(labels, fact, strict=True)) for fact in triples.tolist()]


def test_what_is_said_of_the_best_missing_facts_is_true(run):
    trust = run.trust()
    assert [each.count for each in trust.first][:3] == [20, 100, 500]
    for each in trust.first[2:]:  # 20 of the first 100 are in validation: too few to be sure
        assert each.said == pytest.approx(each.true, abs=0.1)
    assert set(trust.places) == {"questions", "top missing", "all relations of a head", "given triples"}
    assert trust.worst_ece < 0.05
    listed = run.top_missing(100, missing_from=("train",))
    assert np.mean([fact.probability for fact in listed]) == pytest.approx(trust.first[1].said, abs=0.02)
    assert np.mean([fact.known for fact in listed]) == pytest.approx(trust.first[1].true, abs=0.05)


def test_an_entity_is_asked_only_for_what_entities_of_its_kind_have(run):
    continents = [fact.tail for fact in run.predict(head="France", relation="in_continent", k=3, known=True)]
    assert continents
    asked = {fact.relation for fact in run.predict(head="Europe", k=50)}
    assert "capital" not in asked  # a continent has none
    assert "currency" not in asked
    untyped = {fact.relation for fact in run.predict(head="Europe", k=200, typed=False)}
    assert len(untyped) > len(asked)


def test_a_held_out_answer_that_the_run_holds_lowers_the_others(run):
    held = np.concatenate([run.split("valid"), run.split("test")])
    relation = run.relations.id_of("in_continent")
    facts = [fact for fact in held.tolist() if fact[1] == relation]
    assert len(facts) > 5
    blind = run.predictor_knowing(("train",))
    before = after = 0.0
    for head, _, tail in facts:
        others = torch.tensor([[head, relation, other] for other in range(len(run.entities))])
        wrong = torch.tensor(run.split("train")[run.split("train")[:, 1] == relation][:, 2]).unique()
        others = others[wrong[wrong != tail]]
        before += float(blind.weigh(others).probabilities.sum())
        after += float(run.predictor.weigh(others).probabilities.sum())
    assert after < 0.6 * before


def test_facts_are_told_from_false_ones_of_the_right_type(run, tmp_path):
    test = run.split("test")
    random = np.random.default_rng(5)
    everything = np.concatenate([run.split(name) for name in ("train", "valid", "test")])
    known = {tuple(fact) for fact in everything.tolist()}
    false = []
    for head, relation, _ in test.tolist():
        places = everything[everything[:, 1] == relation][:, 2]
        others = [tail for tail in np.unique(places).tolist() if (head, relation, tail) not in known]
        if others:
            false.append((head, relation, int(random.choice(others))))
    judged = run.score(names(run, np.concatenate([test, np.array(false)])))
    sure = [(fact.verdict == "yes", place < len(test)) for place, fact in enumerate(judged) if fact.verdict != "unsure"]
    assert np.mean([said == true for said, true in sure]) > 0.8
    assert all((fact.error_rate is None) == (fact.verdict == "unsure") for fact in judged)
    frame = judged.to_frame()
    assert frame.columns[-2:] == ["verdict", "error_rate"]
    assert "<th>true</th>" in judged._repr_html_()

    (tmp_path / "facts.tsv").write_text("France\tborders\tSpain\nFrance\tborders\tJapan\n")
    found = CliRunner().invoke(app, ["score", str(run.path), str(tmp_path / "facts.tsv"), "--format", "json"])
    rows = json.loads(found.stdout)
    assert [row["line"] for row in rows] == [1, 2]
    assert rows[0]["verdict"] == "yes"
    assert rows[1]["verdict"] == "no"
    shown = CliRunner().invoke(app, ["score", str(run.path), str(tmp_path / "facts.tsv")])
    assert "wrong in" in shown.stdout
    written = CliRunner().invoke(
        app, ["score", str(run.path), str(tmp_path / "facts.tsv"), "--plain-sigmoid", "--out", str(tmp_path / "a.tsv")]
    )
    assert written.exit_code == 0, written.output
    assert (tmp_path / "a.tsv").read_text().splitlines()[0].endswith("verdict\terror_rate")


def test_labelled_facts_change_probabilities_and_stay(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    copied = tuckerkg.load(tmp_path / "run")
    known = {tuple(fact) for name in ("train", "valid", "test") for fact in run.split(name).tolist()}
    relation = run.relations.id_of("borders")
    borders = [fact for fact in known if fact[1] == relation]
    random = np.random.default_rng(0)
    true = np.array(sorted(borders))[random.permutation(len(borders))[:40]]
    heads = np.array(sorted({fact[0] for fact in borders}))
    pairs = random.choice(heads, (400, 2)).tolist()
    false = np.unique([(h, relation, t) for h, t in pairs if (h, relation, t) not in known], axis=0)[:120]
    fitted = copied.calibrate(names(run, true), names(run, false))
    assert fitted.labelled.positives == 40
    assert fitted.labelled.negatives == 120
    assert fitted.labelled.auc > 0.9
    chances = [fact.probability for fact in fitted.score(names(run, np.concatenate([true, false])))]
    assert np.mean(chances) == pytest.approx(40 / 160, abs=0.05)
    again = tuckerkg.load(tmp_path / "run")
    assert again.score(names(run, true)) == fitted.score(names(run, true))
    assert again.at_base_rate(0.9).score(names(run, true))[0].probability > chances[0]
    back = again.calibrate()
    assert back.labelled is None
    assert back.score(names(run, true))[0].probability == pytest.approx(run.score(names(run, true))[0].probability)

    for name, facts in (("right", true), ("wrong", false)):
        (tmp_path / f"{name}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in names(run, facts)))
    files = ["--positives", str(tmp_path / "right.tsv"), "--negatives", str(tmp_path / "wrong.tsv")]
    told = CliRunner().invoke(app, ["calibrate", str(tmp_path / "run"), *files])
    assert told.exit_code == 0, told.output
    assert "40 facts that are true and 120 that are not" in told.stdout
    told = CliRunner().invoke(app, ["calibrate", str(tmp_path / "run"), *files, "--json"])
    assert json.loads(told.stdout)["labelled"]["positives"] == 40


def test_labelled_facts_that_cannot_be_used_are_refused(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    copied = tuckerkg.load(tmp_path / "run")
    facts = names(run, run.split("train")[:30])
    with pytest.raises(TuckerkgError, match="of both kinds"):
        copied.calibrate(facts)
    with pytest.raises(TuckerkgError, match="4 different facts among the negatives, at least 10"):
        copied.calibrate(facts[:15], facts[16:20])
    with pytest.raises(TuckerkgError, match="5 facts are positive and negative"):
        copied.calibrate(facts[:15], facts[10:30])
    with pytest.raises(InputError, match="no entity 'Atlantis'"):
        copied.calibrate([("Atlantis", "borders", "France")], facts)
    with pytest.raises(TuckerkgError, match="calibrate the run itself"):
        copied.uncalibrated().calibrate(facts[:15], facts[15:])
    told = CliRunner().invoke(app, ["calibrate", str(tmp_path / "run"), "--positives", "a.tsv"])
    assert "--negatives" in str(told.exception) + told.output


def test_the_commands_take_a_base_rate_and_one_direction(run):
    ask = ["predict", str(run.path), "--head", "France", "--relation", "borders", "--format", "json", "-k", "3"]
    rows = {
        name: json.loads(CliRunner().invoke(app, [*ask, *more]).stdout)
        for name, more in (("plain", []), ("rate", ["--base-rate", "0.9"]), ("one", ["--one-way"]))
    }
    assert {row["basis"] for row in rows["plain"]} == {"both"}
    assert {row["basis"] for row in rows["one"]} == {"tail"}
    assert rows["rate"][0]["probability"] > rows["plain"][0]["probability"]
    refused = CliRunner().invoke(app, [*ask, "--base-rate", "7"])
    assert "base rate is 7.0" in str(refused.exception)
    refused = CliRunner().invoke(app, ["predict", str(run.path), "--top-missing", "3", "--one-way"])
    assert "leave out --one-way" in str(refused.exception)


def test_the_service_weighs_facts_and_joins_where_it_is_asked_to(run):
    engine = Engine(run)
    (fact,) = engine.links.score([schemas.Triple(head="France", relation="borders", tail="Spain")])
    assert fact["verdict"] == "yes"
    asked = {"head": "France", "relation": "borders", "k": 3}
    both, one, left = engine.answer(
        [schemas.Asked(**asked, joined=True), schemas.Asked(**asked, joined=False), schemas.Asked(**asked)]
    )
    assert {fact["basis"] for fact in both} == {fact["basis"] for fact in left} == {"both"}
    assert {fact["basis"] for fact in one} == {"tail"}
    expected = run.predict(**asked)
    assert [fact["probability"] for fact in both] == pytest.approx([fact.probability for fact in expected], rel=1e-3)
    engine.close()


def test_the_area_under_the_curve_counts_pairs():
    scores = torch.tensor([3.0, 1.0, 2.0, 2.0])
    is_true = torch.tensor([True, False, True, False])
    pairs = [(s, f) for s in (3.0, 2.0) for f in (1.0, 2.0)]
    assert area_under_curve(scores, is_true) == pytest.approx(
        np.mean([1.0 if true > false else 0.5 if true == false else 0.0 for true, false in pairs])
    )

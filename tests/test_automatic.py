"""What is chosen without a flag: read off the graph, decided on validation, continued where it was interrupted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import tuckerkg
from tuckerkg import api
from tuckerkg.automatic import Plan, QuestionGraphOf, choose_and_train, make_plan
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.load import load
from tuckerkg.data.triple_sets import new_rows
from tuckerkg.errors import SettingsError
from tuckerkg.training.callbacks import NullCallback


def dataset(train: list, valid: list) -> Dataset:
    whole = Dataset.from_triples([*train, *valid], split=None)
    entity, relation = (
        {label: number for number, label in enumerate(kind.labels)} for kind in (whole.entities, whole.relations)
    )
    held_out = np.array([(entity[head], relation[r], entity[tail]) for head, r, tail in valid])
    return replace(whole, train=new_rows(whole.train, held_out), valid=held_out)


def names(pairs: list[tuple[int, int]], relation: str) -> list[tuple[str, str, str]]:
    return [(f"e{head}", relation, f"e{tail}") for head, tail in pairs]


def chain(length: int) -> list[tuple[str, str, str]]:
    return names([(i, i + 1) for i in range(length)], "next")


def test_layers_follow_how_far_answers_lie():
    near = dataset(chain(30), names([(i, i + 2) for i in range(20)], "next"))
    far = dataset(chain(30), names([(i, i + 5) for i in range(20)], "next"))
    assert QuestionGraphOf(near).layers()[0] == 3
    layers, why = QuestionGraphOf(far).layers()
    assert layers == 6
    assert "within 5" in why


def test_answers_out_of_reach_do_not_count():
    apart = [*chain(10), *names([(100 + i, 101 + i) for i in range(10)], "next")]
    some = [*names([(i, i + 1) for i in range(8)], "other"), ("e0", "next", "e105")]
    assert QuestionGraphOf(dataset([*apart, ("e0", "other", "e3")], some)).layers()[0] == 3


def test_what_is_hidden_makes_training_look_like_validation():
    twice = [*names([(i, i + 1) for i in range(20)], "r"), *names([(i, i + 1) for i in range(20)], "s")]
    joined = names([(i + 1, i) for i in range(10)], "r")
    apart = names([(i, i + 5) for i in range(10)], "r")
    assert QuestionGraphOf(dataset(twice, joined)).hide()[0] == "own"
    hide, why = QuestionGraphOf(dataset(twice, apart)).hide()
    assert hide == "pair"
    assert "100%" in why
    assert "0%" in why
    assert QuestionGraphOf(dataset(chain(20), apart)).hide()[0] == "own"  # there is nothing beside the fact itself


def test_minutes_bound_the_plan():
    graph = load("countries")
    short, longer = make_plan(graph, minutes=0.1), make_plan(graph, minutes=2.0)
    of_paths = [[m.train.steps for m in plan.members if m.kind == "paths"] for plan in (short, longer)]
    assert sum(of_paths[0]) < sum(of_paths[1])
    assert of_paths[1] == sorted(of_paths[1])
    assert short.seconds < longer.seconds
    assert {member.kind for member in longer.members} == {"paths", "embedding"}
    seeds = [member.train.seed for member in longer.members if member.kind == "paths"]
    assert seeds == list(range(len(seeds)))


def test_a_plan_survives_being_written():
    plan = make_plan(load("countries"), minutes=0.1, seed=3)
    assert Plan.from_dict(json.loads(json.dumps(plan.as_dict()))) == plan


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    said: list[str] = []
    out = tmp_path_factory.mktemp("auto") / "run"
    run = tuckerkg.train("countries", out=out, minutes=0.2, callback=NullCallback(), log=said.append)
    return run, said


def test_without_a_flag_a_run_like_any_other_comes_out(trained):
    run, said = trained
    assert run.settings.kind in ("paths", "blend", "embedding")
    assert run.evaluate("test").mrr > 0.1
    assert len(run.predict(head="France", relation="borders", k=3)) == 3
    assert not run.path.with_name("run.parts").exists()
    text = "\n".join(said)
    for word in ("messages go", "hidden", "questions", "about", "validation MRR", "it is kept"):
        assert word in text


def test_the_same_call_continues(tmp_path):
    graph, said = load("countries"), []
    trained: list[str] = []

    class Stopped(Exception):
        pass

    def train_one(settings, place):
        if len(trained) == 1:
            trained.append("stopped")
            raise Stopped
        begun = api.is_run(place)
        run = api.resume(api.RunFolder.open(place) if begun else api.prepare(graph, settings, place), NullCallback())
        trained.append(f"{place.name} {'continued' if begun else 'new'}")
        return run

    with pytest.raises(Stopped):
        choose_and_train(graph, tmp_path / "run", train_one, minutes=0.1)
    first = tuckerkg.load(tmp_path / "run.parts" / "paths-seed0")
    step, mrr = first.step, first.state["best_mrr"]
    choose_and_train(graph, tmp_path / "run", train_one, minutes=5.0, log=said.append)  # the plan is that of before
    assert any("continues" in line for line in said)
    assert trained[:3] == ["paths-seed0 new", "stopped", "paths-seed0 continued"]
    assert any(line.startswith("paths-seed0: validation MRR") and line.endswith(f" {mrr:.4f}") for line in said)
    assert step > 0
    assert tuckerkg.load(tmp_path / "run").evaluate("valid").mrr > 0.1


def test_minutes_and_settings_exclude_each_other(tmp_path):
    with pytest.raises(SettingsError, match="minutes bounds"):
        tuckerkg.train("countries", out=tmp_path / "run", epochs=2, minutes=1)

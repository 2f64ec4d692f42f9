"""What the service makes of a run: one number for a fact everywhere, badges, kinds, paths, decisions of others."""

from __future__ import annotations

import numpy as np
import pytest

import tuckerkg
from tuckerkg import api
from tuckerkg.errors import TuckerkgError
from tuckerkg.review.decisions import Decision, Decisions
from tuckerkg.serve.engine.engine import Engine
from tuckerkg.serve.engine.listing import LEAST_TRUSTED, Filters
from tuckerkg.serve.schemas.asked import Asked, AskedWhy, Triple
from tuckerkg.training.callbacks import NullCallback


@pytest.fixture(scope="module")
def engine(toy_run, tmp_path_factory):
    run = tuckerkg.load(toy_run.save(tmp_path_factory.mktemp("engine") / "run"))
    found = Engine(run)
    yield found
    found.close()


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Who likes and knows whom, at random: every question is open."""
    random = np.random.default_rng(3)
    pairs = {(relation, *random.integers(0, 20, 2).tolist()) for relation in ("likes", "knows") for _ in range(110)}
    facts = [(f"p{head:02}", relation, f"p{tail:02}") for relation, head, tail in sorted(pairs)]
    out = tmp_path_factory.mktemp("people") / "run"
    overrides = {"model.dim": 8, "model.relation_dim": 8, "train.threads": 1, "train.epochs": 4.0, "encoder": "none"}
    found = Engine(api.train(facts, out=out, overrides=overrides, callback=NullCallback()))
    yield found
    found.close()


def finished(search):
    search.start()
    search._thread.join(60)
    assert search.found is not None
    return search


def test_a_fact_has_one_probability_in_every_view(engine):
    (rows,) = engine.answer([Asked(head="e003", relation="plus1", k=5, known=True)])
    for row in rows:
        fact = {"head": row["head_label"], "relation": row["relation_label"], "tail": row["tail_label"]}
        views = [
            engine.links.score([Triple(**fact)])[0]["probability"],
            engine.explaining.explain(AskedWhy(**fact)).probability,
            *(
                other["probability"]
                for asked in (
                    Asked(relation=fact["relation"], tail=fact["tail"], k=100, known=True, typed=False),
                    Asked(head=fact["head"], tail=fact["tail"], k=10, known=True),
                    Asked(head=fact["head"], k=100, known=True, typed=False),
                )
                for other in engine.answer([asked])[0]
                if [other["head_label"], other["relation_label"], other["tail_label"]] == list(fact.values())
            ),
        ]
        assert len(views) == 5
        assert views == pytest.approx([row["probability"]] * 5, rel=1e-3)


def test_answers_in_slices_are_those_of_the_predictor(engine, toy_run, monkeypatch):
    questions = [Asked(head=f"e{number:03}", relation="plus2", k=7, known=True) for number in range(12)]
    questions += [Asked(tail="e004", k=9), Asked(head="e001", tail="e005", k=3, typed=False)]
    whole = engine.answer(questions)
    pauses: list[int] = []
    monkeypatch.setattr(engine.links.slices, "part", 2)
    sliced = engine.links.answer(questions, lambda: pauses.append(1))
    assert len(pauses) > 20
    for ours, theirs, asked in zip(sliced, whole, questions, strict=True):
        assert [row["tail_label"] for row in ours] == [row["tail_label"] for row in theirs]
        expected = toy_run.predict(
            asked.head, asked.relation, asked.tail, asked.k, known=asked.known, typed=asked.typed
        )
        assert [row["probability"] for row in ours] == pytest.approx([fact.probability for fact in expected], rel=1e-3)


def test_a_badge_says_that_another_value_is_known(engine):
    judged = engine.links.score([Triple(head="e003", relation="plus1", tail=tail) for tail in ("e004", "e009")])
    assert [row["single"] for row in judged] == [False, True]
    assert engine.graph.list_relations(5, 0).relations[0].kind == "1-1"


def test_paths_are_simple_and_have_labels(engine):
    found = engine.explaining.explain(AskedWhy(head="e000", relation="plus3", tail="e003", k=5))
    assert found.paths
    for path in found.paths:
        places = [path.steps[0].from_label, *(step.to_label for step in path.steps)]
        assert (places[0], places[-1]) == ("e000", "e003")
        assert len(set(places)) == len(places)
    assert found.rival is None or found.rival.tail_label != "e003"
    assert engine.explaining.reason((0, 2, 3)) is not None


def test_missing_facts_are_filtered_and_decided_ones_left_out(people):
    engine = people
    search = finished(engine.search())
    everything = engine.listing.missing(1_000, 0, Filters(at_least=0.0))
    assert everything.total_answers == len(search.found)
    over = engine.listing.missing(1_000)
    assert all(fact.probability >= over.threshold for fact in over.answers)
    first = everything.answers[0]
    labels = first.head_label, first.relation_label, first.tail_label
    # Another process decides: what is in memory here is behind the file.
    Decisions(engine.run.path).add([Decision.now(labels, "reject", "somebody")])
    left = engine.listing.missing(1_000, 0, Filters(at_least=0.0))
    assert left.total_answers == everything.total_answers - 1
    decided = engine.listing.missing(1_000, 0, Filters(at_least=0.0, decided="yes"))
    assert [(fact.tail_label, fact.decision) for fact in decided.answers] == [(first.tail_label, "reject")]
    of_entity = engine.listing.missing(1_000, 0, Filters(entity="p03", at_least=0.0, decided="any"))
    assert of_entity.answers
    assert all("p03" in (fact.head_label, fact.tail_label) for fact in of_entity.answers)
    of_relation = engine.listing.missing(20, 0, Filters(relation="likes", at_least=0.0), reasons=True)
    assert {fact.relation_label for fact in of_relation.answers} == {"likes"}
    assert any("of such paths end at a true one" in (fact.reason or "") for fact in of_relation.answers)
    page = engine.listing.missing(2, 1, Filters(at_least=0.0, decided="any"))
    assert (page.next, page.answers) == (
        3,
        engine.listing.missing(3, 0, Filters(at_least=0.0, decided="any")).answers[1:],
    )


def test_the_proof_names_hidden_facts_and_what_was_said_of_them(people):
    engine = people
    finished(engine.hidden_search)
    proof = engine.listing.proof(1_000)
    hidden = {tuple(row) for row in engine.run.split("test").tolist()}
    assert (proof.state, proof.hidden) == ("ready", len(hidden))
    for fact in proof.answers:
        assert fact.true == (engine.listing.ids(fact) in hidden)
    assert sum(fact.true for fact in proof.answers) > 0
    first = proof.said[0]
    chances = [fact.probability for fact in proof.answers[: first.first]]
    assert first.mean_probability == pytest.approx(sum(chances) / len(chances))
    assert first.true_share == pytest.approx(sum(fact.true for fact in proof.answers[: first.first]) / len(chances))
    assert sum(each.count for each in engine.listing.trust()) == proof.total_answers
    likes = [fact for fact in proof.answers if fact.relation == "likes"]
    found = engine.listing.trust("likes")
    assert sum(each.count for each in found) == len(likes) >= LEAST_TRUSTED
    assert sum(each.count * each.true for each in found) == pytest.approx(sum(fact.true for fact in likes))


def test_whole_questions_are_completed(engine):
    found = engine.around.complete("e003 pl", 10)
    assert {(each.entity.label, each.relation.label) for each in found.questions} == {
        ("e003", f"plus{number}") for number in (1, 2, 3)
    }
    assert {each.place for each in found.questions} == {"head"}
    turned = engine.around.complete("? plus1 e003", 10).questions
    assert [(each.place, each.entity.label, each.relation.label) for each in turned] == [("tail", "e003", "plus1")]
    nearest = engine.around.nearest("e003", 3)
    assert nearest.by == "embedding"
    assert len({each.label for each in nearest.entities} | {"e003"}) == len(nearest.entities) + 1


def test_without_vectors_what_is_near_shares_neighbours(path_run):
    engine = Engine(path_run)
    found = engine.around.nearest("e003", 5)
    engine.close()
    assert found.by == "neighbours"
    similarities = [each.similarity for each in found.entities]
    assert similarities == sorted(similarities, reverse=True)
    assert all(0.0 < each <= 1.0 for each in similarities)


def test_a_map_has_the_entities_with_most_facts_and_the_one_that_is_named(engine, people, path_run):
    found = people.around.plane(5)
    most = np.sort(people.graph.degrees)[::-1][:5].tolist()
    assert [each.facts for each in found.entities] == most
    assert found.total == len(people.run.entities)
    rare = people.graph.entities.titles[int(people.graph.degrees.argmin())]
    assert rare not in [each.title for each in found.entities]
    assert [each.title for each in people.around.plane(5, rare).entities][-1] == rare
    assert len(engine.around.plane(1_000).entities) == len(engine.run.entities)
    other = Engine(path_run)
    with pytest.raises(TuckerkgError, match="no vectors"):
        other.around.plane(5)
    other.close()


@pytest.mark.parametrize("limit", [6, 12])
def test_an_entity_with_many_facts_leaves_room_for_those_further_out(people, limit):
    number = int(people.graph.degrees.argmax())
    assert people.graph.degrees[number] > limit
    found = people.around.neighbourhood(people.graph.entities.titles[number], 2, limit)
    assert {each.distance for each in found.entities} == {0, 1, 2}
    own = people.graph.entities.titles[number]
    assert sum(own in (fact.head, fact.tail) for fact in found.facts) == limit // 2 < len(found.facts) <= limit

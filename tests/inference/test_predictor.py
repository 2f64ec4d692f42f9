"""Questions and answers in names: completeness, order, known facts, prefixes, and wrong names."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from typer.testing import CliRunner

from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.data.labels import Labels
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.errors import InputError, TuckerkgError, UnknownNameError
from tuckerkg.graph import type_constraints
from tuckerkg.graph.type_constraints import open_questions, plausible_questions
from tuckerkg.inference.answers.predictions import Prediction, few_of_each_relation
from tuckerkg.inference.predictor import Predictor, Question
from tuckerkg.inference.query_files import score_file
from tuckerkg.inference.run import load
from tuckerkg.training.callbacks import NullCallback


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("predict") / "run"
    overrides = {
        "model.dim": 16, "model.relation_dim": 16, "train.epochs": 60.0, "train.lr": 0.02, "train.threads": 1,
        "batch.queries": 32, "batch.remove_own_edges": True, "decoder.dropout": 0.1,
    }  # fmt: skip
    return api.train(toy_dataset(), out=out, overrides=overrides, callback=NullCallback())


def triples_of(data, *splits):
    return {tuple(triple) for split in splits for triple in data.split(split).tolist()}


def test_tails_come_in_order_and_without_known_ones(run):
    data = toy_dataset()
    known = triples_of(data, "train", "valid", "test")
    answers = run.predict(head="e003", relation="plus2", k=100, typed=False)
    assert [a.probability for a in answers] == sorted((a.probability for a in answers), reverse=True)
    head, relation = 3, 1
    expected = {t for t in range(20) if (head, relation, t) not in known}
    assert {int(a.tail[1:]) for a in answers} == expected
    row = run.scorer.scores(torch.tensor([head]), torch.tensor([relation]))[0]
    for answer in answers:
        assert answer.score == pytest.approx(row[int(answer.tail[1:])].item(), abs=1e-5)


def test_known_facts_are_marked_when_wanted(run):
    answers = run.predict(head="e003", relation="plus2", k=100, known=True, typed=False)
    assert len(answers) == 20
    assert {a.tail for a in answers if a.known} == {"e005"}


def test_only_entities_seen_in_that_place_are_named_unless_any_may_be(run):
    splits = [run.split(name) for name in ("train", "valid", "test")]
    triples = np.concatenate(splits)
    triples = triples[~((triples[:, 1] == 0) & (np.isin(triples[:, 2], [4, 5])))]  # nobody has plus1 to e004 and e005
    triples = triples[~((triples[:, 1] == 1) & (triples[:, 0] == 6))]  # e006 has plus2 to nobody
    triples = np.concatenate([triples, [[9, 2, 9]]])  # plus3 may lead to oneself
    asked = Predictor(run.scorer, run.entities, run.relations, [triples])
    tails = {fact.tail for fact in asked.predict("e000", "plus1", k=20, known=True)}
    assert tails == {f"e{i:03}" for i in range(20)} - {"e004", "e005", "e000"}
    heads = {fact.head for fact in asked.predict(relation="plus2", tail="e003", k=20, known=True)}
    assert heads == {f"e{i:03}" for i in range(20)} - {"e006", "e003"}
    assert "e000" in {fact.tail for fact in asked.predict("e000", "plus3", k=20, known=True)}
    assert len(asked.predict("e000", "plus1", k=20, known=True, typed=False)) == 20


def test_heads_are_asked_through_the_inverse_and_come_back_as_heads(run):
    answers = run.predict(relation="plus1", tail="e007", k=4, known=True)
    assert {a.tail for a in answers} == {"e007"}
    row = run.scorer.scores(torch.tensor([7]), torch.tensor([0 + 3]))[0]
    assert answers[0].head == f"e{int(row.argmax()):03}"


def test_relations_between_two_entities_are_ranked(run):
    answers = run.predict(head="e001", tail="e002", k=9, known=True)
    assert {a.relation for a in answers} == {"plus1", "plus2", "plus3"}
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    assert [a.relation for a in answers if a.known] == ["plus1"]
    single = run.score([("e001", "plus2", "e002")])[0]
    assert single.score == pytest.approx(next(a.score for a in answers if a.relation == "plus2"), abs=1e-5)


@pytest.mark.parametrize("question", [{"head": "e001", "relation": "plus1"}, {"head": "e001"}, {"tail": "e004"}])
def test_top_k_is_a_prefix_of_top_n(run, question):
    longest = run.predict(**question, k=10)
    for k in range(1, 11):
        found = run.predict(**question, k=k)
        assert [fact.sentence() for fact in found] == [fact.sentence() for fact in longest[:k]]
    plain = run.uncalibrated()
    for k in range(1, 21):  # by score, no candidate is chosen before the order is known
        assert plain.predict(**question, k=k) == plain.predict(**question, k=50)[:k]


def test_one_entity_alone_asks_over_all_relations(run):
    answers = run.predict(head="e001", k=60, known=True, typed=False)
    assert len({(a.relation, a.tail) for a in answers}) == 60
    assert all(a.head == "e001" for a in answers)


def test_top_missing_equals_brute_force_over_the_whole_graph(run):
    data = toy_dataset()
    known = triples_of(data, "train", "valid", "test")
    everything = [
        (score, h, r, t)
        for h in range(20)
        for r in range(3)
        for t, score in enumerate(run.scorer.scores(torch.tensor([h]), torch.tensor([r]))[0].tolist())
        if (h, r, t) not in known
    ]
    best = sorted(everything, key=lambda item: -item[0])[:15]
    plain = load(run.path, calibrated=False)  # by score, then
    found = plain.top_missing(15, typed=False)
    assert [f.score for f in found] == pytest.approx([item[0] for item in best], abs=1e-5)
    assert plain.top_missing(5, typed=False) == found[:5]


def test_the_cost_of_top_missing_is_said_before_it_starts(run):
    questions = run.predictor.missing_questions(typed=False)
    assert len(questions) == 60
    assert run.predictor.seconds_for(questions) > 0
    assert run.predictor.seconds_for(questions[:0]) == 0
    shown = CliRunner().invoke(app, ["predict", str(run.path), "--top-missing", "3", "--untyped"])
    assert "60 questions, each over 20 entities: about" in shown.stderr


def test_top_missing_typed_names_no_self_loop_and_nothing_already_answered(run):
    held_out = run.top_missing(200, missing_from=("train",))
    assert held_out
    assert all(fact.head != fact.tail for fact in held_out)
    data = toy_dataset()
    answered = {(h, r) for h, r, _ in triples_of(data, "train")}
    names = data.relations.labels
    assert not {(int(f.head[1:]), names.index(f.relation)) for f in held_out} & answered
    true = triples_of(data, "valid", "test")
    for fact in held_out:
        triple = int(fact.head[1:]), names.index(fact.relation), int(fact.tail[1:])
        assert fact.known == (triple in true)


def test_a_question_must_leave_something_open(run):
    for question in ({}, {"relation": "plus1"}, {"head": "e001", "relation": "plus1", "tail": "e002"}):
        with pytest.raises(TuckerkgError, match="leaves something open"):
            run.predict(**question)
    with pytest.raises(TuckerkgError, match="k is 0"):
        run.predict(head="e001", k=0)


def test_unknown_names_get_the_nearest_ones(run):
    with pytest.raises(UnknownNameError, match=r"no entity 'e0033' among 20\. Nearest: 'e003'"):
        run.predict(head="e0033", relation="plus1")
    with pytest.raises(UnknownNameError, match="no relation 'plus'"):
        run.predict(head="e003", relation="plus")


def test_a_file_is_scored_row_by_row_and_unknown_names_are_listed_with_lines(run, tmp_path):
    file = tmp_path / "ask.tsv"
    file.write_text("e001\tplus1\te002\ne005\tplus3\te004\n")
    scored = score_file(run, file, ReadOptions()).frame
    assert scored.select("line", "head", "relation", "tail").rows() == [
        (1, "e001", "plus1", "e002"),
        (2, "e005", "plus3", "e004"),
    ]
    assert scored["probability"].is_between(0, 1).all()
    file.write_text("e001\tplus1\te002\ne999\tplus3\tnobody\n")
    with pytest.raises(InputError) as caught:
        score_file(run, file, ReadOptions())
    assert [(p.line, p.column) for p in caught.value.problems] == [(2, 1), (2, 3)]


def test_plain_sigmoid_is_the_papers_probability(run):
    plain = load(run.path, calibrated=False)
    fact = plain.predict(head="e001", relation="plus1", k=1)[0]
    assert fact.probability == pytest.approx(1 / (1 + torch.tensor(-fact.score).double().exp().item()))


def test_plausible_questions_come_from_shared_slots():
    # relation 0: person -> born_in -> city; 1: person -> works_at -> firm; 2: city -> in -> country
    triples = torch.tensor(
        [[0, 0, 5], [1, 0, 5], [2, 0, 6], [0, 1, 8], [1, 1, 8], [2, 1, 8], [3, 1, 8], [5, 2, 9], [6, 2, 9]]
    ).numpy()
    allowed = plausible_questions(triples, 10, 3)
    assert allowed[3, 0]  # works somewhere, as all who were born somewhere do
    assert not allowed[5, 0]
    assert not allowed[8, 0]
    questions = {tuple(q) for q in open_questions(triples, 10, 3).tolist()}
    assert (3, 0) in questions
    assert (0, 0) not in questions  # nobody is born twice


@pytest.mark.parametrize("most_marks", [type_constraints.MOST_MARKS, 0])
def test_only_seen_places_are_left_whether_marks_are_kept_or_not(monkeypatch, most_marks):
    monkeypatch.setattr(type_constraints, "MOST_MARKS", most_marks)
    triples = np.array([[0, 0, 3], [1, 0, 4], [2, 1, 2], [4, 1, 0]])  # relation 1 is reflexive
    asked = torch.tensor([[0, 0], [4, 0], [2, 1], [0, 1], [3, 2]])  # 2: heads of relation 0
    scores = torch.zeros(5, 5)
    types = type_constraints.TypeConstraints(triples, 5, 2)
    types.leave_only(scores, asked[:, 0], asked[:, 1])
    left = [row.isfinite().nonzero()[:, 0].tolist() for row in scores]
    assert left == [[3, 4], [3], [0, 2], [0, 2], [0, 1]]
    assert left == [[tail for tail in range(5) if types.allow(*question, tail)] for question in asked.tolist()]


def test_names_resolve_labels_titles_and_case():
    names = Labels("entity", ["/m/1", "/m/2", "/m/3", "Berlin"], {"/m/1": "Paris", "/m/2": "Rome", "/m/3": "Rome"})
    assert names.id_of("/m/2") == 1
    assert names.id_of("Paris") == names.id_of("pARIS") == 0
    assert names.id_of("berlin") == 3
    with pytest.raises(UnknownNameError, match=r"'Rome' names 2: use one of the labels '/m/2', '/m/3'"):
        names.id_of("Rome")
    assert (names.shown(0), names.shown(3)) == ("Paris", "Berlin")


def test_few_of_each_relation_keeps_the_order_and_shares_evenly():
    def fact(relation, score):
        return Prediction("h", relation, "t", score, 0.5, "both", False, "h", relation, "t")

    facts = [fact("a", 9), fact("a", 8), fact("a", 7), fact("b", 6), fact("c", 5), fact("c", 4)]
    chosen = few_of_each_relation(facts, 4)
    assert [(f.relation, f.score) for f in chosen] == [("a", 9), ("a", 8), ("b", 6), ("c", 5)]
    assert few_of_each_relation(facts, 99) == facts


def test_questions_of_all_kinds_in_one_product_get_what_each_gets_alone(run):
    asked = [
        (Question(3, 1, 5, False, False), {"head": "e003", "relation": "plus2", "k": 5, "typed": False}),
        (Question(7, 3, 4, True, True), {"relation": "plus1", "tail": "e007", "k": 4, "known": True}),
        (Question(0, 2, 100), {"head": "e000", "relation": "plus3", "k": 100}),
    ]
    found = run.predictor.answer_many([question for question, _ in asked])
    for answers, (_, alone) in zip(found, asked, strict=True):
        expected = run.predict(**alone)
        assert [fact.sentence() for fact in answers] == [fact.sentence() for fact in expected]
        assert [fact.probability for fact in answers] == pytest.approx(
            [fact.probability for fact in expected], rel=1e-4
        )
    assert run.predictor.answer_many([]) == []


def test_many_questions_at_once_get_the_answers_of_each(run):
    heads, relation_ids = torch.tensor([3, 7, 0]), torch.tensor([1, 3, 2])
    scores, tails = run.predictor.best_tails(heads, relation_ids, k=5)
    for row, found in enumerate(
        (
            run.predict("e003", "plus2", k=10, typed=False),
            run.predict(relation="plus1", tail="e007", k=10, typed=False),
            run.predict("e000", "plus3", k=10, typed=False),
        )
    ):
        answers = sorted(found, key=lambda fact: -fact.score)[:5]
        names = [a.head if row == 1 else a.tail for a in answers]
        assert [f"e{tail:03}" for tail in tails[row].tolist()] == names
        assert scores[row].tolist() == pytest.approx([a.score for a in answers], abs=1e-5)
    with_known = run.predictor.best_tails(heads, relation_ids, k=20, known=True)[1]
    assert torch.equal(with_known.sort(1).values, torch.arange(20).expand(3, 20))


def test_paths_of_freebase_are_shown_in_a_few_words():
    labels = [
        "/people/person/place_of_birth",
        "/award/winner/awards_won./award/honor/award",
        "/film/film/country",
        "/tv/program/country",
        "/film/actor/film./film/performance/film",
        "born in",
        "/m/01",
    ]
    titles = {labels[0]: "people person place of birth", labels[4]: "acted in"}
    names = Labels("relation", labels, titles)
    assert [names.shown(number) for number in range(7)] == [
        "place of birth", "awards won › award", "film country", "program country", "acted in", "born in", "/m/01",
    ]  # fmt: skip
    for name in ("place of birth", "Place of Birth", labels[0], titles[labels[0]]):
        assert names.id_of(name) == 0
    assert Labels("entity", labels, {}).shown(0) == labels[0]


def test_triples_that_are_none_are_refused_in_words(run):
    assert run.score([]) == []
    assert run.predictor.answer_many([]) == []
    for wrong in ([("e001", "plus1")], ["e001"]):
        with pytest.raises(TuckerkgError, match="expected three names: head, relation, tail"):
            run.score(wrong)
    with pytest.raises(UnknownNameError, match="3 is not a name"):
        run.predict(head=3)

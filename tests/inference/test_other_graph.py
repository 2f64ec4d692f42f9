"""A run answers for a graph that it was not trained on: other entities, the same relations."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from graphs import brute_force_ranks, data_folder
from other_graphs import DATA, KNOWN, OTHER, SPLITS, M, N, R, named, scorer_of, write
from path_counts import PathCounts

from tuckerkg import api
from tuckerkg.data.dataset import Dataset
from tuckerkg.data.labels import Vocabulary
from tuckerkg.errors import InputError, RunFolderError, TuckerkgError, UnknownNameError
from tuckerkg.evaluation.metrics import sampled_hits
from tuckerkg.evaluation.ranking import rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.inference.run import Run
from tuckerkg.nn.contracts import AnswersOtherGraphs, Scorer
from tuckerkg.training.callbacks import NullCallback


@pytest.fixture(params=["path counts", "messages"])
def run(request):
    """The same through another scorer: counted paths, or messages from the question."""
    if request.param == "messages":
        return Run(request.getfixturevalue("path_run").folder)
    return Run(request.getfixturevalue("toy_run").folder, scorer=scorer_of(request.param))


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def row_of(run: Run, head: int, relation: int) -> list[float]:
    return run.scorer.scores(torch.tensor([head]), torch.tensor([relation]))[0].tolist()


# ---------------------------------------------------------------------------------------------------- what it answers


def test_its_own_graph_under_other_names_gets_the_same_answers(run):
    order = np.random.default_rng(1).permutation(N)  # old id -> new id
    labels = Vocabulary(tuple(f"x{number:03}" for number in range(N)))

    def renamed(triples):
        return np.stack([order[triples[:, 0]], triples[:, 1], order[triples[:, 2]]], 1)

    splits = {name: renamed(DATA.split(name)) for name in SPLITS}
    other = run.on(replace(DATA, name="renamed", entities=labels, **splits))
    own, found = run.evaluate("test"), other.evaluate("test")
    assert np.array_equal(found.ranks.best, own.ranks.best)
    assert np.array_equal(found.ranks.worst, own.ranks.worst)
    assert found.overall == own.overall
    assert found.graph == "renamed"
    (weighed,) = other.score([(f"x{order[3]:03}", "plus2", f"x{order[5]:03}")])
    (before,) = run.score([("e003", "plus2", "e005")])
    assert weighed.score == pytest.approx(before.score, abs=1e-6)
    assert weighed.probability == pytest.approx(before.probability, abs=1e-6)
    assert weighed.known


def test_a_larger_graph_is_ranked_over_all_of_its_entities(run):
    other = run.on(OTHER)
    assert (len(other.entities), len(other.relations), other.scorer.num_entities) == (M, R, M)
    for split in ("test", "valid", "train"):
        found = other.evaluate(split)
        expected = brute_force_ranks(lambda h, r: row_of(other, h, r), OTHER.split(split), KNOWN, M, R)
        assert np.array_equal(np.stack([found.ranks.best, found.ranks.worst, found.ranks.candidates], 1), expected)
        assert found.protocol["filtered_by"] == list(SPLITS)
        assert found.protocol["candidates"] == M
    assert other.evaluate("test").mrr > 0.4  # chance: about .15
    assert run.evaluate("test").graph is None


def test_valid_and_test_are_also_ranked_together(run):
    other = run.on(OTHER)
    both = other.evaluate("valid+test")
    assert both.split == both.protocol["split"] == "valid+test"
    valid, test = other.evaluate("valid").ranks, other.evaluate("test").ranks
    n = len(OTHER.valid)
    assert both.overall.queries == 2 * (n + len(OTHER.test))
    assert np.array_equal(both.ranks.best[:n], valid.best[:n])
    assert np.array_equal(both.ranks.best[n : n + len(OTHER.test)], test.best[: len(OTHER.test)])
    with pytest.raises(UnknownNameError, match="chosen on validation"):
        run.evaluate("valid+test")
    with pytest.raises(UnknownNameError, match=r"no split 'tset', only train, valid, test, valid\+test.* 'test'"):
        other.evaluate("tset")


def test_hits_among_fifty_are_given_for_other_graphs_alone(run):
    found = run.on(OTHER).evaluate("test")
    assert found.hits_10_of_50 is not None
    assert 0.0 < found.hits_10_of_50 <= 1.0
    assert found.as_dict()["hits@10_of_50"] == found.hits_10_of_50
    assert found.as_dict()["graph"] == "larger ring"
    assert "larger ring: test" in found._repr_html_()
    own = run.evaluate("test")
    assert own.hits_10_of_50 is None
    assert not {"graph", "hits@10_of_50"} & set(own.as_dict())


def test_questions_are_asked_and_answered_in_its_names(run):
    other = run.on(OTHER)
    row = row_of(other, 4, 1)
    best = sorted((row[t] for t in range(M) if (4, 1, t) not in KNOWN), reverse=True)[:10]
    found = other.predict("f004", "plus2", k=10, typed=False)
    assert sorted((fact.score for fact in found), reverse=True) == pytest.approx(best, abs=1e-5)
    assert all(fact.score == pytest.approx(row[int(fact.tail_label[1:])], abs=1e-5) for fact in found)
    assert other.predict(relation="plus1", tail="Five", k=3, known=True, typed=False)[0].tail == "Five"
    missing = other.top_missing(6, typed=False)
    assert len(missing) == 6
    assert all(fact.head_label.startswith("f") and not fact.known for fact in missing)
    with pytest.raises(UnknownNameError, match="no entity 'e004' among 27"):
        other.predict("e004", "plus2")


def test_an_answer_is_explained_by_its_facts(run):
    other = run.on(OTHER)
    head, relation, tail = named(OTHER, OTHER.test)[0]
    found = other.explain(head, relation, tail, k=3)
    assert found.candidates == M
    assert found.uses_messages
    facts = {(*fact,) for fact in named(OTHER, OTHER.train)}
    titles = {"Five": "f005"}
    assert len(found.edges) == 3
    for edge in found.edges:
        assert (titles.get(edge.head, edge.head), edge.relation, titles.get(edge.tail, edge.tail)) in facts
    assert found.paths


def test_what_messages_bring_is_measured_there(run):
    assert run.on(OTHER).evaluate("test", messages=False).mrr < run.on(OTHER).evaluate("test").mrr


# ---------------------------------------------------------------------------------------------------- what it is given


def test_relations_are_matched_by_their_labels(run):
    facts = [fact for fact in named(OTHER, OTHER.train) if fact[1] != "plus1"]
    other = run.on(Dataset.from_triples(facts, split=None))
    assert set(other.split("train")[:, 1].tolist()) == {1, 2}
    assert other.relations.labels == run.relations.labels
    expected = run.scorer.on(other.split("train"), len(other.entities))
    (fact,) = other.score([facts[0]])
    ids = [other.entities.id_of(facts[0][place]) for place in (0, 2)]
    row = expected.scores(torch.tensor([ids[0]]), torch.tensor([run.relations.id_of(facts[0][1])]))
    assert fact.score == pytest.approx(float(row[0, ids[1]]))


def test_relations_that_were_not_trained_are_refused_by_name(run):
    facts = [*named(OTHER, OTHER.train), ("f001", "plus22", "f002"), ("f001", "owns", "f002")]
    with pytest.raises(InputError) as caught:
        run.on(facts)
    said = str(caught.value)
    assert "the relation 'plus22' was not trained. Did you mean 'plus2'" in said
    assert "the relation 'owns' was not trained.\n" in said
    assert "'plus1' was not" not in said
    assert "train with them" in said


def test_titles_of_relations_are_the_graphs_own_where_it_has_some(run):
    other = run.on(replace(OTHER, relation_titles={"plus1": "comes before"}))
    assert other.predict("f004", "comes before", k=1, typed=False)[0].relation == "comes before"
    assert run.relations.titles.get("plus1") is None


def test_a_held_out_relation_need_not_be_among_its_facts(run, tmp_path):
    """A dataset to train on is refused for that; here the relation was trained elsewhere."""
    facts = named(OTHER, OTHER.train)
    folder = write(
        tmp_path / "graph",
        train=[fact for fact in facts if fact[1] != "plus3"],
        test=[fact for fact in facts if fact[1] == "plus3"][:5],
    )
    assert run.on(folder).evaluate("test").overall.queries == 10
    with pytest.raises(InputError, match="plus3 does not occur in training"):
        api.train(folder, callback=NullCallback())


def test_one_file_is_all_facts_and_holds_nothing_out(run, tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("".join("\t".join(fact) + "\n" for fact in named(OTHER, OTHER.train)))
    other = run.on(path)
    assert [len(other.split(name)) for name in SPLITS] == [len(OTHER.train), 0, 0]
    assert other.graph_name == "mine"
    assert len(other.predict("f004", "plus2", k=3, typed=False)) == 3
    for refused in (
        other.evaluate,
        other.reliability,
        other.conformal,
        other.answer_set_coverage,
        lambda: other.evaluate("valid+test"),
    ):
        with pytest.raises(RunFolderError, match=r"mine: nothing is held out of this graph as (test|valid)"):
            refused()


def test_it_may_be_anything_that_stands_for_a_dataset(run, tmp_path):
    facts = named(OTHER, OTHER.train)
    expected = run.on(facts).predict("f004", "plus2", k=3, typed=False)
    columns = dict(zip(("head", "relation", "tail"), map(list, zip(*facts, strict=True)), strict=True))
    folder = write(tmp_path / "graph", train=facts)
    for graph in (pl.DataFrame(columns), np.array(facts), folder, str(folder), Dataset.from_triples(facts, split=None)):
        other = run.on(graph)
        assert len(other.split("train")) == len(facts)
        assert other.predict("f004", "plus2", k=3, typed=False) == expected
    with pytest.raises(UnknownNameError, match=r"unknown dataset 'fb237_v11'.*Did you mean 'fb237_v1'"):
        run.on("fb237_v11")
    with pytest.raises(InputError, match="'borders' was not trained"):
        run.on("countries")


def test_a_graph_without_facts_is_refused(run):
    with pytest.raises(TuckerkgError, match="larger ring: there are no facts to answer from"):
        run.on(replace(OTHER, train=OTHER.train[:0]))


# ---------------------------------------------------------------------------------------------------- what it is


def test_probabilities_are_those_of_training_and_nothing_is_written(run):
    before = files_of(run.path)
    other = run.on(OTHER)
    assert other.calibration is run.calibration
    assert 0.0 <= other.reliability().ece <= 1.0
    assert 0.0 <= other.answer_set_coverage("test", 0.5).tail <= 1.0
    other.evaluate("test")
    plain = other.uncalibrated()
    assert plain.graph_name == "larger ring"
    (fact,) = plain.score([("f001", "plus1", "f002")])
    assert fact.probability == pytest.approx(1 / (1 + np.exp(-fact.score)), rel=1e-5)
    assert files_of(run.path) == before


def test_the_run_itself_stays_as_it_was(run):
    before = run.evaluate("test")
    expected = run.predict("e003", "plus2", k=3, typed=False)
    run.on(OTHER).predict("f004", "plus2", k=3)
    assert run.graph is None
    assert len(run.entities) == N
    assert run.predict("e003", "plus2", k=3, typed=False) == expected
    assert run.evaluate("test").overall == before.overall


def test_a_second_graph_follows_the_first(run):
    again = run.on(OTHER).on(DATA)
    assert again.graph_name == "ring"
    assert np.array_equal(again.evaluate("test").ranks.best, run.evaluate("test").ranks.best)
    assert again.calibration is run.calibration
    assert not run.on(OTHER).uncalibrated().on(DATA).calibrated
    assert not run.uncalibrated().on(OTHER).calibrated


def test_what_makes_no_sense_there_is_refused_in_words(run, tmp_path):
    other = run.on(OTHER)
    with pytest.raises(TuckerkgError, match=r"larger ring: facts are added to the graph .* call on\(graph\) again"):
        other.add([("f001", "plus1", "f009")])
    with pytest.raises(TuckerkgError, match="larger ring: a run folder holds the graph that was trained on"):
        other.save(tmp_path / "copy")
    with pytest.raises(TuckerkgError, match="has no vectors"):
        other.export(tmp_path / "vectors.npz")
    assert list(tmp_path.iterdir()) == []


def test_an_embedding_model_is_refused(toy_run):
    assert not isinstance(toy_run.scorer, AnswersOtherGraphs)
    with pytest.raises(TuckerkgError, match=r"learnt a vector for each entity .* kind=paths"):
        toy_run.on(OTHER)


def test_a_temporary_run_folder_lives_as_long_as_what_answers_from_it():
    overrides = {"model.dim": 4, "model.relation_dim": 4, "train.threads": 1, "encoder": "none"}
    trained = api.train(DATA, epochs=1.0, overrides=overrides, callback=NullCallback())
    trained.scorer, path = PathCounts.fitted(DATA.train, N, R), trained.path
    others = [trained.on(OTHER), trained.uncalibrated()]
    del trained
    gc.collect()
    assert path.is_dir()
    assert others[0].calibration is not None
    others.clear()
    gc.collect()
    assert not path.exists()


class Distances(Scorer):
    """Near entities first, whatever the relation."""

    def __init__(self, train: np.ndarray, num_entities: int, num_relations: int) -> None:
        self.num_entities, self.num_relations = num_entities, num_relations
        joined = torch.zeros(num_entities, num_entities)
        joined[train[:, 0], train[:, 2]] = joined[train[:, 2], train[:, 0]] = 1.0
        self.near = joined + joined @ joined

    def scores(self, heads: torch.Tensor, relation_ids: torch.Tensor) -> torch.Tensor:
        return self.near[heads]

    answers_other_graphs = True

    def on(self, train: np.ndarray, num_entities: int) -> Distances:
        return Distances(train, num_entities, self.num_relations)


def test_an_inductive_benchmark_is_evaluated_by_name():
    data_folder()
    overrides = {"model.dim": 4, "model.relation_dim": 4, "train.threads": 1, "encoder": "none"}
    trained = api.train("WN18RR_v1", epochs=0.05, overrides=overrides, callback=NullCallback())
    trained.scorer = Distances(trained.split("train"), len(trained.entities), len(trained.relations))
    other = trained.on("WN18RR_v1_ind")
    assert other.graph_name == "wn18rr_v1_ind"
    assert (len(trained.relations), len(other.relations)) == (9, 9)  # the graph itself has 8
    test, both = other.evaluate("test"), other.evaluate("valid+test")
    assert (test.overall.queries, both.overall.queries) == (2 * 188, 2 * (185 + 188))
    assert test.protocol["candidates"] == 922
    assert test.overall.hits[10] < test.hits_10_of_50 < 1.0
    by_facts = rank(other.scorer, other.split("test"), KnownTails.from_splits([other.split("train")], 9))
    earlier = sampled_hits(by_facts.worst, by_facts.candidates)  # with the filter of earlier tables
    assert earlier < test.hits_10_of_50 < earlier + 0.001


def test_a_report_is_about_the_graph(run):
    from tuckerkg.reports.run_report import report_of

    found = report_of(run.on(OTHER))
    assert (found.facts["dataset"], found.facts["trained on"]) == ("larger ring", DATA.name)
    assert found.test.graph == "larger ring"
    assert found.plain != found.calibrated

"""Facts that lie with their owners: batches of them are those of the whole graph, on any number of ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rank_programs import on_ranks
from shard_folders import (
    ENTITIES,
    RELATIONS,
    SAMPLED,
    SHARDS,
    SUBGRAPH,
    batches_of,
    batches_on,
    files_that_are_read,
    shard_folder,
)

from tuckerkg.data.ingest.hashing import key_of, permuted
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.ranks.facts.drawing import share
from tuckerkg.ranks.facts.sorted_facts import FactShard
from tuckerkg.ranks.facts.validation import known_among_own
from tuckerkg.ranks.group import Group

CASES = [{}, SAMPLED, SUBGRAPH, {**SUBGRAPH, "loss": "bce-all"}]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return shard_folder(tmp_path_factory.mktemp("shards") / "graph")


def known_tails(graph) -> KnownTails:
    return KnownTails.from_splits([graph.split("train")], RELATIONS)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 1000])
def test_a_random_order_is_one_and_another_key_another(size):
    orders = [permuted(np.arange(size), size, key_of(seed, 1)).tolist() for seed in range(20)]
    assert all(sorted(order) == list(range(size)) for order in orders)
    if size > 5:
        assert len({tuple(order) for order in orders}) == 20


@pytest.mark.parametrize("size", [2, 3, 5, 20])
def test_every_place_of_a_random_order_is_as_likely_as_any(size):
    keys = np.array([key_of(7, number) for number in range(4000)], np.uint64)
    counts = np.bincount(permuted(np.zeros(4000, np.int64), np.full(4000, size), keys), minlength=size)
    expected = 4000 / size
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_questions_and_their_answers_are_found(graph):
    known = known_tails(graph)
    seen = []
    for number in range(SHARDS):
        shard = FactShard.of(number, graph.triples(number), graph.in_edges(number), RELATIONS)
        for side in shard.sides:
            entities, relations, ends, begins = side.queries(np.arange(len(side)))
            assert len(entities) == side.num_queries
            again = side.find(entities, relations)
            np.testing.assert_array_equal(again, [begins, ends])
            missing = side.find(entities, np.full_like(entities, 99))
            np.testing.assert_array_equal(missing[0], missing[1])
            for entity, relation, begin, end in zip(entities, relations, begins, ends, strict=True):
                _, tails = known.find(torch.tensor([entity]), torch.tensor([relation]))
                assert sorted(side.answers(np.array([begin]), np.array([end])).tolist()) == tails.tolist()
                seen.append((int(entity), int(relation)))
            for entity in range(graph.offsets[number], graph.offsets[number + 1]):
                (begin,), (end,) = side.spans(np.array([entity]))
                expected = np.flatnonzero(np.asarray(side.triples)[:, side.asked] == entity)
                assert list(range(begin, end)) == expected.tolist()
    assert sorted(seen) == sorted(zip(known.heads.tolist(), known.relation_ids.tolist(), strict=True))


def test_an_epoch_asks_every_question_once_with_all_answers(graph):
    known = known_tails(graph)
    batches, _, _ = batches_on(Group(), graph.path, {})
    assert batches.steps_per_epoch == -(-len(known) // 40)
    for epoch in range(2):
        steps = [epoch * batches.steps_per_epoch + step for step in range(batches.steps_per_epoch)]
        found = [batches.join(batches.batch(step)) for step in steps]
        asked = [
            pair for batch in found for pair in zip(batch.heads.tolist(), batch.relation_ids.tolist(), strict=True)
        ]
        assert sorted(asked) == sorted(zip(known.heads.tolist(), known.relation_ids.tolist(), strict=True))
        for batch in found:
            offsets, tails = known.find(batch.heads, batch.relation_ids)
            assert offsets.equal(batch.offsets)
            assert tails.equal(batch.positives)
    first, second = (batches.join(batches.batch(step)) for step in (0, batches.steps_per_epoch))
    assert first.heads.tolist() != second.heads.tolist()


def test_sampled_candidates_are_corrected_for_how_often_they_are_drawn(graph):
    known = known_tails(graph)
    batches, _, _ = batches_on(Group(), graph.path, SAMPLED)
    named = torch.bincount(torch.cat([known.heads, known.tails]), minlength=ENTITIES)
    drawn = torch.tensor(
        [
            share(20, graph.offsets[s], graph.offsets[s + 1], ENTITIES) / (graph.offsets[s + 1] - graph.offsets[s])
            for s in graph.owners(np.arange(ENTITIES))
        ]
    )
    expected = torch.log1p(-(1.0 - drawn) * torch.exp(-40 * named / len(known)))
    times = torch.zeros(ENTITIES)
    steps = 300
    for step in range(steps):
        batch = batches.join(batches.batch(step))
        times[batch.entity_ids] += 1
        np.testing.assert_allclose(batch.sample.log_inclusion, expected[batch.entity_ids], rtol=1e-5)
        offsets, tails = known.find(batch.entity_ids[batch.heads], batch.relation_ids)
        assert offsets.equal(batch.offsets)
        assert tails.equal(batch.entity_ids[batch.positives])
    assert (times / steps - expected.exp()).abs().max() < 0.12  # the number of a step's questions varies a little


def test_random_facts_are_learnt_with_all_their_known_answers(graph):
    known = known_tails(graph)
    batches, _, _ = batches_on(Group(), graph.path, {**SUBGRAPH, "loss": "bce-all"})
    drawn = set()
    for step in range(20):
        batch = batches.join(batches.batch(step))
        asked = batch.entity_ids[batch.heads]
        assert len(batch.heads) <= 2 * 40
        offsets, tails = known.find(asked, batch.relation_ids)
        for row in range(len(batch.heads)):
            among = set(tails[offsets[row] : offsets[row + 1]].tolist()) & set(batch.entity_ids.tolist())
            found = batch.entity_ids[batch.positives[batch.offsets[row] : batch.offsets[row + 1]]].tolist()
            assert sorted(found) == sorted(among)
            assert found
        drawn |= set(zip(asked.tolist(), batch.relation_ids.tolist(), strict=True))
    assert len(drawn) > 0.8 * len(known)


@pytest.mark.parametrize("size", [4])
def test_batches_are_the_same_on_any_number_of_ranks(graph, size):
    alone = batches_of(Group(), graph.path, CASES, 4)
    for found in on_ranks(size, batches_of, graph.path, CASES, 4):
        for ours, expected in zip(found, alone, strict=True):
            for batch, other in zip(ours, expected, strict=True):
                assert batch.keys() == other.keys()
                for name, numbers in batch.items():
                    np.testing.assert_array_equal(numbers, other[name], err_msg=name)


def test_a_rank_reads_the_facts_of_its_shards_alone(graph):
    for rank, opened in enumerate(on_ranks(2, files_that_are_read, graph.path)):
        own = range(rank, SHARDS, 2)
        assert sorted(opened) == sorted([f"{kind}-{shard:04}.npy" for kind in ("train", "edges") for shard in own])


def test_what_is_known_of_own_candidates_filters_as_all_facts_do(graph):
    train, valid = graph.split("train"), graph.split("valid")
    whole = KnownTails.from_splits([train, valid], RELATIONS)
    questions = torch.from_numpy(add_inverses(valid, RELATIONS))
    offsets, tails = whole.find(questions[:, 0], questions[:, 1])
    for number in range(SHARDS):
        shard = FactShard.of(number, graph.triples(number), graph.in_edges(number), RELATIONS)
        own = known_among_own([shard], [valid], valid, RELATIONS)
        found_offsets, found = own.find(questions[:, 0], questions[:, 1])
        for row in range(len(questions)):
            mine, all_of_them = (
                {t for t in part.tolist() if graph.offsets[number] <= t < graph.offsets[number + 1]}
                for part in (found[found_offsets[row] : found_offsets[row + 1]], tails[offsets[row] : offsets[row + 1]])
            )
            assert mine == all_of_them

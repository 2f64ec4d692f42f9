"""Messages sampled at their targets' owners: all of them where the fan-out allows, right on average where not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from graphs import toy_dataset
from rank_programs import on_ranks
from shard_folders import ENTITIES, RELATIONS, SAMPLED, SHARDS, SUBGRAPH, chosen_settings, prepared, shard_folder

from benchmarks.rank_worker import train_and_count
from tuckerkg import api
from tuckerkg.config.build import build_embedding_model
from tuckerkg.data.ingest.hashing import key_of
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.errors import SettingsError
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.ranks.facts.batches import OwnFacts, shards_of_graph, shards_of_triples
from tuckerkg.ranks.facts.neighbours import Neighbourhoods
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.loop import fit_on_ranks
from tuckerkg.ranks.partition import Partition

ALL = 10**6
ENCODERS = {
    "rgcn": {"encoder": {"name": "rgcn", "bases": 2}},
    "rgcn by degree": {"encoder": {"name": "rgcn", "bases": 2, "normalize": "degree"}},
    "tgcn": {"encoder": "tgcn", "decoder": "tucker"},
    "tgcn cp": {"encoder": {"name": "tgcn", "bases": 4}, "decoder": "tucker"},
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return shard_folder(tmp_path_factory.mktemp("shards") / "graph")


def facts_of(graph) -> OwnFacts:
    partition = Partition.of(graph.offsets.tolist(), Group())
    return OwnFacts.of(shards_of_graph(graph, partition), partition, RELATIONS)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("training", [False, True])
def test_with_all_messages_entities_are_those_of_the_whole_graph(graph, name, training):
    """In training batch norms see the whole graph too, where all entities are asked for."""
    settings = chosen_settings(**ENCODERS[name])
    torch.manual_seed(1)
    model = build_embedding_model(settings, ENTITIES, RELATIONS).double().train(training)
    encoder = model.encoder
    edges = torch.from_numpy(add_inverses(graph.split("train"), RELATIONS))
    whole = MessageGraph.of(edges, ENTITIES, encoder.normalize, torch.float64, encoder.order)
    table = model.entities.detach().requires_grad_()
    expected, _ = encoder(whole, table, model.relations)
    targets = torch.arange(ENTITIES) if training else torch.tensor([0, 3, 17, 40, 59])
    near = Neighbourhoods(facts_of(graph), [ALL, ALL], 0, encoder.normalize, encoder.order, torch.float64)
    ids, messages, places = near.around(targets, key_of(1))
    mine = model.entities.detach()[ids].requires_grad_()
    found, _ = encoder(messages, mine, model.relations)
    torch.testing.assert_close(found[places], expected[targets], rtol=1e-10, atol=1e-12)
    slope = torch.randn(len(targets), found.shape[1], dtype=torch.float64)
    (found[places] * slope).sum().backward()
    (expected[targets] * slope).sum().backward()
    gradient = torch.zeros_like(table).index_add_(0, ids, mine.grad)
    torch.testing.assert_close(gradient, table.grad, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("normalize", ["relation", "degree"])
def test_a_sample_has_as_many_distinct_messages_as_asked_and_is_right_on_average(graph, normalize):
    edges = add_inverses(graph.split("train"), RELATIONS)
    facts = set(map(tuple, edges.tolist()))
    degrees = np.bincount(edges[:, 2], minlength=ENTITIES)
    values = torch.randn(ENTITIES, 2 * RELATIONS, dtype=torch.float64)
    whole = MessageGraph.of(torch.from_numpy(edges), ENTITIES, normalize, torch.float64)
    near = Neighbourhoods(facts_of(graph), [4], 0, normalize, dtype=torch.float64)
    targets = torch.tensor([2, 5, 31])

    def summed(ids, messages):
        sources, relations, to = messages.edges.unbind(1)
        parts = messages.weights * values[ids[sources], relations]
        return torch.zeros(messages.num_entities, dtype=torch.float64).index_add_(0, to, parts)

    expected = summed(torch.arange(ENTITIES), whole)[targets]
    found = []
    for number in range(1000):
        ids, messages, places = near.around(targets, key_of(number))
        found.append(summed(ids, messages)[places])
        if number < 5:
            named = messages.edges.clone()
            named[:, 0], named[:, 2] = ids[named[:, 0]], ids[named[:, 2]]
            drawn = list(map(tuple, named.tolist()))
            assert len(set(drawn)) == len(drawn)
            assert set(drawn) <= facts
            counts = np.bincount(named[:, 2], minlength=ENTITIES)[targets]
            np.testing.assert_array_equal(counts, np.minimum(degrees[targets], 4))
    found = torch.stack(found)
    error = found.std(0) / 1000**0.5
    assert ((found.mean(0) - expected).abs() < 4 * error + 1e-9).all()


def test_a_second_layer_reaches_farther(graph):
    near = Neighbourhoods(facts_of(graph), [2, 1], 0)
    ids, messages, places = near.around(torch.tensor([7]), key_of(3))
    assert ids[places].tolist() == [7]
    counts = torch.bincount(messages.edges[:, 2], minlength=len(ids))
    assert counts[places].tolist() == [2]
    assert counts.max() == 2
    assert sorted(counts.tolist())[-2] == 1
    again = near.around(torch.tensor([7]), key_of(3))
    assert again[1].edges.equal(messages.edges)


CASES = [
    {**ENCODERS["tgcn"], **SAMPLED, "ranks.fanout": [4, 2], "train.optimizer": "rowwise-adagrad", "train.steps": 6},
    {**ENCODERS["rgcn"], **SUBGRAPH, "ranks.fanout": [5, 5], "train.steps": 6, "train.optimizer": "lazy-adam"},
]


def losses_of_all(group: Group, paths: list[Path]) -> list[list[float]]:
    return [train_and_count(group, path)["losses"] for path in paths]


def folders(graph, place: Path) -> list:
    """Runs of shards, and one of facts in memory."""
    made = [prepared(graph, place / f"{number}", **case) for number, case in enumerate(CASES)]
    ordinary = chosen_settings(**{**CASES[0], "batch.queries": 20, "phase": [{"candidates": 8}]})
    return [*made, api.prepare(toy_dataset(), ordinary, place / "ordinary")]


def test_losses_are_the_same_on_any_number_of_ranks(graph, tmp_path):
    alone = losses_of_all(Group(), [run.path for run in folders(graph, tmp_path / "1")])
    assert all(len(losses) == 6 for losses in alone)
    for size in (2, 4):
        for found in on_ranks(size, losses_of_all, [run.path for run in folders(graph, tmp_path / f"{size}")]):
            assert found == alone


def test_facts_in_memory_are_sorted_for_their_owners_as_files_are(graph):
    train = graph.split("train")
    order = np.random.default_rng(0).permutation(len(train))
    partition = Partition.of(graph.offsets.tolist(), Group(1, 2))
    ours, files = shards_of_triples(train[order], partition, RELATIONS), shards_of_graph(graph, partition)
    for mine, theirs in zip(ours, files, strict=True):
        for side, other in zip(mine.sides, theirs.sides, strict=True):
            np.testing.assert_array_equal(side.triples, other.triples)
    assert [shard.number for shard in ours] == list(range(1, SHARDS, 2))


def test_what_owners_do_not_know_is_refused_in_words(graph, tmp_path):
    cases = [
        ({"encoder": "rgcn"}, "give ranks.fanout"),
        ({"encoder": "rgcn", "ranks.fanout": [3]}, "one for each layer"),
        ({"ranks.fanout": [3]}, "encoder none has 0"),
        (
            {"encoder": {"name": "rgcn", "normalize": "symmetric"}, "ranks.fanout": [3, 2]},
            "degree of a message's source",
        ),
        ({"encoder": "rgcn", "ranks.fanout": [3, 2], "phase": [{"messages": 0.5}]}, "phase.messages"),
        (
            {"encoder": "rgcn", "ranks.fanout": [3, 2], "batch": {"name": "subgraph", "remove_own_edges": True}},
            "own edges",
        ),
    ]
    for number, (changes, words) in enumerate(cases):
        folder = prepared(graph, tmp_path / f"{number}", **changes)
        with pytest.raises(SettingsError, match=words):
            fit_on_ranks(folder)
    with pytest.raises(SettingsError, match="for training on ranks"):
        chosen_settings(**{"ranks.shards": 0, "ranks.fanout": [3]})

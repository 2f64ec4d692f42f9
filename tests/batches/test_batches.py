"""Batches: what is sampled, what is a positive, and that a step's batch depends on (seed, step) only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from graphs import random_triples

from tuckerkg.batches.batch import TrainingGraph
from tuckerkg.batches.phases import Phase
from tuckerkg.batches.subgraph import RandomSubgraphs, _local_ids
from tuckerkg.batches.whole_graph import WholeGraph
from tuckerkg.config.build import build_model
from tuckerkg.config.toml import load_settings
from tuckerkg.graph.known_tails import rows_of
from tuckerkg.losses.bce import BinaryCrossEntropyAll
from tuckerkg.losses.nt_xent import NTXent
from tuckerkg.losses.objective import Objective

N, R = 30, 4
TRIPLES = random_triples(0, N, R, 200)


def training_graph(*phases: Phase, **changes) -> TrainingGraph:
    given = {"triples": TRIPLES, "num_entities": N, "num_relations": R, "seed": 5, "phases": phases}
    return TrainingGraph(**given | changes)


def positives_of(batch) -> set[tuple[int, int, int]]:
    """Triples (head, relation below 2R, tail) in the dataset's ids."""
    rows = rows_of(batch.offsets)
    ids = torch.arange(N) if batch.entity_ids is None else batch.entity_ids
    columns = ids[batch.heads[rows]], batch.relation_ids[rows], ids[batch.positives]
    return set(zip(*(column.tolist() for column in columns), strict=True))


def edges_of(graph, entity_ids=None) -> set[tuple[int, int, int]]:
    """Messages (source, relation, target) in the dataset's ids, read back from the sparse weights."""
    ids = torch.arange(N) if entity_ids is None else entity_ids
    scatter = graph.scatter.forward
    return {
        (int(ids[graph.gather.forward.columns[row]]), int(graph.groups.relation_ids[row]), int(ids[target]))
        for target, row in zip(rows_of(scatter.offsets).tolist(), scatter.columns.tolist(), strict=True)
    }


def both_directions(triples) -> set[tuple[int, int, int]]:
    return {(h, r, t) for h, r, t in triples.tolist()} | {(t, r + R, h) for h, r, t in triples.tolist()}


ALL = both_directions(TRIPLES)


def test_a_subgraph_has_the_sizes_that_were_asked_for():
    batches = RandomSubgraphs(training_graph(Phase(messages=0.5)), triples=60, positives=20)
    batch = batches.batch(3)
    assert len(positives_of(batch)) == 2 * 20
    assert batch.graph.num_edges == 2 * 30
    assert positives_of(batch) <= ALL
    assert edges_of(batch.graph, batch.entity_ids) <= ALL
    assert batches.steps_per_epoch == -(-len(TRIPLES) // 20)


def test_candidates_are_exactly_the_entities_of_the_sample():
    batch = RandomSubgraphs(training_graph(Phase(messages=1.0)), triples=10, positives=10).batch(0)
    used = {entity for h, _, t in positives_of(batch) for entity in (h, t)}
    assert set(batch.entity_ids.tolist()) == used


def test_about_half_of_the_positives_are_messages_unless_removed():
    kept = RandomSubgraphs(training_graph(), triples=150, positives=100).batch(0)
    shared = positives_of(kept) & edges_of(kept.graph, kept.entity_ids)
    assert 0.3 < len(shared) / len(positives_of(kept)) < 0.7
    removed = RandomSubgraphs(training_graph(), triples=150, positives=100, remove_own_edges=True).batch(0)
    assert not positives_of(removed) & edges_of(removed.graph, removed.entity_ids)


def test_marking_known_tails_adds_every_training_tail_among_the_candidates():
    plain = RandomSubgraphs(training_graph(), triples=60, positives=10).batch(1)
    known = RandomSubgraphs(training_graph(marks_known=True), triples=60, positives=10).batch(1)
    assert torch.equal(plain.heads, known.heads)
    ids = known.entity_ids.tolist()
    asked = {(ids[h], r) for h, r in zip(known.heads.tolist(), known.relation_ids.tolist(), strict=True)}
    assert positives_of(known) == {(h, r, t) for h, r, t in ALL if (h, r) in asked and t in set(ids)}
    assert positives_of(plain) < positives_of(known)


def test_an_epoch_over_the_whole_graph_sees_every_triple_once():
    batches = WholeGraph(training_graph(), queries=16)
    seen = [positives_of(batches.batch(step)) for step in range(batches.steps_per_epoch)]
    assert sum(len(part) for part in seen) == len(ALL)
    assert set().union(*seen) == ALL
    again = [positives_of(batches.batch(step + batches.steps_per_epoch)) for step in range(batches.steps_per_epoch)]
    assert seen != again


def test_the_whole_graph_sends_all_messages_and_can_leave_out_the_batch_itself():
    batch = WholeGraph(training_graph(), queries=16).batch(2)
    assert edges_of(batch.graph) == ALL
    batch = WholeGraph(training_graph(), queries=16, remove_own_edges=True).batch(2)
    own = positives_of(batch)
    mirrored = {(t, (r + R) % (2 * R), h) for h, r, t in own}
    assert edges_of(batch.graph) == ALL - own - mirrored


def test_a_share_of_the_messages_is_drawn_anew_each_step():
    batches = WholeGraph(training_graph(Phase(messages=0.25)), queries=16)
    first, second = batches.batch(0), batches.batch(1)
    assert first.graph.num_edges == 2 * round(len(TRIPLES) * 0.25)
    assert edges_of(first.graph) != edges_of(second.graph)


def test_messages_begin_at_the_epoch_that_was_asked_for():
    batches = WholeGraph(training_graph(Phase(epochs=1.5, messages=0.0), Phase()), queries=16)
    first = round(1.5 * batches.steps_per_epoch)
    assert batches.batch(first - 1).graph is None
    assert batches.batch(first).graph.num_edges == WholeGraph(training_graph(), queries=16).batch(0).graph.num_edges
    assert batches.batch(first - 1).positives.numel() > 0


def test_sampled_candidates_hold_the_batch_and_a_random_sample_until_told():
    silent = Phase(epochs=1.0, messages=0.0)
    whole = WholeGraph(training_graph(silent, silent, Phase()), queries=16)
    sampled = Phase(epochs=1.0, messages=0.0, candidates=5)
    batches = WholeGraph(training_graph(sampled, silent, Phase()), queries=16)
    few, all_of_them = batches.batch(0), whole.batch(0)
    ids = few.entity_ids
    assert torch.equal(ids[few.heads], all_of_them.heads)
    assert torch.equal(ids[few.positives], all_of_them.positives)
    assert torch.equal(ids, ids.unique())
    used = torch.cat([all_of_them.heads, all_of_them.positives]).unique()
    assert len(used) <= len(ids) <= len(used) + 5
    assert few.graph is None
    assert batches.batch(batches.steps_per_epoch).entity_ids is None


def test_with_messages_all_entities_are_encoded_and_some_are_candidates():
    first, then = Phase(epochs=0.5, messages=0.0, candidates=5), Phase(messages=0.5, candidates=5)
    batches = WholeGraph(training_graph(first, then), queries=16)
    step = round(0.5 * batches.steps_per_epoch)
    before, after = batches.batch(step - 1), batches.batch(step)
    assert before.graph is None
    assert before.sample.rows is None
    assert after.graph is not None
    assert after.entity_ids is None
    whole = WholeGraph(training_graph(Phase(messages=0.5)), queries=16).batch(step)
    assert edges_of(after.graph) == edges_of(whole.graph)
    ids = after.candidate_ids
    assert torch.equal(ids[after.heads], whole.heads)
    assert torch.equal(ids[after.positives], whole.positives)
    assert torch.equal(after.sample.log_inclusion, batches._log_inclusion_of(5)[ids])
    assert len(ids) < N


@pytest.mark.parametrize(
    ("build", "options"), [(RandomSubgraphs, {"triples": 50, "positives": 20}), (WholeGraph, {"queries": 16})]
)
def test_a_batch_depends_on_seed_and_step_only(build, options):
    one, other = build(training_graph(), **options), build(training_graph(), **options)
    one.batch(0)
    for step in (7, 2):
        assert torch.equal(one.batch(step).positives, other.batch(step).positives)
        assert torch.equal(one.batch(step).heads, other.batch(step).heads)
    different = build(training_graph(seed=6), **options)
    assert positives_of(one.batch(2)) != positives_of(different.batch(2))
    assert positives_of(one.batch(2)) != positives_of(one.batch(3))


def test_without_a_graph_encoder_no_messages_are_prepared():
    assert RandomSubgraphs(training_graph(uses_graph=False)).batch(0).graph is None
    assert WholeGraph(training_graph(uses_graph=False)).batch(0).graph is None


def test_a_subgraph_larger_than_the_graph_is_the_graph():
    batch = RandomSubgraphs(training_graph(Phase(messages=1.0)), triples=10**6, positives=10**6).batch(0)
    assert positives_of(batch) == ALL == edges_of(batch.graph, batch.entity_ids)
    assert np.array_equal(np.sort(batch.entity_ids.numpy()), np.unique(TRIPLES[:, [0, 2]]))


def test_local_ids_are_the_same_by_table_and_by_sorting():
    triples = random_triples(3, 40, 2, 30)
    for by_table, by_sorting in zip(_local_ids(triples, 40), _local_ids(triples, 1_000_000), strict=True):
        assert np.array_equal(by_table, by_sorting)
    entity_ids, local = _local_ids(triples, 40)
    assert np.array_equal(entity_ids[local[:, [0, 2]]], triples[:, [0, 2]])
    assert np.array_equal(entity_ids, np.unique(triples[:, [0, 2]]))


def test_the_chance_of_a_sampled_candidate_is_how_often_it_is_drawn():
    graph = training_graph(Phase(messages=0.0, candidates=3))
    batches = WholeGraph(graph, queries=4)
    steps = 1500
    drawn = torch.zeros(graph.num_entities)
    for step in range(steps):
        drawn[batches.batch(step).entity_ids] += 1
    batch = batches.batch(0)
    log_inclusion = batches._log_inclusion_of(3)
    assert torch.equal(batch.sample.log_inclusion, log_inclusion[batch.entity_ids])
    assert torch.allclose(log_inclusion.exp(), drawn / steps, atol=0.06)


def test_the_loss_over_kept_candidates_is_that_of_their_scores_after_encoding():
    changes = {"model.dim": 6, "model.relation_dim": 6, "decoder": "distmult", "encoder.layers": 1}
    model = build_model(load_settings(None, changes), N, R).eval()
    batch = WholeGraph(training_graph(Phase(messages=0.5, candidates=5)), queries=16).batch(0)
    entities, relations = model.encode(batch.graph)
    ids = batch.candidate_ids
    scores = (entities[ids][batch.heads] * relations[batch.relation_ids]) @ entities[ids].T
    scores = scores - batch.sample.log_inclusion
    terms = torch.log_softmax(scores, 1)[rows_of(batch.offsets), batch.positives]
    assert Objective(NTXent())(model, batch).item() == pytest.approx(-terms.mean().item(), rel=1e-5)


def test_sampled_binary_cross_entropy_estimates_that_over_all_entities():
    changes = {"model.dim": 6, "model.relation_dim": 6, "encoder": "none", "decoder": "distmult", "model.bias": "free"}
    model = build_model(load_settings(None, changes), 400, R).eval()
    triples = random_triples(1, 400, R, 900)
    model.bias.data = torch.linspace(-8.0, 4.0, 400)
    triples[:, 2] = 399 - triples[:, 2] ** 2 // 400  # the higher an entity's bias, the more often it is a tail
    graph = training_graph(Phase(candidates=50), triples=triples, num_entities=400, marks_known=True)
    batches, sums = WholeGraph(graph, queries=32), []
    objective = Objective(BinaryCrossEntropyAll())
    with torch.no_grad():
        for step in range(3 * batches.steps_per_epoch):
            batch = batches.batch(step)
            ids = batch.candidate_ids
            sampled = objective(model, batch) * (-batch.sample.log_inclusion).exp().sum()
            scores = (
                model.entities[ids][batch.heads] * model.relations[batch.relation_ids]
            ) @ model.entities.T + model.bias
            rows, tails = rows_of(batch.offsets), ids[batch.positives]
            whole = (F.softplus(scores).sum() - scores[rows, tails].sum()) / len(rows)
            sums.append((sampled.item(), whole.item()))
    ours, true = torch.tensor(sums).mean(0)
    assert ours.item() == pytest.approx(true.item(), rel=0.03)

"""Programs that several ranks run in tests, and a way to run them: each gives back what it found."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.multiprocessing
from graphs import random_triples

from tuckerkg.batches.batch import CandidateSample, TrainingGraph
from tuckerkg.batches.subgraph import RandomSubgraphs
from tuckerkg.batches.whole_graph import WholeGraph
from tuckerkg.config.build import build_embedding_model, build_objective
from tuckerkg.config.settings import Settings
from tuckerkg.config.toml import load_settings
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.ranks.group import Group, joined
from tuckerkg.ranks.model import ShardedModel
from tuckerkg.ranks.partition import Partition
from tuckerkg.ranks.ranking import ShardedScorer, rank_in_shards
from tuckerkg.ranks.steps.objective import ShardedObjective

N, R, SHARDS = 40, 4, 8
TRIPLES = random_triples(3, N, R, 300)


def on_ranks(size: int, program: Callable[..., Any], *arguments: object) -> list[Any]:
    """What ``program(group, *arguments)`` gives on each of ``size`` ranks."""
    if size == 1:
        return [program(Group(), *arguments)]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    workers = [
        context.Process(target=_work, args=(rank, size, port, queue, program, arguments)) for rank in range(size)
    ]
    for worker in workers:
        worker.start()
    found = dict(queue.get() for _ in workers)
    for worker in workers:
        worker.join()
    return [found[rank] for rank in range(size)]


def _work(rank: int, size: int, port: int, queue: Any, program: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ.update(LOCAL_RANK=str(rank), GLOO_SOCKET_IFNAME="lo")
    with joined(60.0) as group:
        try:
            queue.put((rank, program(group, *arguments)))
        except Exception as error:
            queue.put((rank, f"{type(error).__name__}: {error}"))
            raise


def settings_of(**changes: Any) -> Settings:
    return load_settings(None, {"model.dim": 8, "model.relation_dim": 6, "encoder": "none", **changes})


def sharded(group: Group, settings: Settings) -> ShardedModel:
    torch.manual_seed(settings.train.seed)
    return ShardedModel(build_embedding_model(settings, 0, R), Partition.even(N, SHARDS, group), settings.train.seed)


def step_of(group: Group, changes: dict[str, Any], kind: str) -> dict[str, Any]:
    """Loss and gradients of one batch, every table whole."""
    settings = settings_of(**changes)
    model = sharded(group, settings)
    model = model if model.shared.encoder.uses_graph else model.double()  # messages are weighted in single precision
    before = weights_of(model)
    batch = batch_of(settings, model, kind)
    objective = ShardedObjective(build_objective(settings, model.shared))
    torch.manual_seed(7)
    value = objective(model, batch)
    value.backward()
    partition = model.partition
    sizes = [partition.size(shard) for shard in range(SHARDS)]
    found = {"value": value.item()}
    for name, tables in (("entities", model.entities), ("bias", model.bias)):
        if len(tables):
            parts = [tables[str(shard)].grad for shard in partition.own]
            found[name] = torch.cat(partition.rows_by_shard(parts, sizes)).numpy()
    for name, parameter in model.shared.named_parameters():
        if parameter.grad is not None:
            found[name] = parameter.grad.numpy()
    return {**found, "weights": before}


def steps_of(group: Group, cases: dict[str, tuple[dict[str, Any], str]]) -> dict[str, Any]:
    """What ``step_of`` finds for each case."""
    return {case: step_of(group, changes, kind) for case, (changes, kind) in cases.items()}


def weights_of(model: ShardedModel) -> dict[str, np.ndarray]:
    return {name: tensor.detach().clone().numpy() for name, tensor in model.whole().items()}


def batch_of(settings: Settings, model: Any, kind: str) -> Any:
    from tuckerkg.batches.phases import Phase

    shared = getattr(model, "shared", model)
    phases = (Phase(candidates=10),) if kind == "sampled" else ()
    loss = build_objective(settings, shared).loss
    graph = TrainingGraph(
        TRIPLES,
        N,
        R,
        0,
        uses_graph=shared.encoder.uses_graph,
        marks_known=loss.marks_known,
        phases=phases,
        normalize=shared.encoder.normalize,
        order=shared.encoder.order,
    )
    if kind == "subgraph":
        return RandomSubgraphs(graph, triples=60, positives=40).batch(3)
    batch = WholeGraph(graph, queries=50).batch(2)
    if batch.sample is None:
        return batch
    return replace(batch, sample=CandidateSample(batch.sample.rows, batch.sample.log_inclusion.double()))


def ranks_of(group: Group, changes: dict[str, Any]) -> tuple[np.ndarray, ...]:
    settings = settings_of(**changes)
    model = sharded(group, settings)
    plain = build_embedding_model(settings, N, R)
    graph = plain.message_graph(TRIPLES[:200])
    known = KnownTails.from_splits([TRIPLES], R)
    found = rank_in_shards(ShardedScorer(model, graph), TRIPLES[200:], known)
    return found.best, found.worst, found.candidates

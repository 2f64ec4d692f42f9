"""A training step while the graph grows: ten edges per entity, the size of the random subgraph fixed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.measure import Line, Measured, peak_mb, reset_peak
from tuckerkg.ahead import Ahead
from tuckerkg.batches import RandomSubgraphs, TrainingGraph
from tuckerkg.config import build_loss, build_model, load_settings
from tuckerkg.optimisers import Optimiser

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
EDGES_PER_ENTITY, RELATIONS, TRIPLES, STEPS = 10, 100, 2_000, 20


def run(sizes: tuple[int, ...] = SIZES) -> Iterator[Line]:
    smallest: Measured | None = None
    for num_entities in sizes:
        found, candidates = _steps(num_entities)
        work = (
            f"{num_entities} entities, {EDGES_PER_ENTITY} edges each, g_s {TRIPLES}, {candidates} candidates, "
            "d 100, TGCN 2 layers, TuckER, lazy Adam"
        )
        line = Line("growth", work, found.seconds, found.peak_memory_mb, f"{1 / found.seconds:.1f} steps/s")
        smallest = smallest or found
        line.hold(f"our own step at {sizes[0]}", smallest)
        yield line


def _steps(num_entities: int) -> tuple[Measured, int]:
    before = reset_peak()
    options = {"batch": "subgraph", "train.optimiser": "lazy-adam", "batch.triples": TRIPLES, "batch.positives": 1_000}
    settings = load_settings(None, options)
    random = np.random.default_rng(0)
    triples = np.empty((EDGES_PER_ENTITY * num_entities, 3), dtype=np.int64)
    for column, high in enumerate((num_entities, RELATIONS, num_entities)):
        triples[:, column] = random.integers(0, high, len(triples))
    torch.manual_seed(0)
    model, loss = build_model(settings, num_entities, RELATIONS), build_loss(settings)
    optimiser = Optimiser(model, settings.train.optimiser, settings.train.lr)
    options_of_batch = {key: value for key, value in settings.batch.items() if key != "name"}
    batches = RandomSubgraphs(TrainingGraph(triples, num_entities, RELATIONS, 0), **options_of_batch)
    seconds, candidates = [], 0
    with Ahead(batches, STEPS + 3) as ahead:
        for step in range(STEPS + 3):
            start = time.perf_counter()
            batch = ahead.batch(step)
            optimiser.zero_grad()
            model.loss(batch, loss).backward()
            optimiser.clip(1.0)
            optimiser.step()
            seconds.append(time.perf_counter() - start)
            candidates = len(batch.entity_ids)  # type: ignore[arg-type]
    counted = seconds[3:]
    return Measured(statistics.median(counted), counted, peak_mb() - before), candidates

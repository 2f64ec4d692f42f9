"""A training step while the graph grows: ten edges per entity, the size of the random subgraph fixed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from benchmarks.measure import Line, Measured, peak_mb, reset_peak
from tuckerkg.config.build import build_batches, build_model, build_objective
from tuckerkg.config.toml import load_settings
from tuckerkg.training.optim import ModelOptimizer

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
EDGES_PER_ENTITY, RELATIONS, TRIPLES, WARM, STEPS = 10, 100, 2_000, 3, 20
ONE_B = {
    "batch": "subgraph",
    "train.optimizer": "lazy-adam",
    "batch.triples": TRIPLES,
    "batch.positives": 1_000,
}


def run(sizes: tuple[int, ...] = SIZES) -> Iterator[Line]:
    """Every size takes turns with the smallest, step by step, so that the machine's moods meet both."""
    for num_entities in sizes:
        before = reset_peak()
        steppers = [Stepper(num_entities, ONE_B), Stepper(sizes[0], ONE_B)]
        for _ in range(WARM + STEPS):
            for stepper in steppers:
                stepper.step()
        peak = peak_mb() - before
        here, smallest = (Measured(statistics.median(s.seconds[WARM:]), s.seconds[WARM:], peak) for s in steppers)
        work = (
            f"{num_entities} entities, {EDGES_PER_ENTITY} edges each, g_s {TRIPLES}, {steppers[0].candidates} "
            "candidates, d 100, TGCN 2 layers, TuckER, lazy Adam"
        )
        line = Line("growth", work, here.seconds, here.peak_memory_mb, f"{1 / here.seconds:.1f} steps/s")
        line.hold(f"our own step at {sizes[0]}", smallest)
        yield line


class Stepper:
    """A model of its own on a random graph, trained step by step with ``options`` as settings."""

    def __init__(self, num_entities: int, options: Mapping[str, Any]) -> None:
        settings = load_settings(None, options)
        random = np.random.default_rng(0)
        triples = np.empty((EDGES_PER_ENTITY * num_entities, 3), dtype=np.int64)
        for column, high in enumerate((num_entities, RELATIONS, num_entities)):
            triples[:, column] = random.integers(0, high, len(triples))
        torch.manual_seed(0)
        self.model = build_model(settings, num_entities, RELATIONS)
        self.objective = build_objective(settings, self.model)
        self.optimizer = ModelOptimizer(self.model, settings.train.optimizer, settings.train.lr)
        self.batches = build_batches(settings, self.model, self.objective.loss, triples)
        self.seconds: list[float] = []
        self.candidates = 0

    def step(self) -> None:
        """One step, its batch made in between, and its time."""
        start = time.perf_counter()
        batch = self.batches.batch(len(self.seconds))
        self.optimizer.zero_grad()
        self.objective(self.model, batch).backward()
        self.optimizer.clip(1.0)
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - start)
        self.candidates = self.model.num_entities if batch.entity_ids is None else len(batch.entity_ids)

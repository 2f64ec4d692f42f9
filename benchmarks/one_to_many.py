"""A step of 1-N training (Eq. 10: all entities encoded and scored) and of 1-b (Eq. 11), while the graph grows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.growth import EDGES_PER_ENTITY, ONE_B, Stepper
from benchmarks.measure import Line, Measured, peak_mb, reset_peak

SIZES = (10_000, 30_000, 100_000)
WARM, STEPS = 1, 3
ONE_N = {"batch": "whole", "batch.queries": 2_000, "loss": "bce"}


def run(sizes: tuple[int, ...] = SIZES) -> Iterator[Line]:
    """About 2,000 queries a step: of 1,000 positives and their inverses, or 2,000 with all their tails.

    The two do not take turns: memory is told apart by having one at a time.
    """
    for num_entities in sizes:
        one_b, one_n = _measured(num_entities, ONE_B), _measured(num_entities, ONE_N)
        work = f"{num_entities} entities, {EDGES_PER_ENTITY} edges each, 1-b with g_s {ONE_B['batch.triples']}, d 100"
        line = Line("1-n", work, one_b.seconds, one_b.peak_memory_mb, f"{1 / one_b.seconds:.1f} steps/s")
        line.hold("1-N", one_n, what="whole graph as messages, all entities as candidates", entities=num_entities)
        yield line


def _measured(num_entities: int, options: dict[str, object]) -> Measured:
    before = reset_peak()
    stepper = Stepper(num_entities, options)
    for _ in range(WARM + STEPS):
        stepper.step()
    counted = stepper.seconds[WARM:]
    return Measured(statistics.median(counted), counted, peak_mb() - before)

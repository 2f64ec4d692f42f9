"""One epoch over all training queries of FB15k-237 at d 100, and where its time goes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.measure import Line, Measured, alternate, peak_mb, reset_peak
from benchmarks.train_step import Trainer, bare_products
from tuckerkg.batches.prefetch import Prefetch
from tuckerkg.config.toml import load_settings

QUERIES = 4_096


def run() -> Iterator[Line]:
    for name, encoder in (("decoder only", "none"), ("TGCN-TuckER, whole graph as messages", "tgcn")):
        options = {"encoder": encoder, "decoder": "tucker", "loss": "softmax", "batch.queries": QUERIES}
        trainer = Trainer(load_settings(None, options))
        steps = trainer.batches.steps_per_epoch
        parts: dict[str, float] = {}
        before = reset_peak()
        with Prefetch(trainer.batches, steps + 1) as ahead:
            trainer.step(ahead.batch(0))
            start = time.perf_counter()
            for step in range(1, steps + 1):
                asked = time.perf_counter()
                batch = ahead.batch(step)
                parts["batch"] = parts.get("batch", 0.0) + time.perf_counter() - asked
                trainer.timed_step(batch, parts)
            seconds = time.perf_counter() - start
        peak = peak_mb() - before
        parts["between the stages"] = seconds - sum(parts.values())
        num_queries = len(trainer.batches.known)  # type: ignore[attr-defined]
        work = f"fb15k-237, {num_queries} queries in batches of {QUERIES}, d 100, {name}"
        line = Line("epoch", work, seconds, peak, f"{num_queries / seconds:.0f} queries/s", parts=parts)
        products, flops = bare_products(trainer.batches.batch(0), trainer.model)
        one = alternate({"bare GEMM": products}, repeats=3)["bare GEMM"]
        line.hold("bare GEMM", Measured(one.seconds * steps, [], one.peak_memory_mb), what="the products of all steps")
        line.notes = f"{flops * steps / 1e12:.2f} TFLOP"
        yield line

"""The ten best answers to one question and to a thousand, against numpy's product and argpartition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.measure import Line, Work, alternate
from tuckerkg.config.build import build_model
from tuckerkg.config.toml import load_settings
from tuckerkg.data.labels import Labels
from tuckerkg.inference.predictor import Predictor
from tuckerkg.nn.embedding_scorer import EmbeddingScorer

K, RELATIONS = 10, 100


def run() -> Iterator[Line]:
    for num_entities in (14_541, 1_000_000):
        predictor = _predictor(num_entities)
        for count in (1, 1_000):
            yield _one(predictor, num_entities, count)


def _predictor(num_entities: int) -> Predictor:
    settings = load_settings(None, {"encoder": "none", "decoder": "distmult"})
    torch.manual_seed(0)
    model = build_model(settings, num_entities, RELATIONS).eval()
    random = np.random.default_rng(0)
    triples = np.stack([random.integers(0, high, 300_000) for high in (num_entities, RELATIONS, num_entities)], 1)
    names = Labels("entity", tuple(f"e{i:07}" for i in range(num_entities)), {})
    relations = Labels("relation", tuple(f"r{i:03}" for i in range(RELATIONS)), {})
    return Predictor(EmbeddingScorer(model, triples[:0]), names, relations, [triples])


def _one(predictor: Predictor, num_entities: int, count: int) -> Line:
    random = np.random.default_rng(1)
    heads, relation_ids = (torch.from_numpy(random.integers(0, high, count)) for high in (num_entities, 2 * RELATIONS))
    entities, relations = predictor.scorer.entities.numpy(), predictor.scorer.relations.numpy()

    def numpy() -> None:
        step = max(1, (1 << 24) // num_entities)
        for first in range(0, count, step):
            part = slice(first, first + step)
            queries = entities[heads[part].numpy()] * relations[relation_ids[part].numpy()]
            scores = queries @ entities.T
            best = np.argpartition(scores, -K, axis=1)[:, -K:]
            values = np.take_along_axis(scores, best, axis=1)
            np.take_along_axis(best, np.argsort(-values, axis=1), axis=1)

    def ours() -> None:
        predictor.best_tails(heads, relation_ids, K)

    times = 20 if count == 1 else 1  # one question after another, so that the clock does not count a cold start
    found = alternate(
        {name: _repeated(work, times) for name, work in (("ours", ours), ("numpy", numpy))},
        repeats=3 if num_entities * count > 1e8 else 9,
    )
    for measured in found.values():
        measured.seconds /= times
    best = found["ours"]
    work = f"top {K} of {num_entities} entities for {count} question{'s' * (count > 1)}, d 100, known answers left out"
    line = Line("predict", work, best.seconds, best.peak_memory_mb, f"{count / best.seconds:.0f} questions/s")
    line.hold("numpy", found["numpy"], what="matrix product and argpartition, nothing left out")
    return line


def _repeated(work: Work, times: int) -> Work:
    def again() -> None:
        for _ in range(times):
            work()

    return again

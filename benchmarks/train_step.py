"""One training step on a random subgraph, against the same step with a matrix per edge and against bare products."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measure import Line, Measured, alternate, once
from tuckerkg.batches.batch import Batch
from tuckerkg.batches.prefetch import Prefetch
from tuckerkg.config.build import build_batches, build_model, build_objective
from tuckerkg.config.settings import Settings
from tuckerkg.config.toml import load_settings
from tuckerkg.data.load import load
from tuckerkg.graph.known_tails import rows_of
from tuckerkg.kernels.dot_product import TILE, DotProduct
from tuckerkg.losses.objective import Objective
from tuckerkg.losses.streaming import CHUNK_SCORES, streamed_loss
from tuckerkg.nn.model import Model
from tuckerkg.training.optim import ModelOptimizer
from tuckerkg.types import Precision

STEP = {
    "model.dim": 100, "model.relation_dim": 125, "encoder": "tgcn", "decoder": "tucker", "loss": "softmax",
    "batch": "subgraph", "batch.triples": 100_000, "phase": [{"messages": 0.5}], "batch.positives": 5_000,
}  # fmt: skip
WORK = "fb15k-237 g_s=100000, half as messages, 5000 positives + inverses, 2 layers, d_e 100, d_r 125, TuckER"
EDGES_AT_ONCE = 2_000
COUNTED_STEPS = 4


def run(share: float = 1.0) -> Iterator[Line]:
    settings = load_settings(None, STEP)
    trainer = Trainer(settings)
    batch = trainer.batches.batch(0)
    edges = trainer.edges(batch)
    gemms, flops = bare_products(batch, trainer.model)
    found = alternate(
        {
            "ours": lambda: trainer.step(batch),
            "bare GEMM": gemms,
        }
    )
    found["bfloat16"] = once(lambda: trainer.step(batch, "bfloat16"))
    line = _line(found["ours"], WORK + ", float32", flops, trainer)
    line.hold("bare GEMM", found["bare GEMM"], what="the products of the step, same shapes and precision, one by one")
    slow = _per_edge(trainer, batch, edges, share)
    line.hold("per-edge", slow, what=f"a matrix per edge, {EDGES_AT_ONCE} edges at once, {share:.0%} of the edges")
    yield line
    rounded = _line(found["bfloat16"], WORK + ", scores in bfloat16", flops, trainer)
    rounded.hold("bare GEMM", found["bare GEMM"], what="in float32")
    rounded.hold("per-edge", slow, what="in float32")
    rounded.parts = {}
    rounded.notes = "this processor multiplies bfloat16 in software unless its flags name avx512_bf16 or amx_bf16"
    yield rounded


class Trainer:
    """What a training loop holds, without checkpoints and validation."""

    def __init__(self, settings: Settings, dataset: str = "fb15k-237") -> None:
        data = load(dataset)
        torch.manual_seed(0)
        self.settings, self.num_relations = settings, len(data.relations)
        self.model = build_model(settings, len(data.entities), len(data.relations))
        self.objective = build_objective(settings, self.model)
        self.loss = self.objective.loss
        self.batches = build_batches(settings, self.model, self.loss, data.train)
        self.optimizer = ModelOptimizer(self.model, settings.train.optimizer, settings.train.lr)

    def step(self, batch: Batch, precision: Precision = "float32") -> None:
        self.model.train()
        self.optimizer.zero_grad()
        Objective(self.loss, precision=precision)(self.model, batch).backward()
        self.optimizer.clip(1.0)
        self.optimizer.step()

    def timed_step(self, batch: Batch, parts: dict[str, float]) -> None:
        """A step that adds the seconds of its stages to ``parts``."""
        clock = [time.perf_counter()]

        def lap(name: str) -> None:
            clock.append(time.perf_counter())
            parts[name] = parts.get(name, 0.0) + clock[-1] - clock[-2]

        model = self.model.train()
        self.optimizer.zero_grad()
        entities, relations = model.encode(batch.graph, batch.entity_ids)
        lap("encode")
        queries = model.decoder.query(F.embedding(batch.heads, entities), relations, batch.relation_ids, batch.groups)
        lap("query")
        value = streamed_loss(self.loss, DotProduct(), queries, entities, batch.offsets, batch.positives)
        lap("scores, loss and their gradients")
        value.backward()
        lap("gradients of query and encoder")
        self.optimizer.clip(1.0)
        self.optimizer.step()
        lap("clip and optimizer")

    def edges(self, batch: Batch) -> Tensor:
        """The batch's messages as (source, relation, target), read back from its graph."""
        graph = batch.graph
        assert graph is not None and graph.scatter.forward.offsets is not None
        rows, targets = graph.scatter.forward.columns, rows_of(graph.scatter.forward.offsets)
        return torch.stack([graph.gather.forward.columns[rows], graph.groups.relation_ids[rows], targets], 1)


def _line(found: Measured, work: str, flops: float, trainer: Trainer) -> Line:
    parts: dict[str, float] = {}
    _walk(trainer, "auto", parts)
    rate = f"{flops / found.seconds / 1e9:.0f} GFLOP/s of {flops / 1e9:.0f} GFLOP"
    line = Line("train-step", work, found.seconds, found.peak_memory_mb, rate)
    line.parts = {name: seconds / COUNTED_STEPS for name, seconds in parts.items()}
    inline, ahead = (_walk(trainer, worker, {}) for worker in ("off", "on"))
    line.notes = (
        f"parts: mean of {COUNTED_STEPS} later steps, each on a new sample; whole steps with the batch made in between "
        f"{inline:.3f} s, by a worker {ahead:.3f} s"
    )
    return line


def _walk(trainer: Trainer, worker: Any, parts: dict[str, float]) -> float:
    """Mean seconds of steps on new samples, preparation included; the stages' sums go to ``parts``."""
    started = time.perf_counter()
    with Prefetch(trainer.batches, COUNTED_STEPS + 2, worker) as ahead:
        for step in range(COUNTED_STEPS + 2):
            if step == 2:
                parts.clear()
                started = time.perf_counter()
            asked = time.perf_counter()
            batch = ahead.batch(step)
            parts["batch"] = parts.get("batch", 0.0) + time.perf_counter() - asked
            trainer.timed_step(batch, parts)
    return (time.perf_counter() - started) / COUNTED_STEPS


def bare_products(batch: Batch, model: Model) -> tuple[Any, float]:
    """A function that runs every product of the step on its own, and their floating-point operations."""
    dim, relation_dim = model.entities.shape[1], model.relations.shape[1]
    graph, num_queries = batch.graph, len(batch.heads)
    num_entities = len(model.entities if batch.entity_ids is None else batch.entity_ids)
    products: list[tuple[Tensor, Tensor]] = []  # each pair is multiplied; batches of matrices where 3-dimensional

    def three(rows: int, inner: int, columns: int, many: int = 0) -> None:
        """A product and its two gradients."""
        lead = (many,) if many else ()
        left, right = torch.randn(*lead, rows, inner), torch.randn(*lead, inner, columns)
        out = torch.randn(*lead, rows, columns)
        products.extend([(left, right), (out, right.mT), (left.mT, out)])

    layers = len(model.encoder.layers) if graph is not None else 0  # type: ignore[arg-type]
    for groups, times in ((graph.groups if graph is not None else None, layers), (batch.groups, 1)):
        for _ in range(times):
            assert groups is not None
            three(len(groups.used), relation_dim, dim * dim)
            for bucket in groups.buckets:
                three(bucket.length, dim, dim, len(bucket.relation_ids))
    for _ in range(layers):
        three(num_entities, dim, dim)
    flops = sum(2.0 * a.numel() * b.shape[-1] for a, b in products) + 6.0 * num_queries * num_entities * dim
    chunk = max(1, CHUNK_SCORES // num_entities)
    table, queries = torch.randn(num_entities, dim), torch.randn(chunk, dim)
    scores, grad_table = torch.randn(num_entities, chunk), torch.zeros(num_entities, dim)
    grad_queries = torch.zeros(chunk, dim)

    def work() -> None:
        for left, right in products:
            torch.matmul(left, right)
        for first in range(0, num_queries, chunk):
            width = min(chunk, num_queries - first)
            for start in range(0, num_entities, TILE):
                tile = slice(start, start + TILE)
                part = scores[tile, :width]
                torch.mm(table[tile], queries[:width].T, out=part)
                grad_queries[:width].addmm_(part.T, table[tile])
                grad_table[tile].addmm_(part, queries[:width])

    return work, flops


def _per_edge(trainer: Trainer, batch: Batch, edges: Tensor, share: float) -> Measured:
    kept = edges[torch.randperm(len(edges), generator=torch.Generator().manual_seed(0))[: round(share * len(edges))]]

    def work() -> None:
        trainer.model.train()
        trainer.optimizer.zero_grad()
        per_edge_loss(trainer, batch, kept).backward()
        trainer.optimizer.clip(1.0)
        trainer.optimizer.step()

    return once(work)


def per_edge_loss(trainer: Trainer, batch: Batch, edges: Tensor) -> Tensor:
    """The same loss with Eq. (3) edge by edge: every edge gets its own d_e x d_o matrix."""
    model = trainer.model
    encoder: Any = model.encoder
    entities = F.embedding(batch.entity_ids, model.entities)  # type: ignore[arg-type]
    sources, relation_ids, targets = edges.unbind(1)
    _, pair, counts = torch.unique(relation_ids * len(entities) + targets, return_inverse=True, return_counts=True)
    weights = 1.0 / counts[pair].float()
    for depth, layer in enumerate(encoder.layers):
        neighbours = layer.input_norm(entities[sources])
        messages = []
        for first in range(0, len(edges), EDGES_AT_ONCE):
            part = slice(first, first + EDGES_AT_ONCE)
            matrices = (model.relations[relation_ids[part]] @ layer.core.core.flatten(1)).view(
                -1, layer.core.in_dim, layer.core.out_dim
            )
            messages.append(torch.bmm(neighbours[part][:, None], matrices)[:, 0])
        normed = layer.message_norm(torch.cat(messages)) * weights[:, None]
        total = torch.zeros_like(entities).index_add(0, targets, normed)
        entities = total + entities @ layer.self_loop + layer.bias
        entities = F.relu(entities) if depth == 0 else encoder.output_norm(entities)
    queries = model.decoder.query(entities[batch.heads], model.relations, batch.relation_ids, batch.groups)
    return streamed_loss(trainer.loss, DotProduct(), queries, entities, batch.offsets, batch.positives)

"""What a training step minimizes on ranks: the loss over candidates in shards, and penalties.

Every rank has the whole batch, makes the same queries and compares them with the candidates of its own shards. Queries'
gradients are added up over the shards; those of candidates stay where the candidates are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.autograd import Context, apply
from tuckerkg.batches.batch import Batch
from tuckerkg.graph.known_tails import rows_of
from tuckerkg.kernels.dot_product import DotProduct
from tuckerkg.losses.objective import Objective
from tuckerkg.losses.regularizers import BatchVectors, Orthogonality
from tuckerkg.losses.streaming import CHUNK_SCORES
from tuckerkg.ranks.model import ShardedModel
from tuckerkg.ranks.partition import Partition, pairwise_sum
from tuckerkg.ranks.steps.exchange import all_rows, own_rows
from tuckerkg.ranks.steps.losses import ShardLoss, ShardScores, shard_loss


class ShardedObjective:
    """``Objective`` for a model in shards."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    def __call__(self, model: ShardedModel, batch: Batch) -> Tensor:
        """The same number on every rank."""
        partition, shared = model.partition, model.shared
        rows = model.rows(batch.entity_ids, partition.bounds(batch.entity_ids))
        bounds = partition.bounds(batch.candidate_ids)
        encoded = None
        if shared.encoder.uses_graph:
            encoded, relations, candidates, heads = _encoded(model, batch, rows, bounds)
        else:
            candidates, relations = _passed_on(model, rows)
            heads = _some_rows(candidates, batch.heads, bounds, partition)
        queries = shared.decoder.query(heads, relations, batch.relation_ids, batch.groups)
        value = self._loss(model, batch, queries, candidates, bounds)
        if not self.objective.regularizers:
            return value
        if encoded is None and self._reads_entities:
            encoded = all_rows(candidates, _sizes(bounds), partition)
        embeddings = encoded
        if shared.encoder.uses_graph and self._reads_entities:
            embeddings = all_rows(rows, _sizes(partition.bounds(batch.entity_ids)), partition)
        unread = queries.new_empty(0, 0)
        vectors = BatchVectors(
            batch,
            unread if embeddings is None else embeddings,
            shared.relations,
            heads,
            queries,
            unread if encoded is None else encoded,
            relations,
        )
        for regularizer in self.objective.regularizers:
            value = value + regularizer(vectors)
        return value

    @property
    def _reads_entities(self) -> bool:
        """Whether a penalty reads the entities of the batch, which are then sent to every rank."""
        return not all(isinstance(regularizer, Orthogonality) for regularizer in self.objective.regularizers)

    def _loss(
        self, model: ShardedModel, batch: Batch, queries: Tensor, candidates: list[Tensor], bounds: list[int]
    ) -> Tensor:
        loss = self.objective.loss
        log_inclusion = None if batch.sample is None else batch.sample.log_inclusion
        logq = log_inclusion if loss.correction == "logq" else None
        importance = None
        if log_inclusion is not None and loss.correction == "importance":
            importance = (-log_inclusion).exp()
        comparison, asked, compared = model.compared(queries, candidates, batch.candidate_ids, bounds, logq)
        in_precision = comparison.in_precision(self.objective.precision)
        total: Tensor = apply(
            _ShardedLoss,
            shard_loss(loss, bounds[-1], importance),
            in_precision,
            model.partition,
            bounds,
            batch,
            importance,
            asked,
            *compared,
        )
        return total / max(batch.positives.numel(), 1)


def _encoded(
    model: ShardedModel, batch: Batch, rows: list[Tensor], bounds: list[int]
) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
    """Encoded candidates of all shards, relations, candidates of the own shards, heads: every rank encodes all."""
    partition, shared = model.partition, model.shared
    everything = all_rows(rows, _sizes(partition.bounds(batch.entity_ids)), partition)
    encoded, relations = shared.encoder(batch.graph, everything, shared.relations)
    if batch.sample is not None and batch.sample.rows is not None:
        encoded = F.embedding(batch.sample.rows, encoded)
    return encoded, relations, own_rows(encoded, bounds, partition), F.embedding(batch.heads, encoded)


def _passed_on(model: ShardedModel, rows: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """Rows through an encoder without messages: dropout, with a mask that belongs to (seed, step, shard)."""
    relations: Tensor = model.shared.relations
    found, start = [], torch.initial_seed()
    for part, shard in zip(rows, model.partition.own, strict=True):
        torch.manual_seed((start + 1 + shard) % 2**63)
        passed, relations = model.shared.encoder(None, part, model.shared.relations)
        found.append(passed)
    torch.manual_seed(start)
    return found, relations


def _some_rows(candidates: list[Tensor], places: Tensor, bounds: list[int], partition: Partition) -> Tensor:
    """Rows ``places [B]`` of candidates in shards, on every rank ``[B, d]``; each distinct one is sent once."""
    wanted, owners = torch.unique(places, return_inverse=True)
    begins = torch.searchsorted(wanted, torch.tensor(bounds, device=wanted.device)).tolist()
    own = [
        F.embedding(wanted[begins[shard] : begins[shard + 1]] - bounds[shard], part)
        for part, shard in zip(candidates, partition.own, strict=True)
    ]
    return F.embedding(owners, all_rows(own, _sizes(begins), partition))


def _sizes(bounds: Sequence[int]) -> list[int]:
    return [after - before for before, after in pairwise(bounds)]


class _ShardedLoss(torch.autograd.Function):
    """As the loss of one process, with two exchanges: the shards' sums of each chunk, and the queries' gradients."""

    @staticmethod
    def forward(
        ctx: Context,
        loss: ShardLoss,
        comparison: DotProduct,
        partition: Partition,
        bounds: list[int],
        batch: Batch,
        weights: Tensor | None,
        queries: Tensor,
        *candidates: Tensor,
    ) -> Tensor:
        step = max(1, CHUNK_SCORES // max(bounds[-1], 1))  # the same on any number of ranks
        tables = [comparison.operand(part) for part in candidates]
        gradients = [torch.zeros_like(part) for part in candidates]
        grad_queries = torch.zeros_like(queries)
        shards = [
            _Shard(
                bounds[shard],
                bounds[shard + 1],
                None if weights is None else weights[bounds[shard] : bounds[shard + 1]],
            )
            for shard in partition.own
        ]
        values = torch.zeros(len(shards), dtype=torch.float64)
        common = torch.zeros((), dtype=torch.float64)
        for first in range(0, len(queries), step):
            last = min(first + step, len(queries))
            asked, counts, rows, positives = _chunk(batch, comparison, queries, first, last)
            parts, sums = [], []
            for place, (shard, table) in enumerate(zip(shards, tables, strict=True)):
                out = queries.new_empty(len(table), last - first)
                part = shard.part(comparison.scores(asked, table, out), rows, positives, counts)
                value, own = loss.begin(part)
                values[place] += value.double().cpu()
                parts.append(part)
                sums.append(own)
            every = None if sums[0] is None else partition.by_shard([own for own in sums if own is not None])
            if every is not None:
                common += loss.common(every, counts).double().cpu()
            of_shards = []
            for part, own, table, gradient in zip(parts, sums, tables, gradients, strict=True):
                of_queries = torch.zeros_like(queries[first:last])
                comparison.add_gradients(loss.finish(part, own, every), asked, table, of_queries, gradient)
                of_shards.append(of_queries)
            grad_queries[first:last] = pairwise_sum(of_shards)
        ctx.save_for_backward(pairwise_sum(list(partition.group.gather(grad_queries))), *gradients)
        total = partition.by_shard(list(values)).sum() + common
        return total.to(queries)

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return *[None] * 6, *(saved * gradients[0] for saved in ctx.saved_tensors)


class _Shard:
    def __init__(self, begin: int, end: int, weights: Tensor | None) -> None:
        self.begin, self.end, self.weights = begin, end, weights

    def part(self, scores: Tensor, rows: Tensor, positives: Tensor, counts: Tensor) -> ShardScores:
        inside = (positives >= self.begin) & (positives < self.end)
        return ShardScores(scores, rows[inside], positives[inside] - self.begin, counts, self.weights)


def _chunk(
    batch: Batch, comparison: DotProduct, queries: Tensor, first: int, last: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries as they are compared, and the number, rows and places of their positives."""
    offsets = batch.offsets[first : last + 1]
    rows, positives = rows_of(offsets), batch.positives[offsets[0] : offsets[-1]]
    counts = (offsets[1:] - offsets[:-1]).to(queries.dtype)
    return comparison.operand(queries[first:last]), counts, rows, positives

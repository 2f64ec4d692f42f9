"""What a rank holds and sends, by formula: for sizes that are not at hand, and to hold against what is counted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tuckerkg.batches.batch import Batch
from tuckerkg.config.settings import OptimizerName
from tuckerkg.ranks.partition import Partition

FLOAT, LONG = 4, 8  # bytes
LISTS = {"whole": 5, "subgraph": 3}  # of numbers that a shard gives to a step, by the way to make batches
STATE = {"adam": 2, "adagrad": 1, "lazy-adam": 2}  # numbers for each of the table's


@dataclass(frozen=True)
class Memory:
    """What a rank holds, in bytes."""

    tables: float
    optimizer: float
    facts: float  # mapped: pages that the system can drop
    odds: float  # how often each entity is a candidate, where candidates are sampled

    @property
    def total(self) -> float:
        """Of all of it."""
        return self.tables + self.optimizer + self.facts + self.odds


def memory_of_rank(
    entities: int,
    facts: int,
    dim: int,
    ranks: int,
    *,
    optimizer: OptimizerName = "rowwise-adagrad",
    bias: bool = False,
    sampled: bool = True,
) -> Memory:
    """What one of ``ranks`` holds of a graph in shards of one size; facts lie with both of their ends.

    Left out are the interpreter with its libraries, relations and the numbers of a step, which do not grow with the
    graph.
    """
    rows = entities / ranks
    number = FLOAT if entities < 2**31 else LONG
    state = 1 if optimizer == "rowwise-adagrad" else STATE[optimizer] * dim
    return Memory(
        tables=rows * (dim + bias) * FLOAT,
        optimizer=rows * state * FLOAT,
        facts=2 * (facts / ranks) * 3 * number,
        odds=rows * FLOAT if sampled else 0.0,
    )


@dataclass(frozen=True)
class StepCounts:
    """What is counted of a step: of all ranks, or the most that one of them has.

    Attributes:
        queries: B, of all ranks.
        numbers: ids and counts that a rank gives to the batch; 0 where every rank makes the batch by itself.
        heads: distinct heads that a rank owns.
        candidates: sampled candidates that a rank owns; 0 where they are not corrected.
    """

    queries: int
    numbers: int
    heads: int
    candidates: int

    @classmethod
    def own(cls, batch: Batch, numbers: int, partition: Partition) -> StepCounts:
        """Those of this rank; the most of all ranks counts."""
        ids = batch.candidate_ids
        heads = (batch.heads if ids is None else ids[batch.heads]).unique()
        corrected = batch.sample is not None and batch.sample.log_inclusion is not None
        sampled = 0 if not corrected or ids is None else _owned(ids, partition)
        return cls(len(batch.heads), numbers, _owned(heads, partition), sampled)

    @classmethod
    def most(cls, counts: Sequence[StepCounts]) -> StepCounts:
        """Of the counts of all ranks."""
        return cls(
            *(max(getattr(one, name) for one in counts) for name in ("queries", "numbers", "heads", "candidates"))
        )

    @classmethod
    def expected(cls, queries: int, answers: float, candidates: int, ranks: int) -> StepCounts:
        """Where shares are equal and nothing is drawn twice; ``answers`` of a query, on average."""
        numbers = math.ceil((queries * (3 + answers) + candidates) / ranks)
        among = math.ceil((queries * (1 + answers) + candidates) / ranks) if candidates else 0
        return cls(queries, numbers, math.ceil(queries / ranks), among)


def bytes_of_step(
    counts: StepCounts, *, ranks: int, shards: int, dim: int, query_dim: int, batch: str = "whole"
) -> Mapping[str, int]:
    """What a rank gives to the others in a step, by what it is: everything is gathered, so that each gets all of it.

    Of an encoder that sends no messages, without penalties on entities; a softmax. ``query_dim`` counts the column that
    a bias or the correction of a sample adds.
    """
    others, of_rank = ranks - 1, -(-shards // ranks)
    number = FLOAT  # ids below 2^31
    parts = {
        "lengths": of_rank * LISTS[batch] * LONG if counts.numbers else 0,
        "batch": counts.numbers * number,
        "odds": counts.candidates * FLOAT,
        "heads": counts.heads * dim * FLOAT,
        "sums": of_rank * 2 * counts.queries * FLOAT,
        "gradients": counts.queries * query_dim * FLOAT,
        "checks": of_rank * (LONG + LONG) + LONG,  # values, norms, a signal
    }
    return {name: size * others for name, size in parts.items()}


def _owned(ids: Tensor, partition: Partition) -> int:
    bounds = partition.bounds(ids)
    return int(sum(bounds[shard + 1] - bounds[shard] for shard in partition.own))


def tables_of(model: torch.nn.Module) -> int:
    """Bytes of the own shards of tables, as they are."""
    return sum(
        parameter.numel() * parameter.element_size()
        for name, parameter in model.named_parameters()
        if name.partition(".")[0] in ("entities", "bias")
    )

"""What a training step minimizes: the loss over the batch's candidates, and penalties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch.nn.functional as F
from torch import Tensor

from tuckerkg.batches.batch import Batch
from tuckerkg.batches.questions import QuestionBatch
from tuckerkg.losses.regularizers import BatchVectors, Regularizer
from tuckerkg.losses.streaming import streamed_loss
from tuckerkg.nn.contracts import Loss
from tuckerkg.nn.model import Model
from tuckerkg.nn.paths import Hide, PathModel
from tuckerkg.types import Precision


class Minimized(Protocol):
    """What a training step minimizes, for models and batches of one kind."""

    def __call__(self, model: Any, batch: Any) -> Tensor:
        """A scalar."""
        ...


class Objective:
    """The loss of a batch plus its penalties.

    Args:
        loss: the loss over scores.
        regularizers: penalties, added in this order.
        precision: of the products of queries with candidates, where the comparison supports it.
    """

    def __init__(self, loss: Loss, regularizers: Sequence[Regularizer] = (), precision: Precision = "float32") -> None:
        self.loss, self.regularizers, self.precision = loss, tuple(regularizers), precision

    def __call__(self, model: Model, batch: Batch) -> Tensor:
        """Encode, make queries, compare them with the candidates in chunks, add penalties."""
        candidates, relations = model.encode(batch.graph, batch.entity_ids)  # [M, d], [2R, d_r]
        log_inclusion = None
        if batch.sample is not None:
            log_inclusion = batch.sample.log_inclusion
            if batch.sample.rows is not None:
                candidates = F.embedding(batch.sample.rows, candidates)
        heads = F.embedding(batch.heads, candidates)  # [B, d]
        queries = model.decoder.query(heads, relations, batch.relation_ids, batch.groups)  # [B, d_q]
        logq = log_inclusion if self.loss.correction == "logq" else None
        importance = (
            (-log_inclusion).exp() if log_inclusion is not None and self.loss.correction == "importance" else None
        )
        comparison, asked, compared = model.comparison(queries, candidates, batch.candidate_ids, logq)
        value = streamed_loss(
            self.loss,
            comparison.in_precision(self.precision),
            asked,
            compared,
            batch.offsets,
            batch.positives,
            weights=importance,
        )
        if self.regularizers:
            vectors = BatchVectors(
                batch, model.rows(batch.entity_ids), model.relations, heads, queries, candidates, relations
            )
            for regularizer in self.regularizers:
                value = value + regularizer(vectors)
        return value


class QuestionObjective:
    """Softmax cross entropy over all entities for messages that start from the question; see ``PathModel.loss``.

    Args:
        hide: which edges a training question must not use.
        least_gradient: below it, gradients of scores are rounded at random.
    """

    def __init__(self, hide: Hide, least_gradient: float) -> None:
        self.hide, self.least_gradient = hide, least_gradient

    def __call__(self, model: PathModel, batch: QuestionBatch) -> Tensor:
        """The mean loss of the batch's questions."""
        return model.loss(batch.graph, batch.questions, hide=self.hide, least_gradient=self.least_gradient)

"""Entity and relation tables, an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.batches import Batch
from tuckerkg.dot import DotProduct, Precision
from tuckerkg.graph import MessageGraph
from tuckerkg.grouping import RowGroups
from tuckerkg.losses import ScoreLoss, streamed_loss
from tuckerkg.regularisers import Regulariser, Triples


@dataclass(frozen=True)
class Encoded:
    """A model's encoded tables: ``entities [N, d]``, ``relations [2R, d_r]``."""

    model: Model
    entities: Tensor
    relations: Tensor

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """Raw scores of every entity as the tail: ``heads [B]``, ``relation_ids [B]`` below 2R -> ``[B, N]``."""
        return self.model.compare(self.queries(heads, relation_ids), self.entities)

    def queries(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """Query vectors ``[B, d_q]``, without dropout."""
        device = self.entities.device
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                rows = F.embedding(heads.to(device), self.entities)
                return self.model.query(rows, self.relations, relation_ids.to(device))
        finally:
            self.model.train(training)


@dataclass(frozen=True)
class Counts:
    """Free parameters as the paper counts them."""

    efp: int  # embeddings: N d_e + 2 R d_r
    nfp: int  # everything else
    enfp: int  # the encoder's part of nfp

    def as_dict(self) -> dict[str, int]:
        """For JSON."""
        return {"efp": self.efp, "nfp": self.nfp, "enfp": self.enfp}


class Model(nn.Module):
    """Scores triples: encode all entities, make a query of (head, relation), compare it with candidates.

    The relation table has 2R rows, relation r's inverse at r + R; nobody outside sees the second half.
    """

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        dim: int,
        relation_dim: int,
        encoder: nn.Module,
        decoder: nn.Module,
        *,
        init_std: float = 0.1,
    ) -> None:
        super().__init__()
        self.num_entities, self.num_relations, self.init_std = num_entities, num_relations, init_std
        self.entities = nn.Parameter(torch.empty(num_entities, dim))
        self.relations = nn.Parameter(torch.empty(2 * num_relations, relation_dim))
        self.encoder, self.decoder = encoder, decoder
        self.sparse_rows = False  # True: the entity table's gradient holds the rows of the batch only
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts the two tables anew: normal with deviation ``init_std``."""
        nn.init.normal_(self.entities, std=self.init_std)
        nn.init.normal_(self.relations, std=self.init_std)

    @property
    def compare(self) -> Callable[[Tensor, Tensor], Tensor]:
        """The decoder's comparison of queries with candidates."""
        compare: Callable[[Tensor, Tensor], Tensor] = self.decoder.compare  # type: ignore[assignment]
        return compare

    def encode(self, graph: MessageGraph | None, entity_ids: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Encoded entities ``[M, d]`` (all, or ``entity_ids``) and relations ``[2R, d_r]``."""
        entities = self._rows(entity_ids)
        encoded: tuple[Tensor, Tensor] = self.encoder(graph, entities, self.relations)
        return encoded

    def _rows(self, entity_ids: Tensor | None) -> Tensor:
        if entity_ids is None:
            return self.entities
        return F.embedding(entity_ids, self.entities, sparse=self.sparse_rows)

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """Query vectors ``[B, d_q]`` of encoded heads ``[B, d]`` and ``relation_ids [B]`` below 2R."""
        queries: Tensor = self.decoder.query(heads, relations, relation_ids, groups)  # type: ignore[operator]
        return queries

    def loss(
        self,
        batch: Batch,
        loss: ScoreLoss,
        l2: float = 0.0,
        l2_encoded: float = 0.0,
        precision: Precision = "float32",
        regulariser: Regulariser | None = None,
    ) -> Tensor:
        """The batch's loss, its scores computed in ``precision`` where the decoder compares by dot product.

        ``l2`` weighs the mean square of the embeddings that the batch uses, as the paper's text has it; ``l2_encoded``
        that of the encoder's output, as the authors' code does.
        """
        entities, relations = self.encode(batch.graph, batch.entity_ids)
        heads = F.embedding(batch.heads, entities)
        queries = self.query(heads, relations, batch.relation_ids, batch.groups)
        compare = DotProduct(precision) if isinstance(self.compare, DotProduct) else self.compare
        value = streamed_loss(loss, compare, queries, entities, batch.offsets, batch.positives)
        if l2:
            value = value + l2 * (self._rows(batch.entity_ids).square().mean() + self.relations.square().mean())
        if l2_encoded:
            value = value + l2_encoded * (entities.square().mean() + relations.square().mean())
        if getattr(self.decoder, "orthogonality", 0.0):
            value = value + self.decoder.penalty(relations)  # type: ignore[operator]
        if regulariser is not None and regulariser.weight:
            counts = (batch.offsets[1:] - batch.offsets[:-1]).to(queries.dtype)
            rows = F.embedding(batch.relation_ids, relations)
            value = value + regulariser(Triples(heads, rows, queries, entities, counts, batch.positives))
        return value

    def encoded(self, graph: MessageGraph | None) -> Encoded:
        """All entities encoded once, without gradients or dropout, ready for any number of questions."""
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                entities, relations = self.encode(graph)
                return Encoded(self, entities.detach(), relations.detach())
        finally:
            self.train(training)

    def counts(self) -> Counts:
        """#EFP, #NFP and #ENFP of the paper's tables."""
        enfp = sum(parameter.numel() for parameter in self.encoder.parameters())
        decoder = sum(parameter.numel() for parameter in self.decoder.parameters())
        return Counts(self.entities.numel() + self.relations.numel(), enfp + decoder, enfp)

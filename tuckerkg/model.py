"""Entity and relation tables, an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.batches import Batch
from tuckerkg.dot import DotProduct, Precision
from tuckerkg.graph import MessageGraph
from tuckerkg.grouping import RowGroups
from tuckerkg.losses import ScoreLoss, streamed_loss
from tuckerkg.regularisers import Regulariser, Triples

Bias = Literal["none", "free", "distance"]
Compare = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Encoded:
    """A model's encoded tables: ``entities [N, d]``, ``relations [2R, d_r]``."""

    model: Model
    entities: Tensor
    relations: Tensor

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """Raw scores of every entity as the tail: ``heads [B]``, ``relation_ids [B]`` below 2R -> ``[B, N]``."""
        return self.compare(self.queries(heads, relation_ids))

    def compare(self, queries: Tensor, ids: slice = slice(None)) -> Tensor:
        """Raw scores ``[B, M]`` of ``queries`` with the entities at ``ids``."""
        with torch.no_grad():
            compare, queries, candidates = self.model.comparison(queries, self.entities[ids], ids)
            return compare(queries, candidates)

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

    efp: int  # embeddings: N d_e + 2 R d_r, and N biases where there are any
    nfp: int  # everything else
    enfp: int  # the encoder's part of nfp

    def as_dict(self) -> dict[str, int]:
        """For JSON."""
        return {"efp": self.efp, "nfp": self.nfp, "enfp": self.enfp}


class Model(nn.Module):
    """Scores triples: encode all entities, make a query of (head, relation), compare it with candidates.

    The relation table has 2R rows, relation r's inverse at r + R; nobody outside sees the second half. ``bias`` adds a
    learnt number per candidate to its scores ("free"), less half its squared length ("distance"): a dot product then
    ranks as the distance does, since ``-|q - t|^2 / 2`` is ``q . t - |t|^2 / 2`` and a part of the query alone.
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
        bias: Bias = "none",
    ) -> None:
        super().__init__()
        self.num_entities, self.num_relations, self.init_std = num_entities, num_relations, init_std
        self.entities = nn.Parameter(torch.empty(num_entities, dim))
        self.relations = nn.Parameter(torch.empty(2 * num_relations, relation_dim))
        self.kind_of_bias = bias
        self.bias = nn.Parameter(torch.empty(num_entities)) if bias != "none" else None
        self.encoder, self.decoder = encoder, decoder
        self.sparse_rows = False  # True: the entity table's gradient holds the rows of the batch only
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts the two tables anew: normal with deviation ``init_std``. Biases start at 0."""
        nn.init.normal_(self.entities, std=self.init_std)
        nn.init.normal_(self.relations, std=self.init_std)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def comparison(
        self, queries: Tensor, entities: Tensor, ids: Tensor | slice | None = None, less: Tensor | None = None
    ) -> tuple[Compare, Tensor, Tensor]:
        """The decoder's comparison, and the queries and candidates to give to it.

        ``entities [M, d]`` are the encoded entities ``ids`` (None: all); ``less [M]`` is taken off their scores. Bias
        and ``less`` are one more column of the candidates.
        """
        compare: Compare = self.decoder.compare  # type: ignore[assignment]
        if self.bias is None and less is None:
            return compare, queries, entities
        bias = entities.new_zeros(len(entities)) if less is None else -less
        if self.bias is not None:
            bias = bias + (self.bias if ids is None else self.bias[ids])
        if self.kind_of_bias == "distance":
            bias = bias - 0.5 * entities.square().sum(1)
        candidates = torch.cat([entities, bias[:, None]], 1)
        if isinstance(compare, DotProduct):
            return compare, F.pad(queries, (0, 1), value=1.0), candidates
        return _Biased(compare), queries, candidates

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
        relation_loss: float = 0.0,
    ) -> Tensor:
        """The batch's loss, its scores computed in ``precision`` where the decoder compares by dot product.

        ``l2`` weighs the mean square of the embeddings that the batch uses, as the paper's text has it; ``l2_encoded``
        that of the encoder's output, as the authors' code does. ``relation_loss`` weighs the question for the relation.
        """
        entities, relations = self.encode(batch.graph, batch.entity_ids)
        if batch.kept is not None:
            entities = F.embedding(batch.kept, entities)
        heads = F.embedding(batch.heads, entities)
        if hasattr(self.decoder, "precision"):
            self.decoder.precision = precision  # type: ignore[assignment]
        queries = self.query(heads, relations, batch.relation_ids, batch.groups)
        chance = batch.log_chance
        less = chance if loss.sample_stands == "shifted" else None
        weights = None if chance is None or loss.sample_stands != "weighed" else (-chance).exp()
        compare, asked, candidates = self.comparison(queries, entities, batch.candidate_ids, less)
        compare = DotProduct(precision) if isinstance(compare, DotProduct) else compare
        value = streamed_loss(loss, compare, asked, candidates, batch.offsets, batch.positives, weights=weights)
        if relation_loss:
            value = value + relation_loss * self._relation_loss(batch, entities, heads, relations)
        if l2:
            value = value + l2 * (self._rows(batch.entity_ids).square().mean() + self.relations.square().mean())
        if l2_encoded:
            value = value + l2_encoded * (entities.square().mean() + relations.square().mean())
        if getattr(self.decoder, "orthogonality", 0.0):
            value = value + self.decoder.penalty(F.embedding(batch.groups.used, relations))  # type: ignore[operator]
        if regulariser is not None and regulariser.weight:
            counts = (batch.offsets[1:] - batch.offsets[:-1]).to(queries.dtype)
            used = F.embedding(batch.relation_ids, relations)
            sizes = getattr(self.decoder, "magnitudes", _as_they_are)
            triples = Triples(sizes(heads), sizes(used), sizes(queries), sizes(entities), counts, batch.positives)
            value = value + regulariser(triples)
        return value

    def _relation_loss(self, batch: Batch, entities: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        """Softmax over all relations between a head and one of its tails (Chen et al., 2021), for some of the queries.

        The contraction costs more than a query's, so a random quarter of the queries stands for all.
        """
        counts = batch.offsets[1:] - batch.offsets[:-1]
        chosen = torch.randperm(len(counts), device=counts.device)[: -(-len(counts) // 4)]
        chosen = chosen[counts[chosen] > 0]
        places = batch.offsets[chosen] + (torch.rand(len(chosen), device=counts.device) * counts[chosen]).long()
        tails = F.embedding(batch.positives[places], entities)
        asked = self.decoder.relation_query(F.embedding(chosen, heads), tails)  # type: ignore[operator]
        return F.cross_entropy(asked @ relations.T, batch.relation_ids[chosen])

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
        biases = 0 if self.bias is None else self.bias.numel()
        return Counts(self.entities.numel() + self.relations.numel() + biases, enfp + decoder, enfp)


def _as_they_are(rows: Tensor) -> Tensor:
    return rows


class _Biased:
    """A comparison plus the candidates' last column."""

    def __init__(self, compare: Compare) -> None:
        self.compare = compare

    def __call__(self, queries: Tensor, candidates: Tensor) -> Tensor:
        return self.compare(queries, candidates[:, :-1]) + candidates[:, -1]

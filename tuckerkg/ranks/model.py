"""A model whose entity table lies in shards: each rank has some of them, and all have the rest."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.errors import SettingsError
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.kernels.dot_product import DotProduct
from tuckerkg.nn.contracts import Encoder
from tuckerkg.nn.model import Model, message_graph_of
from tuckerkg.ranks.partition import Partition


def can_lie_in_shards(model: Model) -> bool:
    """Whether candidates are compared by a dot product, so that each rank can score its own."""
    return type(model.decoder.comparison) is DotProduct


class ShardedModel(nn.Module):
    """The tables, encoder and decoder of a ``Model`` without entities, and the own shards of the entity table.

    Args:
        shared: a model over no entity: relations, encoder and decoder, the same on every rank.
        partition: which entities are where.
        seed: of the table. A shard starts with numbers of its own, whoever holds it.

    Attributes:
        entities, bias: by shard, those of this rank.
    """

    def __init__(self, shared: Model, partition: Partition, seed: int) -> None:
        super().__init__()
        if not can_lie_in_shards(shared):
            raise SettingsError(
                f"decoder {type(shared.decoder).__name__}: compares by a distance, and on ranks candidates are "
                "compared by a dot product; choose tucker, distmult, complex, rescal, conve or convtranse"
            )
        self.shared, self.partition = shared, partition
        self.num_entities, self.num_relations = partition.offsets[-1], shared.num_relations
        self.sparse_rows = False
        width = shared.entities.shape[1]
        self.entities = nn.ParameterDict()
        self.bias = nn.ParameterDict()
        for shard in partition.own:
            random = torch.Generator().manual_seed(_seed(seed, shard))
            table = torch.randn(partition.size(shard), width, generator=random) * shared.init_std
            self.entities[str(shard)] = nn.Parameter(table)
            if shared.kind_of_bias != "none":
                self.bias[str(shard)] = nn.Parameter(torch.zeros(partition.size(shard)))

    @property
    def encoder(self) -> Encoder:
        """The encoder, the same on every rank."""
        return self.shared.encoder

    def message_graph(self, train: np.ndarray) -> MessageGraph | None:
        """The messages of validation: all training triples and their inverses."""
        return message_graph_of(self.encoder, train, self.num_entities, self.num_relations)

    def rows(self, ids: Tensor | None, bounds: list[int]) -> list[Tensor]:
        """Rows of the own shards' tables: all, or those of ascending ``ids``, which shard s has from ``bounds[s]``."""
        if ids is None:
            return [self.entities[str(shard)] for shard in self.partition.own]
        return [
            F.embedding(self._places(ids, bounds, shard), self.entities[str(shard)], sparse=self.sparse_rows)
            for shard in self.partition.own
        ]

    def compared(
        self, queries: Tensor, rows: list[Tensor], ids: Tensor | None, bounds: list[int], logq: Tensor | None
    ) -> tuple[DotProduct, Tensor, list[Tensor]]:
        """As ``Model.comparison``, of candidates of the own shards."""
        comparison = self.shared.decoder.comparison
        assert isinstance(comparison, DotProduct)
        kind = self.shared.kind_of_bias
        if kind == "none" and logq is None:
            return comparison, queries, rows
        found: list[Tensor] = []
        asked = queries
        for part, shard in zip(rows, self.partition.own, strict=True):
            bias = part.new_zeros(len(part)) if logq is None else -logq[bounds[shard] : bounds[shard + 1]]
            if kind != "none":
                table = self.bias[str(shard)]
                bias = bias + (table if ids is None else table[self._places(ids, bounds, shard)])
            if kind == "distance":
                bias = bias - 0.5 * part.square().sum(1)
            _, asked, candidates = comparison.with_bias(queries, part, bias)
            found.append(candidates)
        return comparison, asked, found

    def whole(self) -> dict[str, Tensor]:
        """Every tensor of the ``Model`` that this is, on every rank: the tables gathered."""
        tensors = {
            name: tensor for name, tensor in self.shared.state_dict().items() if name not in ("entities", "bias")
        }
        counts = [self.partition.size(shard) for shard in range(self.partition.num_shards)]
        for name, tables in (("entities", self.entities), ("bias", self.bias)):
            if len(tables):
                own = [tables[str(shard)].detach() for shard in self.partition.own]
                tensors[name] = torch.cat(self.partition.rows_by_shard(own, counts))
        return tensors

    def _places(self, ids: Tensor, bounds: list[int], shard: int) -> Tensor:
        return ids[bounds[shard] : bounds[shard + 1]] - self.partition.offsets[shard]


def _seed(seed: int, *place: int) -> int:
    return int(np.random.SeedSequence([seed, 5, *place]).generate_state(1, np.uint64)[0] >> np.uint64(1))

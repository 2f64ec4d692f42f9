"""No encoder: the embeddings go to the decoder as they are."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.nn.contracts import Encoder
from tuckerkg.ranges import Dropout


class NoEncoder(nn.Module, Encoder):
    """Passes entities and relations on, so that every decoder also runs alone.

    Args:
        output_dropout: on the entities, heads and candidates alike, as after an encoder's layer.
    """

    uses_graph = False
    depth = 0

    def __init__(
        self, dim: int, relation_dim: int, num_relations: int | None = None, *, output_dropout: Dropout = 0.0
    ) -> None:
        super().__init__()
        self.out_dim, self.out_relation_dim = dim, relation_dim
        self.output_dropout = output_dropout

    def forward(self, graph: MessageGraph | None, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``entities`` and ``relations`` themselves, but for dropout."""
        return F.dropout(entities, self.output_dropout, self.training), relations

"""No encoder: the embeddings go to the decoder as they are."""

from __future__ import annotations

from torch import Tensor, nn

from tuckerkg.graph import MessageGraph, Normalise, Order


class NoEncoder(nn.Module):
    """Passes entities and relations on unchanged, so that every decoder also runs alone."""

    uses_graph = False
    normalise: Normalise = "relation"
    order: Order = "source"

    def __init__(self, dim: int, relation_dim: int, num_relations: int | None = None) -> None:
        super().__init__()
        self.out_dim, self.out_relation_dim = dim, relation_dim

    def forward(self, graph: MessageGraph | None, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Returns ``entities`` and ``relations`` themselves."""
        return entities, relations

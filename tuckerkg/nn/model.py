"""Entity and relation embeddings with an encoder and a decoder, and the scorer made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.errors import SettingsError
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.kernels.comparison import Comparison
from tuckerkg.nn.contracts import Decoder, Encoder

Bias = Literal["none", "free", "distance"]


@dataclass(frozen=True)
class ParameterCounts:
    """Free parameters as the paper counts them."""

    efp: int  # embeddings: N d_e + 2 R d_r, and N biases where there are any
    nfp: int  # everything else
    enfp: int  # the encoder's part of nfp

    def as_dict(self) -> dict[str, int]:
        """For JSON."""
        return {"efp": self.efp, "nfp": self.nfp, "enfp": self.enfp}


class Model(nn.Module):
    """Embeddings, encoder and decoder: encode entities, make a query of (head, relation), compare it with candidates.

    The relation table has 2R rows, relation r's inverse at r + R; users never see the second half.

    Args:
        bias: "free" adds a learnt number per candidate to its scores; "distance" also subtracts half its squared
            length: a dot product then ranks as the distance does, since ``-|q - t|^2 / 2`` is ``q . t - |t|^2 / 2``
            plus a part of the query alone.
        init_std: standard deviation of the embeddings at the start.
    """

    encoder: Encoder
    decoder: Decoder

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        dim: int,
        relation_dim: int,
        encoder: Encoder,
        decoder: Decoder,
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
        """Initialize the two tables: normal with deviation ``init_std``. Biases start at 0."""
        nn.init.normal_(self.entities, std=self.init_std)
        nn.init.normal_(self.relations, std=self.init_std)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def hold(self, entities: Tensor, bias: Tensor | None = None) -> None:
        """Take the table ``entities [N, d]`` itself, and the biases ``[N]``, to be asked and never trained."""
        self.num_entities = len(entities)
        self.entities = nn.Parameter(entities, requires_grad=False)
        if self.bias is not None and bias is not None:
            self.bias = nn.Parameter(bias, requires_grad=False)

    def rows(self, entity_ids: Tensor | None) -> Tensor:
        """Rows of the entity table ``[M, d]``: all, or ``entity_ids``."""
        if entity_ids is None:
            return self.entities
        return F.embedding(entity_ids, self.entities, sparse=self.sparse_rows)

    def encode(self, graph: MessageGraph | None, entity_ids: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Encode entities ``[M, d]`` (all, or ``entity_ids``) and relations ``[2R, d_r]``."""
        return self.encoder(graph, self.rows(entity_ids), self.relations)

    def comparison(
        self, queries: Tensor, entities: Tensor, ids: Tensor | slice | None = None, logq: Tensor | None = None
    ) -> tuple[Comparison, Tensor, Tensor]:
        """The comparison to use, and the queries and candidates to give to it.

        Args:
            queries: ``[B, d_q]``.
            entities: encoded candidates ``[M, d]``, which are the entities ``ids`` (None: all).
            logq: subtracted from the candidates' scores, ``[M]``.
        """
        bias = self.candidate_bias(entities, ids)
        if bias is None and logq is None:
            return self.decoder.comparison, queries, entities
        if logq is not None:
            bias = -logq if bias is None else bias - logq
        assert bias is not None
        return self.decoder.comparison.with_bias(queries, entities, bias)

    def candidate_bias(self, entities: Tensor, ids: Tensor | slice | None = None) -> Tensor | None:
        """What is added to the scores of encoded candidates ``[M, d]``, the entities ``ids`` (None: all): ``[M]``."""
        if self.bias is None:
            return None
        bias = self.bias if ids is None else self.bias[ids]
        return bias - 0.5 * entities.square().sum(1) if self.kind_of_bias == "distance" else bias

    def message_graph(self, train: np.ndarray) -> MessageGraph | None:
        """The messages of evaluation and prediction: all training triples and their inverses."""
        graph = message_graph_of(self.encoder, train, self.num_entities, self.num_relations)
        return None if graph is None else graph.to(self.entities.device)

    def counts(self) -> ParameterCounts:
        """#EFP, #NFP and #ENFP of the paper's tables."""
        sizes = {name: parameter.numel() for name, parameter in self.named_parameters()}
        encoder, decoder = (
            sum(size for name, size in sizes.items() if name.startswith(f"{part}.")) for part in ("encoder", "decoder")
        )
        return ParameterCounts(sum(sizes.values()) - encoder - decoder, encoder + decoder, encoder)


def message_graph_of(encoder: Encoder, train: np.ndarray, num_entities: int, num_relations: int) -> MessageGraph | None:
    """The messages of all training triples ``[n, 3]`` and their inverses, where ``encoder`` sends any."""
    if not encoder.uses_graph:
        return None
    edges = torch.from_numpy(add_inverses(train, num_relations))
    return MessageGraph.of(edges, num_entities, encoder.normalize, order="fewest")


def choose_device(name: str) -> torch.device:
    """``auto`` is CUDA where there is one, else the CPU.

    Raises:
        SettingsError: this machine has no such device, or its PyTorch cannot use it.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch uses both to say that a device is not there
        cause = str(error).strip().partition("\n")[0]
        raise SettingsError(
            f"train.device: {name!r} cannot be used here ({cause}); set train.device to cpu, or to auto, which takes a "
            "GPU where there is one"
        ) from error
    return device


def device_to_answer(name: str) -> torch.device:
    """The device that a run was trained on, or what there is where it is opened."""
    try:
        return choose_device(name)
    except SettingsError:
        return choose_device("auto")

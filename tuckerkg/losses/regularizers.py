"""Penalties on the vectors of a batch, added to its loss. Each is a name and a weight in the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.batches.batch import Batch
from tuckerkg.nn.contracts import Decoder, HasRelationMatrices


@dataclass(frozen=True)
class BatchVectors:
    """What a penalty may look at.

    Attributes:
        batch: the queries and their positives.
        embeddings: the entity embeddings that the batch uses ``[M', d_e]``, before the encoder.
        relation_embeddings: all relation embeddings ``[2R, d_r]``, before the encoder.
        heads, queries: vectors of each query, ``[B, d]`` and ``[B, d_q]``.
        candidates: encoded candidates, ``[M, d]``.
        relations: all encoded relations, ``[2R, d_r]``.
    """

    batch: Batch
    embeddings: Tensor
    relation_embeddings: Tensor
    heads: Tensor
    queries: Tensor
    candidates: Tensor
    relations: Tensor

    def mean_over_triples(self, per_query: Tensor, per_candidate: Tensor) -> Tensor:
        """The mean over positives of a number per query ``[B]`` plus a number per tail ``[M]``.

        The more triples a vector is part of, the more it is penalized.
        """
        counts = (self.batch.offsets[1:] - self.batch.offsets[:-1]).to(per_query.dtype)
        tails = torch.bincount(self.batch.positives, minlength=len(per_candidate)).to(per_candidate.dtype)
        return (counts @ per_query + tails @ per_candidate) / max(self.batch.positives.numel(), 1)


class Regularizer(Protocol):
    """A penalty, constructed as ``Regularizer(weight, decoder)`` with a decoder that has what it ``needs``."""

    needs: type = object

    def __call__(self, vectors: BatchVectors) -> Tensor:
        """The penalty of a batch, ``weight`` included."""
        ...


class L2(Regularizer):
    """Mean square of the embeddings that a batch uses, as the paper's text has it."""

    def __init__(self, weight: float, decoder: Decoder) -> None:
        self.weight = weight

    def __call__(self, vectors: BatchVectors) -> Tensor:
        """Of entities and relations, before the encoder."""
        return self.weight * (vectors.embeddings.square().mean() + vectors.relation_embeddings.square().mean())


class L2Encoded(Regularizer):
    """Mean square of the encoder's output, as the authors' code has it."""

    def __init__(self, weight: float, decoder: Decoder) -> None:
        self.weight = weight

    def __call__(self, vectors: BatchVectors) -> Tensor:
        """Of candidates and relations."""
        return self.weight * (vectors.candidates.square().mean() + vectors.relations.square().mean())


class Orthogonality(Regularizer):
    """Keeps relation matrices near rotations (MEIM, Tran and Takasu 2022): the mean of ``|W_r^T W_r - I|_F^2 / d``.

    For decoders that have a matrix per relation.
    """

    needs = HasRelationMatrices

    def __init__(self, weight: float, decoder: HasRelationMatrices) -> None:
        self.weight = weight
        self.matrices: Callable[[Tensor], Tensor] = decoder.relation_matrices

    def __call__(self, vectors: BatchVectors) -> Tensor:
        """Over the relations of the batch."""
        matrices = self.matrices(F.embedding(vectors.batch.groups.used, vectors.relations))  # [R', d, d]
        eye = torch.eye(matrices.shape[2], dtype=matrices.dtype, device=matrices.device)
        excess = matrices.mT @ matrices - eye
        return self.weight * excess.square().sum((1, 2)).mean() / matrices.shape[2]


class N3(Regularizer):
    """Lacroix et al. (2018): ``|h|_3^3 + |e_r|_3^3 + |t|_3^3``."""

    def __init__(self, weight: float, decoder: Decoder) -> None:
        self.weight, self.magnitudes = weight, decoder.magnitudes

    def __call__(self, vectors: BatchVectors) -> Tensor:
        """Cubed 3-norms, averaged over triples."""
        relations = F.embedding(vectors.batch.relation_ids, vectors.relations)
        heads, relations, tails = (self.magnitudes(part) for part in (vectors.heads, relations, vectors.candidates))
        query = heads.abs().pow(3).sum(1) + relations.abs().pow(3).sum(1)
        return self.weight * vectors.mean_over_triples(query, tails.abs().pow(3).sum(1))


class DURA(Regularizer):
    """Zhang et al. (2020), one direction: ``|q|_2^2 + |t|_2^2`` with the query q that meets the tail.

    The other direction's half is that of the inverse relation's queries, which are trained as well.
    """

    def __init__(self, weight: float, decoder: Decoder) -> None:
        self.weight, self.magnitudes = weight, decoder.magnitudes

    def __call__(self, vectors: BatchVectors) -> Tensor:
        """Squared 2-norms, averaged over triples."""
        queries, tails = self.magnitudes(vectors.queries), self.magnitudes(vectors.candidates)
        return self.weight * vectors.mean_over_triples(queries.square().sum(1), tails.square().sum(1))


REGULARIZERS: dict[str, type[Regularizer]] = {
    "l2": L2,
    "l2_encoded": L2Encoded,
    "orthogonality": Orthogonality,
    "n3": N3,
    "dura": DURA,
}

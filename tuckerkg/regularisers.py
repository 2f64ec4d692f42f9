"""Penalties on the vectors of a batch's triples, averaged over the positives: the more frequent, the more penalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tuckerkg.options import NonNegativeFloat


@dataclass(frozen=True)
class Triples:
    """A batch's vectors: ``heads [B, d]``, ``relations [B, d_r]``, ``queries [B, d_q]``, and all ``candidates [M, d]``.

    Query b stands for ``counts[b]`` triples; ``positives [K]`` are the candidates that are their tails.
    """

    heads: Tensor
    relations: Tensor
    queries: Tensor
    candidates: Tensor
    counts: Tensor
    positives: Tensor

    def mean(self, per_query: Tensor, per_candidate: Tensor) -> Tensor:
        """The mean over triples of a number per query ``[B]`` plus a number per tail ``[M]``."""
        tails = torch.bincount(self.positives, minlength=len(per_candidate)).to(per_candidate.dtype)
        return (self.counts @ per_query + tails @ per_candidate) / max(self.positives.numel(), 1)


class Regulariser(Protocol):
    """A penalty."""

    weight: float

    def __call__(self, triples: Triples) -> Tensor:
        """The penalty of a batch, ``weight`` included."""


class NoRegulariser:
    """No penalty."""

    def __init__(self) -> None:
        self.weight = 0.0

    def __call__(self, triples: Triples) -> Tensor:
        """Zero."""
        return triples.queries.new_zeros(())


class N3:
    """Lacroix et al. (2018): ``|h|_3^3 + |e_r|_3^3 + |t|_3^3``."""

    def __init__(self, *, weight: NonNegativeFloat = 0.0) -> None:
        self.weight = weight

    def __call__(self, triples: Triples) -> Tensor:
        """Cubed 3-norms."""
        query = triples.heads.abs().pow(3).sum(1) + triples.relations.abs().pow(3).sum(1)
        return self.weight * triples.mean(query, triples.candidates.abs().pow(3).sum(1))


class DURA:
    """Zhang et al. (2020), one direction: ``|q|_2^2 + |t|_2^2`` with the query q that meets the tail.

    The other direction's half is that of the inverse relation's queries, which are trained as well.
    """

    def __init__(self, *, weight: NonNegativeFloat = 0.0) -> None:
        self.weight = weight

    def __call__(self, triples: Triples) -> Tensor:
        """Squared 2-norms."""
        return self.weight * triples.mean(triples.queries.square().sum(1), triples.candidates.square().sum(1))


REGULARISERS = {
    "none": NoRegulariser,
    "n3": N3,
    "dura": DURA,
}

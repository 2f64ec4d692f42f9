"""The contracts that carry the package. N entities, R relations, M candidates, B questions.

    Scorer.scores(heads [B], relation_ids [B]) -> scores [B, N]
    Encoder(graph, entities [M, d_e], relations [2R, d_r]) -> entities [M, d_o], relations [2R, d_p]
    Decoder.query(heads, relations, relation_ids) -> queries [B, d_q]; Decoder.comparison(queries, candidates) -> scores
    Loss.chunk(scores [b, M], rows, positives) -> value, gradient [b, M]

Relation ids run to 2R: relation r's inverse is r + R, so that heads are asked for as tails of the inverse. Whatever
ranks, predicts, calibrates, explains or serves knows a Scorer and nothing behind it. What only some scorers can do is a
protocol of its own below, checked with ``isinstance`` where it is needed.

The protocols carry defaults: subclass them beside ``nn.Module`` and write only what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from tuckerkg.graph.message_graph import MessageGraph, Normalize, Order
from tuckerkg.graph.row_groups import RowGroups
from tuckerkg.graph.strongest_paths import WeighedPath
from tuckerkg.kernels.comparison import Comparison
from tuckerkg.kernels.dot_product import DotProduct
from tuckerkg.types import Precision

FIT_QUESTIONS = 20_000  # to fit probabilities on; fewer where each costs much


@runtime_checkable
class Scorer(Protocol):
    """Scores every entity as the answer to a question."""

    num_entities: int  # N
    num_relations: int  # R, without inverses

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """Raw scores, before any sigmoid: ``heads [B]``, ``relation_ids [B]`` below 2R -> ``[B, N]``."""
        ...


@runtime_checkable
class SlowToAsk(Protocol):
    """A scorer whose questions may cost much: probabilities are fitted on ``fit_questions``, at most."""

    @property
    def fit_questions(self) -> int:
        """``FIT_QUESTIONS`` where they do not."""
        ...


def fit_questions(scorer: Scorer) -> int:
    """How many questions to fit probabilities on, at most."""
    return scorer.fit_questions if isinstance(scorer, SlowToAsk) else FIT_QUESTIONS


def is_slow(scorer: Scorer) -> bool:
    """Whether questions cost so much that fewer are asked."""
    return fit_questions(scorer) < FIT_QUESTIONS


@runtime_checkable
class HasVectors(Protocol):
    """A scorer with a vector per entity and relation."""

    def vectors(self, what: Literal["encoded", "entities", "relations"] = "encoded") -> Tensor:
        """Vectors ``[N, d]`` of entities, after or before the encoder, or of relations and inverses ``[2R, d_r]``."""
        ...


@runtime_checkable
class ReadsEdges(Protocol):
    """A scorer whose scores depend on the edges of the training graph, so that edges can be taken out of it."""

    @property
    def reads_edges(self) -> bool:
        """False where this scorer could read edges and does not, as a decoder without encoder."""
        ...

    def without(self, rows: Sequence[int]) -> Scorer:
        """The same scorer over the training graph without the facts in ``rows``."""
        ...

    def important_edges(self, head: int, relation: int, tail: int, count: int) -> list[tuple[int, float]]:
        """The ``count`` facts that carry most of a score: rows of the training triples, and the log share lost."""
        ...


@runtime_checkable
class AnswersOtherGraphs(Protocol):
    """A scorer without parameters of its own for entities, so that its weights answer for any graph."""

    @property
    def answers_other_graphs(self) -> bool:
        """False where this scorer could and does not, as a blend with a member that has a vector per entity."""
        ...

    def on(self, train: np.ndarray, num_entities: int) -> Scorer:
        """The same weights over other facts ``[n, 3]``; ids of relations mean what they mean here."""
        ...


@runtime_checkable
class NamesPaths(Protocol):
    """A scorer whose scores come along paths of the graph."""

    @property
    def names_paths(self) -> bool:
        """False where this scorer could name paths and cannot, as a blend none of whose members does."""
        ...

    def strongest_paths(self, head: int, relation: int, tail: int, count: int) -> list[WeighedPath]:
        """The ``count`` paths that carried most of a score, heaviest first."""
        ...


class Encoder(Protocol):
    """Turns embeddings into vectors that know their neighbourhood.

    Constructed as ``Encoder(dim, relation_dim, num_relations, **options)``, where ``num_relations`` counts inverses and
    options are keyword-only arguments.

    Attributes:
        out_dim, out_relation_dim: widths of the output.
        uses_graph: False if messages are never read, so that none are prepared.
        normalize: what a message is divided by, see ``MessageGraph.of``.
        order: "source" if single messages are needed in training, as batch norm over messages does.
        depth: how many edges a message travels.
    """

    out_dim: int
    out_relation_dim: int
    uses_graph: bool = True
    normalize: Normalize = "relation"
    order: Order = "source"
    depth: int = 1

    def __call__(self, graph: MessageGraph | None, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Encode. ``graph`` None means a phase of training without messages."""
        ...

    def init_from_data(self, entities: Tensor) -> None:
        """Adapt batch norms so that ``entities [N, d]``, trained without the encoder, pass unchanged at first."""


class Decoder(Protocol):
    """Scores triples from vectors: a query is made of head and relation and compared with candidate tails.

    Constructed as ``Decoder(dim, relation_dim, **options)`` with the encoder's output widths.
    """

    comparison: Comparison = DotProduct()

    def query(self, heads: Tensor, relations: Tensor, relation_ids: Tensor, groups: RowGroups | None = None) -> Tensor:
        """Make queries ``[B, d_q]`` of ``heads [B, d]``, the table ``relations [2R, d_r]`` and ``relation_ids [B]``.

        The whole table and ids are given rather than gathered vectors, so that work can be done once per distinct
        relation; ``groups`` are the rows of ``relation_ids`` grouped by relation, where they are at hand.
        """
        ...

    def magnitudes(self, rows: Tensor) -> Tensor:
        """What a norm of ``rows [B, d]`` is taken over: the numbers themselves, or moduli of complex numbers."""
        return rows

    def set_precision(self, precision: Precision) -> None:
        """Compute the queries of a training step in ``precision``, where that is supported."""


@runtime_checkable
class HasRelationMatrices(Protocol):
    """A decoder that multiplies the head by a matrix of the relation."""

    def relation_matrices(self, relations: Tensor) -> Tensor:
        """``[n, d_r] -> [n, d, d]``."""
        ...


class Loss(Protocol):
    """Turns a chunk of scores into a value and the gradient of the scores.

    Attributes:
        marks_known: whether every known training tail of a query counts as a positive, not only the batch's own.
        correction: how a sample of candidates makes up for those left out: "logq" subtracts the log of the
            inclusion probability from the scores, "importance" weights each candidate by its inverse, "none" does
            neither.
    """

    marks_known: bool = False
    correction: Literal["logq", "importance", "none"] = "none"

    def chunk(
        self, scores: Tensor, rows: Tensor, positives: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """``scores [b, M]`` with positives at ``[rows, positives]`` -> summed loss, gradient ``[b, M]``.

        May overwrite ``scores``. ``weights [M]`` are the importance weights of a sample, else None.
        """
        ...

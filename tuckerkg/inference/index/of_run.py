"""The index of a run: whether it can have one, what it is made of, and the search that uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.answers.search import Search
from tuckerkg.inference.index.candidates import CandidateIndex, Quality, import_faiss, stored_index
from tuckerkg.inference.index.search import MEASURED, Candidates, IndexedSearch, measured
from tuckerkg.kernels.dot_product import DotProduct
from tuckerkg.nn.contracts import Scorer
from tuckerkg.nn.embedding_scorer import EmbeddingScorer
from tuckerkg.probability.features import GraphFacts

if TYPE_CHECKING:
    from tuckerkg.inference.run import Run

INDEXED_FROM = 10**7  # entities from which on an index is used where nothing is said


class RunIndex:
    """An index over the candidates of a run.

    Raises:
        TuckerkgError: it has no candidates that are compared by a dot product, or faiss is not installed.
    """

    quality: Quality

    def __init__(self, run: Run) -> None:
        import_faiss()
        scorer = run.scorer
        if not isinstance(scorer, EmbeddingScorer) or run.graph is not None:
            raise TuckerkgError(
                f"{run.path}: an index is of the vectors of a run with embeddings, and this one asks in another way; "
                "leave out --index"
            )
        if type(scorer.model.decoder.comparison) is not DotProduct:
            raise TuckerkgError(
                f"{run.path}: the decoder {run.settings.decoder.name} compares by a distance, and an index finds the "
                "largest dot products; leave out --index"
            )
        self.candidates = Candidates(scorer)
        made_of = {"checkpoint": run.folder.checkpoints.sealed(run.step).fingerprint, "version": run.version}
        self.index, self.quality = stored_index(
            run.path,
            f"step-{run.step:08d}-version-{run.version:04d}",
            made_of,
            lambda: self.candidates.vectors,
            lambda index: self._measured(index, run.split("train")),
        )

    def _measured(self, index: CandidateIndex, train: np.ndarray) -> dict[str, object]:
        return measured(self.candidates, index, some_questions(train, self.candidates.scorer.num_relations))

    def search(self, scorer: Scorer, graph: GraphFacts) -> Search:
        """As ``AnswerFinder`` wants one."""
        return IndexedSearch(self.candidates, self.index, graph)


def is_large(run: Run) -> bool:
    """Whether an index is used where nothing is said."""
    return len(run.entities) >= INDEXED_FROM


def some_questions(train: np.ndarray, num_relations: int) -> Tensor:
    """Questions ``[Q, 2]`` about random facts, half of them for the head."""
    rows = np.random.default_rng(0).permutation(len(train))[: 2 * MEASURED]
    heads, relation_ids, tails = torch.from_numpy(train[rows]).unbind(1)
    turned = torch.arange(len(rows)) % 4 > 1  # of each half, where every second one belongs to it
    return torch.stack([torch.where(turned, tails, heads), relation_ids + num_relations * turned.long()], 1)

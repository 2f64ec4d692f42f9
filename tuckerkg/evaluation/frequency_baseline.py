"""The baseline that answers with a relation's most frequent entities."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.triple_sets import add_inverses
from tuckerkg.evaluation.metrics import summarize
from tuckerkg.evaluation.ranking import rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.nn.contracts import Scorer


class FrequencyScorer(Scorer):
    """Scores an entity by how often training has it as the relation's answer."""

    def __init__(self, train: np.ndarray, num_entities: int, num_relations: int) -> None:
        self.num_entities, self.num_relations = num_entities, num_relations
        both = add_inverses(train, num_relations)
        keys, counts = np.unique(both[:, 1] * num_entities + both[:, 2], return_counts=True)  # sorted by relation
        self.offsets = np.searchsorted(keys, np.arange(2 * num_relations + 1) * num_entities)
        self.tails, self.counts = torch.from_numpy(keys % num_entities), torch.from_numpy(counts).float()

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """The same for every head of a relation."""
        found = torch.zeros(len(heads), self.num_entities)
        for row, relation in enumerate(relation_ids.tolist()):
            part = slice(int(self.offsets[relation]), int(self.offsets[relation + 1]))
            found[row, self.tails[part]] = self.counts[part]
        return found


def frequency_mrr(dataset: Dataset) -> float | None:
    """Test MRR of each relation's most frequent answers; None without a test split."""
    if not len(dataset.test):
        return None
    num_relations = len(dataset.relations)
    known = KnownTails.from_splits([dataset.train, dataset.valid, dataset.test], num_relations)
    scorer = FrequencyScorer(dataset.train, len(dataset.entities), num_relations)
    return guessing_mrr(scorer, dataset.test, known)


def guessing_mrr(scorer: FrequencyScorer, held_out: np.ndarray, known: KnownTails) -> float:
    """MRR of each relation's most frequent answers on ``held_out [n, 3]``, filtered by ``known``."""
    ranks = rank(scorer, held_out, known)
    return summarize(ranks.random(0), ranks.candidates, (1,)).mrr

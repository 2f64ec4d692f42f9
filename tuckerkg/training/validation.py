"""Ranking the validation split during training."""

from __future__ import annotations

import numpy as np

from tuckerkg.config.build import AnyModel, build_scorer
from tuckerkg.config.settings import Settings
from tuckerkg.evaluation.metrics import Evaluation, Flags, evaluation_of
from tuckerkg.evaluation.protocol import describe_protocol, seen_entities
from tuckerkg.evaluation.ranking import Ranks, rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.types import ProgressFunction


class Validation:
    """Ranks the validation split or a part of it, filtered by train and valid: the test split is not opened.

    Args:
        splits: triples ``[n, 3]`` of train and valid.
        relations: relation labels.

    Attributes:
        has_questions: False where the split is empty, so that there is nothing to rank.
    """

    def __init__(
        self, splits: dict[str, np.ndarray], relations: list[str], settings: Settings, model: AnyModel
    ) -> None:
        self.settings, self.model, self.splits, self.relations = settings, model, splits, relations
        self.known = KnownTails.from_splits(list(splits.values()), model.num_relations)
        self.graph = model.message_graph(splits["train"])
        self.asked = some_triples(splits["valid"], settings.train.validate_on)
        self.has_questions = len(self.asked) > 0
        self.seen: Flags = seen_entities(splits["train"], model.num_entities)
        self.protocol = describe_protocol(
            splits,
            split="valid",
            filtered_by=["train", "valid"],
            tie_seed=settings.evaluate.tie_seed,
            num_entities=model.num_entities,
        )

    def __call__(self, progress: ProgressFunction | None = None) -> Evaluation:
        """Encode once and rank."""
        return evaluation_of(
            self.ranks(progress),
            split="valid",
            seen=self.seen,
            relation_names=self.relations,
            protocol=self.protocol,
            hits=self.settings.evaluate.hits,
            tie_seed=self.settings.evaluate.tie_seed,
        )

    def ranks(self, progress: ProgressFunction | None) -> Ranks:
        """Of the questions that are asked."""
        scorer = build_scorer(self.model, self.splits["train"], self.graph)
        return rank(scorer, self.asked, self.known, progress=progress)


def some_triples(triples: np.ndarray, most: int) -> np.ndarray:
    """Random rows, the same whenever they are asked for, whatever the seed of training; 0: all."""
    if not most or most >= len(triples):
        return triples
    return np.asarray(triples[np.sort(np.random.default_rng(0).permutation(len(triples))[:most])])

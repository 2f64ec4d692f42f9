"""Ranking the validation split during training, and the graph that the encoder sees then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tuckerkg.checkpoint import RunFolder
from tuckerkg.config import Settings
from tuckerkg.evaluate import Evaluation, describe_protocol, known_answers, rank, report
from tuckerkg.graph import MessageGraph
from tuckerkg.model import Model
from tuckerkg.triples import add_inverses


class Validation:
    """Ranks the validation split, filtered by train and valid: the test split is not opened."""

    def __init__(self, folder: RunFolder, settings: Settings, model: Model) -> None:
        self.settings, self.model = settings, model
        self.splits = {name: folder.split(name) for name in ("train", "valid")}
        self.relation_names = folder.relations()
        num_relations = len(self.relation_names)
        self.known = known_answers(list(self.splits.values()), num_relations).to(model.entities.device)
        self.graph = whole_message_graph(model, self.splits["train"])
        self.seen = seen_entities(self.splits["train"], model.num_entities)
        self.protocol = describe_protocol(
            self.splits,
            split="valid",
            filtered_by=["train", "valid"],
            tie_seed=settings.evaluate.tie_seed,
            num_entities=model.num_entities,
        )

    def __call__(self, tick: Callable[[int, int], None] | None = None) -> Evaluation:
        """Encodes once and ranks."""
        model, evaluate = self.model, self.settings.evaluate
        encoded = model.encoded(self.graph)
        ranks = rank(
            encoded.scores, self.splits["valid"], self.known, model.num_entities, model.num_relations, tick=tick
        )
        return report(
            ranks,
            split="valid",
            seen=self.seen,
            relation_names=self.relation_names,
            protocol=self.protocol,
            hits=evaluate.hits,
            tie_seed=evaluate.tie_seed,
        )


def whole_message_graph(model: Model, train: np.ndarray) -> MessageGraph | None:
    """The messages at evaluation and prediction: all training triples and their inverses."""
    encoder: Any = model.encoder
    if not encoder.uses_graph:
        return None
    edges = torch.from_numpy(add_inverses(train, model.num_relations))
    return MessageGraph.of(edges, model.num_entities, encoder.normalise, order="fewest").to(model.entities.device)


def seen_entities(train: np.ndarray, num_entities: int) -> np.ndarray:
    """Which entities occur in training, ``[N]``."""
    seen = np.zeros(num_entities, dtype=bool)
    seen[train[:, 0]] = True
    seen[train[:, 2]] = True
    return seen

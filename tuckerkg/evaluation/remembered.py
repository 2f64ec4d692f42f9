"""Scores that are kept, where the same questions are asked of a scorer several times."""

from __future__ import annotations

import torch
from torch import Tensor

from tuckerkg.nn.contracts import Scorer, fit_questions

MOST_BYTES = 2**29


class RememberedScores(Scorer):
    """Asks ``scorer`` every question once, as long as there is room; what it gives must not be overwritten.

    Args:
        scorer: one whose scores of a question do not depend on the questions beside it.
        most_bytes: of scores that are kept.
    """

    def __init__(self, scorer: Scorer, most_bytes: int = MOST_BYTES) -> None:
        self.scorer, self.room = scorer, most_bytes
        self.num_entities, self.num_relations = scorer.num_entities, scorer.num_relations
        self.fit_questions = fit_questions(scorer)
        self._rows: dict[tuple[int, int], Tensor] = {}

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """As ``scorer`` gives them, ``[B, N]``."""
        keys = list(zip(heads.tolist(), relation_ids.tolist(), strict=True))
        new = torch.tensor([place for place, key in enumerate(keys) if key not in self._rows], dtype=torch.long)
        found = self.scorer.scores(heads[new], relation_ids[new]) if len(new) else None
        if found is not None and len(new) == len(keys):
            self._keep(keys, found)
            return found
        rows = [self._rows.get(key) for key in keys]
        if found is not None:
            for place, row in zip(new.tolist(), found, strict=True):
                rows[place] = row
            self._keep([keys[place] for place in new.tolist()], found)
        return torch.stack([row for row in rows if row is not None])

    def _keep(self, keys: list[tuple[int, int]], found: Tensor) -> None:
        for key, row in zip(keys, found, strict=True):
            size = row.numel() * row.element_size()
            if key not in self._rows and size <= self.room:
                self._rows[key] = row.clone()
                self.room -= size

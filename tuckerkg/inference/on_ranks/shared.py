"""A run that every rank opens whole, where its scores are the work: ranks divide the questions.

Models that start from the question, blends of runs, decoders that compare by a distance and versions with added facts
have no table that could lie in shards. Each rank scores some questions and all get all scores, so that whatever asks a
scorer works on ranks as it does in one process.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.on_ranks.stored import calibration_on_ranks
from tuckerkg.inference.run import Run
from tuckerkg.nn.contracts import ReadsEdges, Scorer, fit_questions
from tuckerkg.probability.calibration import Calibration
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.loop import check_same
from tuckerkg.storage.checkpoints import Which
from tuckerkg.storage.run_folder import RunFolder

AT_ONCE = 16  # questions that one rank scores together, whatever the number of ranks: so are their last bits


class SharedScorer(Scorer):
    """Scores by turns: the first ``AT_ONCE`` questions of a call are those of the first rank, and so on."""

    def __init__(self, scorer: Scorer, group: Group) -> None:
        self.scorer, self.group = scorer, group
        self.num_entities, self.num_relations = scorer.num_entities, scorer.num_relations
        self.fit_questions = fit_questions(scorer)

    def scores(self, heads: Tensor, relation_ids: Tensor) -> Tensor:
        """The same on every rank, all of which call it with the same questions: ``[B, N]``."""
        size = self.group.size
        turns = torch.arange(len(heads)) // AT_ONCE % size
        own = [
            self.scorer.scores(*part).cpu()
            for part in zip(
                *(ids[turns == self.group.rank].split(AT_ONCE) for ids in (heads, relation_ids)), strict=True
            )
        ]
        counts = [int((turns == rank).sum()) for rank in range(size)]
        rows = torch.cat([*own]) if own else torch.empty(0, self.num_entities)
        found = self.group.gather_rows(rows, counts)
        if size == 1:
            return found[0]
        out = found[0].new_empty(len(heads), self.num_entities)
        for rank, part in enumerate(found):
            out[turns == rank] = part
        return out

    @property
    def reads_edges(self) -> bool:
        """As the scorer that is shared."""
        return isinstance(self.scorer, ReadsEdges) and self.scorer.reads_edges

    def without(self, rows: range) -> SharedScorer:
        """Shared too."""
        assert isinstance(self.scorer, ReadsEdges)
        return SharedScorer(self.scorer.without(rows), self.group)


class SharedRun(Run):
    """A run whose questions the ranks divide; evaluated and asked as any other, by all ranks in step."""

    def __init__(
        self,
        folder: RunFolder,
        group: Group,
        *,
        calibrated: bool = True,
        version: int | None = None,
        checkpoint: Which = "best",
    ) -> None:
        self.group, self.keeps = group, group.is_first
        check_same(group, folder)
        error: Exception | None = None
        try:
            super().__init__(folder, calibrated=calibrated, version=version, checkpoint=checkpoint)
        except (TuckerkgError, OSError) as found:
            error = found
        group.succeed(error)
        group.agree("version of the run", str(self.version))

    @cached_property
    def scorer(self) -> Scorer:
        """Shared by all ranks."""
        return SharedScorer(super().scorer, self.group)

    def _member(self, folder: RunFolder) -> Run:
        member = Run(folder, version=self.version, mapped=self.maps)
        member.keeps = self.keeps
        return member

    def _calibration(self) -> Calibration:
        """As the first rank finds it stored; else fitted by all, and stored by the first one."""
        return calibration_on_ranks(self, self.group)

"""A run that ranks open together: each reads its own shards of the entity table, and all ask in step."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tuckerkg.config.build import build_embedding_model
from tuckerkg.config.settings import settings_of_run
from tuckerkg.errors import TuckerkgError
from tuckerkg.evaluation.ranking import Ranks
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.inference.answers.search import Search
from tuckerkg.inference.on_ranks.search import ShardedSearch, WholeScores
from tuckerkg.inference.on_ranks.shared import SharedRun
from tuckerkg.inference.on_ranks.stored import calibration_on_ranks
from tuckerkg.inference.run import Run, at_version
from tuckerkg.nn.contracts import Scorer
from tuckerkg.probability.calibration import Calibration
from tuckerkg.probability.features import GraphFacts
from tuckerkg.ranks.group import Group
from tuckerkg.ranks.loop import check_same
from tuckerkg.ranks.model import ShardedModel, can_lie_in_shards
from tuckerkg.ranks.partition import SHARDS, Partition
from tuckerkg.ranks.ranking import ShardedScorer, rank_in_shards
from tuckerkg.storage.checkpoints import TABLE, WEIGHTS, Weights, Which, read_state, shard_files, shards_of
from tuckerkg.storage.mapped_tables import map_tensors, rows_in
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.storage.sealed_folder import SealedFolder
from tuckerkg.storage.versions import version_numbers
from tuckerkg.storage.weights import check_weights, restore_weights
from tuckerkg.types import ProgressFunction

TABLES = (TABLE, "bias")


class RankRun(Run):
    """A run of which this rank holds some shards; evaluated and asked as any other, by all ranks in step.

    A run that was trained in one piece is asked in 16 shards.
    """

    def __init__(
        self,
        folder: RunFolder,
        group: Group,
        *,
        calibrated: bool = True,
        checkpoint: Which = "best",
    ) -> None:
        self.group = group
        check_same(group, folder)
        self._own: dict[int, dict[str, Tensor]] = {}
        error: Exception | None = None
        try:
            super().__init__(folder, calibrated=calibrated, version=1, checkpoint=checkpoint)
        except (TuckerkgError, OSError) as found:
            error = found
        group.succeed(error)
        self.searches = self._search

    def _read(self, checkpoint: Which) -> Weights:
        checkpoints = self.folder.checkpoints
        step = checkpoints.step_of(checkpoint)
        folder = checkpoints.sealed(step)
        shards = shards_of(folder)
        self.partition = self._partition(folder, shards)
        weights = {name: tensor.clone() for name, tensor in map_tensors(folder, WEIGHTS).items() if name not in TABLES}
        self._own = {shard: self._rows(folder, shard, bool(shards)) for shard in self.partition.own}
        return Weights(step, weights, read_state(step, folder))

    def _partition(self, folder: SealedFolder, shards: list[str]) -> Partition:
        """Which entities are in which shard: as many as its file has rows; of a table in one piece, as many in each."""
        num_entities = len(self.folder.entities())
        if not shards:
            return Partition.even(num_entities, SHARDS, self.group)
        offsets = (0, *accumulate(rows_in(folder, name, TABLE) for name in shards))
        if offsets[-1] != num_entities:
            raise TuckerkgError(
                f"{self.folder.path}: has {num_entities:,} entities, and the shards of its table {offsets[-1]:,} rows; "
                "copy the whole run folder again from its origin"
            )
        if self.group.size > len(shards):
            raise TuckerkgError(
                f"{self.folder.path}: its table lies in {len(shards)} shards, and {self.group.size} ranks are to share "
                "them: each needs one at least"
            )
        return Partition(offsets, self.group)

    def _rows(self, folder: SealedFolder, shard: int, in_shards: bool) -> dict[str, Tensor]:
        """The tables of a shard."""
        if in_shards:
            return folder.read_tensors(shard_files(shard)[0])
        span = slice(*self.partition.offsets[shard : shard + 2])
        return {name: table[span].clone() for name, table in map_tensors(folder, WEIGHTS).items() if name in TABLES}

    def _check_rows(self, num_entities: int) -> None:
        width = self.settings.model.dim
        for shard, tables in self._own.items():
            rows = self.partition.size(shard)
            expected = {TABLE: ((rows, width), torch.float32)}
            if self.settings.model.bias != "none":
                expected["bias"] = ((rows,), torch.float32)  # type: ignore[assignment]
            check_weights(tables, expected)

    def _built(self, mapped: bool) -> ShardedModel:  # type: ignore[override]
        """With the own shards."""
        shared = build_embedding_model(self.settings, 0, len(self.relations))
        empty = {name: tensor for name, tensor in shared.state_dict().items() if name in TABLES}
        restore_weights(shared, {**self._weights, **empty})
        model = ShardedModel(shared, self.partition, self.settings.train.seed)
        with torch.no_grad():
            for shard, tables in self._own.items():
                for name, rows in tables.items():
                    getattr(model, name)[str(shard)].copy_(rows)
        self._own = {}
        self._sharded = model
        return model

    @cached_property
    def sharded(self) -> ShardedScorer:
        """Scores the own shards' entities."""
        model = self._sharded.cpu()
        return ShardedScorer(model, model.message_graph(self.split("train")))

    @cached_property
    def scorer(self) -> Scorer:
        """Scores of all entities, gathered; ranking and answers do without."""
        return WholeScores(self.sharded)

    def _search(self, scorer: Scorer, graph: GraphFacts) -> Search:
        return ShardedSearch(self.sharded, graph)

    def rank(
        self, scorer: Scorer, triples: np.ndarray, known: KnownTails, progress: ProgressFunction | None = None
    ) -> Ranks:
        """Every rank counts among its own."""
        return rank_in_shards(self.sharded, triples, known, progress)

    def _calibration(self) -> Calibration:
        """As the first rank finds it stored; else fitted by all, and stored by the first one."""
        return calibration_on_ranks(self, self.group)


def load_on_ranks(path: str | Path, group: Group, *, calibrated: bool = True, checkpoint: Which = "best") -> Run:
    """Open a run folder, which all ranks see: with the own shards of its entity table where it can lie in shards."""
    place, version = at_version(path)
    folder: RunFolder | None = None
    error: Exception | None = None
    try:
        folder = RunFolder.open(place)
        version = version_numbers(place)[-1] if version is None else version
    except (TuckerkgError, OSError) as found:
        error = found
    group.succeed(error)
    assert folder is not None
    if version == 1 and _can_lie_in_shards(folder):
        return RankRun(folder, group, calibrated=calibrated, checkpoint=checkpoint)
    return SharedRun(folder, group, calibrated=calibrated, version=version, checkpoint=checkpoint)


def _can_lie_in_shards(folder: RunFolder) -> bool:
    """Whether a run's model is a table of entities whose rows can be scored apart."""
    settings = settings_of_run(folder)
    if settings.kind != "embedding":
        return False
    with torch.device("meta"):
        return can_lie_in_shards(build_embedding_model(settings, 1, 1))

"""The training loop on ranks: the same steps, with the entity table in shards and one checkpoint for all."""

from __future__ import annotations

import hashlib
import json
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import torch

from tuckerkg.config.build import build_batches, build_embedding_model, build_objective
from tuckerkg.config.settings import Settings, settings_of_run
from tuckerkg.errors import SettingsError
from tuckerkg.evaluation.ranking import Ranks
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.nn.model import Model
from tuckerkg.out_of_memory import explain_out_of_memory
from tuckerkg.ranks.group import TIMEOUT, Group, joined
from tuckerkg.ranks.model import ShardedModel
from tuckerkg.ranks.objective import ShardedObjective
from tuckerkg.ranks.optimizer import ShardedOptimizer
from tuckerkg.ranks.partition import Partition
from tuckerkg.ranks.ranking import ShardedScorer, rank_in_shards
from tuckerkg.ranks.saving import Saved, newest_in_shards, save_in_shards
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import Callback, NullCallback, State
from tuckerkg.training.loop import Loop, own_random_state, smaller, threads
from tuckerkg.training.signals import Interruptions, TrainingInterrupted
from tuckerkg.training.validation import Validation
from tuckerkg.types import JsonObject, ProgressFunction
from tuckerkg.version import VERSION

TABLES = ("entities", "bias")


def fit_on_ranks(folder: RunFolder | None, callback: Callback | None = None, timeout: float = TIMEOUT) -> State:
    """Train a run, whose settings have ``ranks.shards``, with all processes that were started for it.

    One process, without ``torchrun``, is a group of one. Raises as ``fit`` does, and as below.

    Args:
        folder: the run, or None on any rank but the first: the run that the first one trains.
        timeout: seconds that a rank waits for the others.

    Raises:
        RankLostError: another rank died, or does not answer; the newest checkpoint is whole.
        TuckerkgError: the ranks have other programs, settings or data; or one of them cannot write.
    """
    with joined(timeout) as group:
        place = group.tell(None if folder is None else str(folder.path.absolute()))[0]
        folder = RunFolder.open(Path(place)) if folder is None else folder
        settings = settings_of_run(folder)
        check_same(group, folder)
        lock = folder.lock() if group.is_first else nullcontext()
        heard = callback if group.is_first and callback is not None else NullCallback()
        memory = explain_out_of_memory(lambda: smaller(folder, settings))
        count = settings.train.threads or (1 if group.size > 1 else 0)
        with lock, Interruptions() as interruptions, own_random_state(), threads(count), memory:
            try:
                return RankLoop(folder, settings, heard, interruptions, group).run()
            finally:
                heard.close()


def check_same(group: Group, folder: RunFolder) -> None:
    """Refuse ranks with another program, other settings or other data."""
    group.agree("version of tuckerkg", VERSION)
    group.agree("version of PyTorch", torch.__version__)
    group.agree("settings file", hashlib.sha256(json.dumps(folder.settings, sort_keys=True).encode()).hexdigest()[:12])
    data = [hashlib.sha256(folder.split(name).tobytes()).hexdigest() for name in ("train", "valid")]
    group.agree("training data", hashlib.sha256("".join(data).encode()).hexdigest()[:12])


class RankLoop(Loop):
    """One rank's part of the loop."""

    def __init__(
        self, folder: RunFolder, settings: Settings, callback: Callback, interruptions: Interruptions, group: Group
    ) -> None:
        self.group, self.writes = group, group.is_first
        super().__init__(folder, settings, callback, interruptions)

    def build(self) -> None:
        """Only embedding models have a table to be shared."""
        settings = self.settings
        if settings.kind != "embedding":
            raise SettingsError(
                f"kind {settings.kind}: has no entity table that ranks could share; train it without --ranks"
            )
        partition = Partition.even(len(self.folder.entities()), settings.ranks.shards, self.group)
        shared = build_embedding_model(settings, 0, len(self.relations))
        model = ShardedModel(shared, partition, settings.train.seed).to(self.device)
        self.model = model
        self.sharded = ShardedOptimizer(model, settings.train.optimizer, settings.train.lr)
        self.optimizer = self.sharded
        objective = build_objective(settings, shared)
        self.objective = ShardedObjective(objective)
        self.batches = build_batches(settings, cast("Model", model), objective.loss, self.splits["train"])
        self.validation = RankValidation(self.splits, self.relations, settings, cast("Model", model))

    def check_interruptions(self) -> None:
        """All ranks stop where one is asked to."""
        numbers = self.group.gather(torch.tensor([self.interruptions.number or 0]))
        if number := int(numbers.max()):
            raise TrainingInterrupted(number)

    def write(self, state: JsonObject) -> None:
        """Together with the other ranks."""
        model, own = self.model, self.model.partition.own
        tables = {
            shard: {
                name: table[str(shard)]
                for name, table in (("entities", model.entities), ("bias", model.bias))
                if len(table)
            }
            for shard in own
        }
        common = {key: tensor.cpu() for key, tensor in model.shared.state_dict().items() if key not in TABLES}
        shards = {shard: (tables[shard], self.sharded.of_shard(shard)) for shard in own}
        saved = Saved(self.state.step, state, common, self.sharded.of_all(), shards)
        save_in_shards(self.group, self.folder.checkpoints, saved, self.state.best_step)

    def restore(self) -> None:
        """Each rank its shards of the newest checkpoint, whoever wrote them."""
        own = self.model.partition.own
        saved = newest_in_shards(self.group, self.folder.checkpoints, own, self.callback.log)
        if saved is None:
            self.begin()
            return
        self.model.shared.load_state_dict({**saved.weights, **self._no_tables()})
        self.optimizer.restore(saved.optimizer)
        with torch.no_grad():
            for shard, (tables, optimizer) in saved.shards.items():
                for name, tensor in tables.items():
                    getattr(self.model, name)[str(shard)].copy_(tensor)
                self.sharded.restore_shard(shard, optimizer)
        self.restore_state(saved.state)

    def _no_tables(self) -> dict[str, torch.Tensor]:
        found = self.model.shared.state_dict()
        return {name: found[name] for name in TABLES if name in found}


class RankValidation(Validation):
    """Every rank counts among its own candidates."""

    def ranks(self, progress: ProgressFunction | None) -> Ranks:
        """The same on every rank."""
        graph = self.graph if isinstance(self.graph, MessageGraph) else None
        return rank_in_shards(ShardedScorer(cast("ShardedModel", self.model), graph), self.asked, self.known, progress)

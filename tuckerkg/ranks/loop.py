"""The training loop on ranks: the same steps, with the entity table in shards and one checkpoint for all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import numpy as np
import torch

from tuckerkg.batches.batch import Batch, StepBatch
from tuckerkg.config.build import build_batches, build_embedding_model, build_objective
from tuckerkg.config.settings import Settings, settings_of_run
from tuckerkg.data.shards import ShardedGraph
from tuckerkg.errors import SettingsError
from tuckerkg.evaluation.ranking import Ranks
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.nn.contracts import Loss
from tuckerkg.nn.model import Model
from tuckerkg.out_of_memory import explain_out_of_memory
from tuckerkg.ranks.facts.batches import OwnFacts, build_batches_at_owners, shards_of_graph, shards_of_triples
from tuckerkg.ranks.facts.drawing import Drawn
from tuckerkg.ranks.facts.neighbours import Neighbourhoods, SampledScorer
from tuckerkg.ranks.facts.sorted_facts import FactShard
from tuckerkg.ranks.facts.validation import SeenEntities, known_among_own, protocol_of
from tuckerkg.ranks.group import TIMEOUT, Group, joined
from tuckerkg.ranks.joined_loop import JoinedLoop, partition_of
from tuckerkg.ranks.model import ShardedModel
from tuckerkg.ranks.questions import QuestionLoop
from tuckerkg.ranks.ranking import ShardedScorer, rank_in_shards
from tuckerkg.ranks.saving import Saved, newest_in_shards, save_in_shards
from tuckerkg.ranks.steps.objective import ShardedObjective
from tuckerkg.ranks.steps.optimizer import ShardedOptimizer
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import Callback, NullCallback, State
from tuckerkg.training.loop import own_random_state, smaller, threads
from tuckerkg.training.signals import Interruptions
from tuckerkg.training.validation import Validation, some_triples
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
                kind = QuestionLoop if settings.kind == "paths" else RankLoop
                return kind(folder, settings, heard, interruptions, group).run()
            finally:
                heard.close()


def check_same(group: Group, folder: RunFolder) -> None:
    """Refuse ranks with another program, other settings or other data."""
    group.agree("version of tuckerkg", VERSION)
    group.agree("version of PyTorch", torch.__version__)
    group.agree("settings file", hashlib.sha256(json.dumps(folder.settings, sort_keys=True).encode()).hexdigest()[:12])
    if folder.graph is not None:
        group.agree("training data", folder.graph.digest[:12])
        return
    data = [hashlib.sha256(folder.split(name).tobytes()).hexdigest() for name in ("train", "valid")]
    group.agree("training data", hashlib.sha256("".join(data).encode()).hexdigest()[:12])


class RankLoop(JoinedLoop):
    """One rank's part of the loop."""

    own_facts: Sequence[FactShard] = ()
    neighbourhoods: Neighbourhoods | None = None

    def build(self) -> None:
        """A model whose table lies in shards."""
        settings = self.settings
        partition = partition_of(self.folder, settings, self.group)
        shared = build_embedding_model(settings, 0, len(self.relations))
        model = ShardedModel(shared, partition, settings.train.seed).to(self.device)
        self.model = model
        self.sharded = ShardedOptimizer(model, settings.train.optimizer, settings.train.lr)
        self.optimizer = self.sharded
        objective = build_objective(settings, shared)
        self.objective = ShardedObjective(objective)
        if self.folder.graph is None:
            self._build_in_memory(shared, objective.loss)
        else:
            self._build_at_owners(self.folder.graph, shared, objective.loss)

    def _build_in_memory(self, shared: Model, loss: Loss) -> None:
        """Batches and validation of facts that are on every rank."""
        settings, train, model = self.settings, self.splits["train"], cast("Model", self.model)
        if settings.ranks.fanout:
            partition = self.model.partition
            shards = shards_of_triples(train, partition, len(self.relations))
            facts = OwnFacts.of(shards, partition, len(self.relations))
            self.neighbourhoods = Neighbourhoods.of(settings, shared.encoder, facts)
        self.batches = build_batches(settings, model, loss, train, messages=not settings.ranks.fanout)
        self.validation = RankValidation(self.splits, self.relations, settings, model)

    def _build_at_owners(self, graph: ShardedGraph, shared: Model, loss: Loss) -> None:
        """The same of facts that are with their owners alone."""
        settings, partition = self.settings, self.model.partition
        if shared.encoder.uses_graph and not settings.ranks.fanout:
            raise SettingsError(
                f"encoder {settings.encoder.name}: sends messages along all facts, and no rank has those of a folder "
                f"of shards; give ranks.fanout, such as {[10, 5, 5][: shared.encoder.depth]}, or choose encoder none"
            )
        facts = OwnFacts.of(shards_of_graph(graph, partition), partition, len(self.relations))
        self.own_facts = facts.shards
        if settings.ranks.fanout:
            self.neighbourhoods = Neighbourhoods.of(settings, shared.encoder, facts)
        self.batches = build_batches_at_owners(settings, self.model, loss, facts)
        valid = self.splits["valid"]
        self.validation = ValidationAtOwners(
            valid, self.relations, settings, self.model, facts, graph.digest, self.neighbourhoods
        )

    def complete(self, batch: StepBatch) -> StepBatch:
        """Exchange what the own shards give to the step, where they do; not in a thread beside other exchanges."""
        if isinstance(batch, Drawn):
            batch = self.batches.join(batch)  # type: ignore[attr-defined]
        step = self.state.step
        if self.neighbourhoods is None or self.batches.schedule.at(step).messages == 0:
            return batch
        return self.neighbourhoods.add_to(cast("Batch", batch), step)

    def release_facts(self) -> None:
        """Let go of facts that are mapped, before what needs memory."""
        for shard in self.own_facts:
            for side in shard.sides:
                side.release()

    def write(self, state: JsonObject) -> None:
        """Together with the other ranks."""
        self.release_facts()
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


class ValidationAtOwners(RankValidation):
    """The same without all training facts: a rank reads those of its own candidates."""

    def __init__(
        self,
        valid: np.ndarray,
        relations: list[str],
        settings: Settings,
        model: ShardedModel,
        facts: OwnFacts,
        digest: str,
        neighbourhoods: Neighbourhoods | None,
    ) -> None:
        self.neighbourhoods = neighbourhoods
        self.settings, self.model, self.relations, self.graph = settings, cast("Model", model), relations, None
        self.asked = some_triples(valid, settings.train.validate_on)
        self.has_questions = len(self.asked) > 0
        self.known = known_among_own(facts.shards, [valid], self.asked, model.num_relations)
        self.seen = SeenEntities(facts.shards, facts.partition, self.asked[:, [0, 2]])
        self.protocol = protocol_of(valid, digest, settings, model.num_entities)

    def ranks(self, progress: ProgressFunction | None) -> Ranks:
        """The same on every rank, with sampled messages where any are sent."""
        model = cast("ShardedModel", self.model)
        near = self.neighbourhoods
        scorer = ShardedScorer(model, None) if near is None else SampledScorer(model, near)
        return rank_in_shards(scorer, self.asked, self.known, progress)

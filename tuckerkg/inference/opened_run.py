"""What a run folder holds, opened: the graph, the weights, and the scorer that they make."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tuckerkg.config.build import AnyModel, build_embedding_model, build_model, build_scorer
from tuckerkg.config.describe import describe_model
from tuckerkg.config.settings import Settings, settings_of_run
from tuckerkg.data.labels import Labels
from tuckerkg.errors import RunFolderError, TuckerkgError
from tuckerkg.evaluation.ranking import Ranks, rank
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.inference.other_graph import OtherGraph
from tuckerkg.nn.blend_scorer import BlendScorer
from tuckerkg.nn.contracts import ReadsEdges, Scorer
from tuckerkg.nn.model import ParameterCounts, choose_device, device_to_answer
from tuckerkg.storage.checkpoints import Weights, Which
from tuckerkg.storage.members import member_folders
from tuckerkg.storage.run_before import RunBefore, read_run_before
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.storage.versions import Version, read_version, version_numbers
from tuckerkg.storage.weights import check_entity_rows, check_weights, restore_weights
from tuckerkg.types import JsonObject, ProgressFunction


class OpenedRun:
    """A run folder with the weights of one checkpoint.

    Args:
        folder: the run on disk.
        version: one that ``add`` made; 1 is the run as it was trained, None the newest.
        checkpoint: whose weights to use: "best", "newest" or a step.
        scorer: what scores, where it is not the model that the settings describe.
        mapped: map the entity table instead of copying it; None: where it lies in shards and is large.

    Attributes:
        graph: the graph that it answers for, where that is not the one it was trained on.
        given_scorer: ``scorer``, or what was made of it for another graph.
    """

    graph: OtherGraph | None = None

    def __init__(
        self,
        folder: RunFolder,
        *,
        version: int | None = None,
        checkpoint: Which = "best",
        scorer: Scorer | None = None,
        mapped: bool | None = None,
    ) -> None:
        self.folder, self.maps = folder, mapped
        self.settings: Settings = settings_of_run(folder)
        if self.settings.kind in ("nodes", "graphs"):
            raise TuckerkgError(
                f"{folder.path}: puts {self.settings.kind} into classes; ask it by predict, evaluate, explain, report, "
                "compare or serve, or in Python by tuckerkg.load_class_run"
            )
        saved = self._read(checkpoint)
        self.step, self.state, self._weights = saved.step, saved.state, saved.weights
        labels, titles = folder.entities(), folder.entity_titles()
        has_table = self.settings.kind == "embedding"  # a row per entity
        if has_table:
            self._check_rows(len(labels))
        self.num_trained = len(labels)
        self.version = version_numbers(folder.path)[-1] if version is None else version
        self.added: Version | None = None
        if self.version != 1:
            self.added = read_version(folder.path, self.version)
            labels, titles = [*labels, *self.added.labels], {**titles, **self.added.titles}
            if has_table:
                self._weights = _with_rows(folder.path, self._weights, self.added, self.step)
        self.entities = Labels("entity", labels, titles)
        self.relations = Labels("relation", folder.relations(), folder.relation_titles())
        self.members: tuple[OpenedRun, ...] = self._opened_members() if self.settings.kind == "blend" else ()
        self._model: AnyModel | None = None
        if not self.members:
            self._model = self._built(saved.mapped and self.added is None)
            self._model.to(device_to_answer(self.settings.train.device)).eval()
        self.given_scorer = scorer

    def _read(self, checkpoint: Which) -> Weights:
        """What is read of the checkpoint."""
        return self.folder.checkpoints.weights(checkpoint, mapped=self.maps)

    def _check_rows(self, num_entities: int) -> None:
        """Refuse an entity table of other data."""
        check_entity_rows(self._weights, "entities", num_entities)

    def rank(
        self, scorer: Scorer, triples: np.ndarray, known: KnownTails, progress: ProgressFunction | None = None
    ) -> Ranks:
        """Filtered ranks of ``triples [n, 3]`` by ``scorer``."""
        return rank(scorer, triples, known, progress=progress)

    def _built(self, mapped: bool) -> AnyModel:
        """The model with its weights; a mapped table is taken as it is."""
        if not mapped:
            model = build_model(self.settings, len(self.entities), len(self.relations))
            restore_weights(model, self._weights)
            return model
        empty = build_embedding_model(self.settings, 0, len(self.relations))
        empty.hold(self._weights["entities"], self._weights.get("bias"))
        restore_weights(empty, self._weights, in_place=True)
        return empty

    def _opened_members(self) -> tuple[OpenedRun, ...]:
        """The runs that a blend is made of, at the version that it is opened at."""
        weights = self._weights.get("weights")
        count = weights.shape[1] if weights is not None and weights.ndim == 2 and weights.shape[1] else 1
        check_weights(self._weights, {"weights": ((2 * len(self.relations), count), torch.float64)})
        return tuple(self._member(folder) for folder in member_folders(self.path, count))

    def _member(self, folder: RunFolder) -> OpenedRun:
        return type(self)(folder, version=self.version, mapped=self.maps)

    @property
    def model(self) -> AnyModel:
        """What was trained; a blend has none of its own."""
        if self._model is None:
            raise TuckerkgError(f"{self.path}: a blend has no model of its own; run.members[0].model is its first one")
        return self._model

    def move_to(self, device: str) -> None:
        """Compute on another device from now on; before anything is asked.

        Raises:
            SettingsError: there is no such device.
        """
        chosen = choose_device(device)
        if self._model is not None:
            self._model.to(chosen)
        for member in self.members:
            member.move_to(device)

    @property
    def member_names(self) -> list[str]:
        """What the runs that a blend was made of were called."""
        return [member["name"] for member in self.state.get("members", ())]

    def describe(self) -> dict[str, str]:
        """What it is, by name: encoder, decoder and width, or how messages go, or the members of a blend."""
        return {"blend of": " and ".join(self.member_names)} if self.members else describe_model(self.settings)

    def counts(self) -> ParameterCounts:
        """Free parameters as the paper counts them; a blend's are those of its members."""
        if self._model is not None:
            return self._model.counts()
        parts = [member.counts() for member in self.members]
        return ParameterCounts(*(sum(getattr(part, name) for part in parts) for name in ("efp", "nfp", "enfp")))

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def metrics(self) -> list[JsonObject]:
        """The validations during training, oldest first."""
        return self.folder.metrics.rows()

    @property
    def curve(self) -> list[tuple[float, float]]:
        """Epochs and validation MRR while training; of a refit, those of the run before."""
        rows = self.metrics if self.refit_of is None else self.refit_of.metrics
        return [(row["epoch"], row["valid"]["mrr"]) for row in rows if row["valid"]]

    @cached_property
    def refit_of(self) -> RunBefore | None:
        """The run that this one is a refit of, trained on all facts, and what was measured on it; else None."""
        return read_run_before(self.path)

    @property
    def blend_weights(self) -> Tensor:
        """Of a blend: how much each member counts for a relation, in each direction, ``[2R, members]``."""
        if not self.members:
            raise TuckerkgError(f"{self.path}: is no blend, so that there are no weights of members")
        return self._weights["weights"]

    @property
    def graph_name(self) -> str:
        """The name of the graph that it answers for."""
        return self.settings.dataset if self.graph is None else self.graph.name

    def split(self, name: str) -> np.ndarray:
        """The triples of a split, ``[n, 3]``; what was added after training counts as training's."""
        if self.graph is not None:
            return self.graph.splits[name]
        triples = self.folder.split(name)
        if name == "train" and self.added is not None:
            return np.concatenate([triples, self.added.triples])
        return triples

    @cached_property
    def scorer(self) -> Scorer:
        """Scores every entity as the answer to a question; entities are encoded once over the training graph."""
        if self.given_scorer is not None:
            return self.given_scorer
        if self.members:
            return BlendScorer([member.scorer for member in self.members], self._weights["weights"])
        return build_scorer(self.model, self.split("train"))

    @property
    def uses_messages(self) -> bool:
        """Whether scores depend on the edges of the graph."""
        return isinstance(self.scorer, ReadsEdges) and self.scorer.reads_edges

    def held_out(self, split: str) -> np.ndarray:
        """The triples of a split, or of two joined by a plus. Raises RunFolderError where there are none."""
        triples = np.concatenate([self.split(name) for name in split.split("+")])
        if len(triples):
            return triples
        if self.graph is None and self.refit_of is not None:
            raise RunFolderError(
                f"{self.path}: is a refit of {self.refit_of.name}, trained on all facts, so that nothing is held out "
                f"as {split}; what {self.refit_of.name} scored is in run.refit_of, and shown by tuckerkg evaluate"
            )
        if self.graph is None:
            raise RunFolderError(f"{self.path}: the {split} split of this run is empty, there is nothing to rank")
        raise RunFolderError(
            f"{self.graph.name}: nothing is held out of this graph as {split}, all of its facts are what answers come "
            "from; give a folder with train, valid and test files"
        )


def _with_rows(run: Path, weights: Mapping[str, Tensor], added: Version, step: int) -> dict[str, Tensor]:
    """The trained tables with the added entities' rows below."""
    if added.step != step:
        raise RunFolderError(
            f"{run}: version {added.number} was made for the weights of step {added.step}, and the best are now those "
            f"of step {step}. Add the facts again, or ask for the run as it was trained: {run}@1"
        )
    joined = dict(weights)
    for name in ("entities", "bias"):
        if name not in weights:
            continue
        rows = added.rows.get(name)
        if rows is None or (len(rows), rows.shape[1:], rows.dtype) != (
            len(added.labels),
            weights[name].shape[1:],
            weights[name].dtype,
        ):
            raise RunFolderError(
                f"{run}: version {added.number} does not fit the table of {name}. Add the facts again."
            )
        joined[name] = torch.cat([weights[name], rows])
    return joined

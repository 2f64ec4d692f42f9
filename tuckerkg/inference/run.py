"""A trained run, ready to be evaluated and asked."""

from __future__ import annotations

import copy
import logging
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from tuckerkg.config.build import AnyModel, build_model, build_scorer
from tuckerkg.config.describe import describe_model
from tuckerkg.config.settings import Settings, settings_of_run
from tuckerkg.data.from_memory import table_of
from tuckerkg.data.labels import Labels
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import RunFolderError, TuckerkgError, UnknownNameError, did_you_mean
from tuckerkg.evaluation.conformal import Conformal, Coverage, fit_conformal, measure_coverage
from tuckerkg.evaluation.frequency_baseline import FrequencyScorer, guessing_mrr
from tuckerkg.evaluation.metrics import Evaluation, evaluation_of
from tuckerkg.evaluation.protocol import describe_protocol, seen_entities
from tuckerkg.evaluation.ranking import rank
from tuckerkg.explain.explainer import Explainer, Explanation, explain_fact
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.inference.add_facts import add_facts
from tuckerkg.inference.answers.predictions import Predictions
from tuckerkg.inference.export import vector_frame, write_vectors
from tuckerkg.inference.labelled import LabelledFit, calibrate_on
from tuckerkg.inference.other_graph import OtherGraph, read_other_graph
from tuckerkg.inference.predictor import Predictor
from tuckerkg.inference.retrieval import Retrieval, promise_of, retriever_of
from tuckerkg.inference.trust import Trust, measure_reliability, measure_trust
from tuckerkg.nn.blend_scorer import BlendScorer
from tuckerkg.nn.contracts import AnswersOtherGraphs, HasVectors, ReadsEdges, Scorer
from tuckerkg.nn.model import ParameterCounts, device_to_answer
from tuckerkg.probability.calibration import Calibration, fit_calibration
from tuckerkg.probability.reliability import Reliability
from tuckerkg.storage.checkpoints import Which
from tuckerkg.storage.members import member_folders
from tuckerkg.storage.run_before import RunBefore, read_run_before
from tuckerkg.storage.run_folder import RunFolder, check_place
from tuckerkg.storage.versions import Version, read_version, version_numbers
from tuckerkg.storage.weights import check_entity_rows, check_weights, restore_weights
from tuckerkg.types import JsonObject, ProgressFunction

if TYPE_CHECKING:
    import polars as pl

_log = logging.getLogger("tuckerkg")
_AT_VERSION = re.compile(r"(.+)@([0-9]{1,9})")
VALID_AND_TEST = "valid+test"


class Run:
    """A run folder with its best weights. Get one from ``tuckerkg.train`` or ``tuckerkg.load``.

    Args:
        folder: the run on disk.
        calibrated: False gives the sigmoid of the score as probability, not one fitted on validation.
        version: one that ``add`` made; 1 is the run as it was trained, None the newest.
        checkpoint: whose weights to use: "best", "newest" or a step.
        scorer: what scores, where it is not the model that the settings describe.

    Attributes:
        graph: the graph that it answers for, where that is not the one it was trained on (``on``).
    """

    graph: OtherGraph | None = None
    labelled: LabelledFit | None = None  # what ``calibrate`` found
    base_rate: float | None = None  # the share of facts that are thought to be missing, where it is not that held out
    _trained: Run | None = None  # the run that ``on`` was called on
    _copied: Run | None = None  # kept, since a temporary run folder is removed together with its run

    def __init__(
        self,
        folder: RunFolder,
        *,
        calibrated: bool = True,
        version: int | None = None,
        checkpoint: Which = "best",
        scorer: Scorer | None = None,
    ) -> None:
        self.folder, self.calibrated = folder, calibrated
        self.settings: Settings = settings_of_run(folder)
        saved = folder.checkpoints.weights(checkpoint)
        self.step, self.state, self._weights = saved.step, saved.state, saved.weights
        labels, titles = folder.entities(), folder.entity_titles()
        has_table = self.settings.kind == "embedding"  # a row per entity
        if has_table:
            check_entity_rows(self._weights, "entities", len(labels))
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
        self.members: tuple[Run, ...] = ()  # of a blend
        self._model: AnyModel | None = None
        if self.settings.kind == "blend":
            self.members = self._opened_members()
        else:
            self._model = build_model(self.settings, len(self.entities), len(self.relations))
            restore_weights(self._model, self._weights)
            self._model.to(device_to_answer(self.settings.train.device)).eval()
        self._scorer = scorer

    def _opened_members(self) -> tuple[Run, ...]:
        """The runs that a blend is made of, at the version that it is opened at."""
        weights = self._weights.get("weights")
        count = weights.shape[1] if weights is not None and weights.ndim == 2 and weights.shape[1] else 1
        check_weights(self._weights, {"weights": ((2 * len(self.relations), count), torch.float64)})
        return tuple(Run(folder, version=self.version) for folder in member_folders(self.path, count))

    @property
    def model(self) -> AnyModel:
        """What was trained; a blend has none of its own."""
        if self._model is None:
            raise TuckerkgError(f"{self.path}: a blend has no model of its own; run.members[0].model is its first one")
        return self._model

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
        if self._scorer is not None:
            return self._scorer
        if self.members:
            return BlendScorer([member.scorer for member in self.members], self._weights["weights"])
        return build_scorer(self.model, self.split("train"))

    @property
    def uses_messages(self) -> bool:
        """Whether scores depend on the edges of the graph."""
        return isinstance(self.scorer, ReadsEdges) and self.scorer.reads_edges

    @cached_property
    def calibration(self) -> Calibration:
        """Turn scores into probabilities: as stored in the run folder, else fitted on validation and stored.

        For another graph it is the one that was fitted on the validation split of training, by relation; for a refit,
        which has none, that of the run before. Without validation triples it is the plain sigmoid of the score.
        """
        if not self.calibrated:
            return Calibration()
        found = self._trained.calibration if self._trained is not None else self._own_calibration()
        return found if self.base_rate is None else found.at_base_rate(self.base_rate)

    def _own_calibration(self) -> Calibration:
        if len(self.split("valid")) == 0:
            return self._unfitted()
        stored = self.folder.calibration(self.step, self.version) if self._scorer is None else None
        if stored is not None:  # it belongs to the folder's own model
            found = Calibration.from_tensors(stored)
            if found.fitted or not stored:  # else it is of an earlier version of the program
                return found
        fitted = self._fitted()
        if self._scorer is None:
            with suppress(RunFolderError):  # a run may be read-only
                self.folder.store_calibration(self.step, self.version, fitted.tensors())
        return fitted

    def _fitted(self) -> Calibration:
        splits = [self.split(name) for name in SPLITS]
        return fit_calibration(self.scorer, splits[0], self._held_out("valid"), len(splits[2]), promise_of(self))

    def _unfitted(self) -> Calibration:
        """The probabilities of a run that has no validation triples to fit them on."""
        before = Calibration.from_tensors(self.refit_of.calibration) if self.refit_of is not None else Calibration()
        if not before.fitted:
            _log.warning(
                "%s: no validation triples to fit probabilities on: a probability is the plain sigmoid of the score, "
                "good for an order, not for a chance",
                self.path,
            )
        return before

    def at_base_rate(self, rate: float) -> Run:
        """The same run where ``rate`` of all facts are thought to be missing.

        Fitted probabilities hold where as many are missing as were held out, ``run.calibration.hidden``.
        """
        other = self._copy()
        other.base_rate = rate
        other.calibration  # noqa: B018  (refuses a rate that is none)
        return other

    def calibrate(self, positives: Any = None, negatives: Any = None, options: ReadOptions | None = None) -> Run:
        """Fit probabilities and verdicts on labelled facts, or without any on validation, and keep them in the folder.

        Args:
            positives, negatives: facts that are true and facts that are not: files, lists of triples of names, frames.
            options: how to read files.

        Returns:
            The run with these probabilities; ``labelled`` says what they brought.
        """
        if self.graph is not None or self._scorer is not None or not self.calibrated:
            raise TuckerkgError("probabilities are kept for a run's own graph and model: calibrate the run itself")
        if (positives is None) != (negatives is None):
            raise TuckerkgError("labelled facts are needed of both kinds: give positives and negatives")
        other = self._copy()
        other.base_rate = None
        if positives is None:
            fitted, other.labelled = other._fitted(), None
        else:
            fitted, other.labelled = calibrate_on(other, positives, negatives, options)
        other.folder.store_calibration(other.step, other.version, fitted.tensors())
        other = other._copy()
        other.calibration = fitted
        return other

    def reliability(self, split: str = "test") -> Reliability:
        """How far probabilities hold for the facts that people are shown; see ``trust.py``."""
        return measure_reliability(self, split)

    def trust(self, progress: ProgressFunction | None = None) -> Trust:
        """What is said and what is true, in every place where people ask; see ``trust.py``."""
        return measure_trust(self, progress)

    def conformal(self, coverage: float = 0.9) -> Conformal:
        """Answer sets that hold the answer with probability ``coverage``, fitted on the graph's validation split."""
        if not 0.0 < coverage < 1.0:
            raise TuckerkgError(f"coverage is {coverage}, expected a share between 0 and 1, such as 0.9")
        return fit_conformal(self.scorer, self.split("train"), self._held_out("valid"), coverage)

    def answer_set_coverage(self, split: str = "test", coverage: float = 0.9) -> Coverage:
        """How often answer sets hold the answer on a held-out split, by direction, and how large they are."""
        known = [self.split(name) for name in SPLITS]
        return measure_coverage(self.scorer, self.conformal(coverage), known, self._held_out(split))

    def _held_out(self, split: str) -> np.ndarray:
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

    def evaluate(
        self, split: str = "test", progress: ProgressFunction | None = None, *, messages: bool = True
    ) -> Evaluation:
        """Filtered ranks of a split over all entities, in both directions.

        Args:
            split: test, valid or train. Validation is filtered as in training, without the test split. For another
                graph every split is filtered by all three, and valid+test are both held-out splits together.
            progress: called with the questions done and their total.
            messages: False encodes without any edge, to see what the messages bring.
        """
        self._check_split(split)
        filtered_by = SPLITS if self.graph is not None or split == "test" else SPLITS[:2]
        splits = {name: self.split(name) for name in filtered_by}
        asked = self._held_out(split)
        scorer, tie_seed = self.scorer, self.settings.evaluate.tie_seed
        if not messages and isinstance(scorer, ReadsEdges):
            scorer = scorer.without(range(len(splits["train"])))
        known = KnownTails.from_splits(list(splits.values()), scorer.num_relations)
        return evaluation_of(
            rank(scorer, asked, known, progress=progress),
            split=split,
            seen=seen_entities(splits["train"], scorer.num_entities),
            relation_names=list(self.relations.labels),
            protocol=describe_protocol(
                splits, split=split, filtered_by=filtered_by, tie_seed=tie_seed, num_entities=scorer.num_entities
            ),
            hits=self.settings.evaluate.hits,
            tie_seed=tie_seed,
            graph=None if self.graph is None else self.graph.name,
        )

    def guessing_mrr(self, split: str = "test") -> float:
        """What each relation's most frequent answers score on a split: a model below it has learnt nothing."""
        self._check_split(split)
        known = SPLITS if self.graph is not None or split == "test" else SPLITS[:2]
        guesses = FrequencyScorer(self.split("train"), len(self.entities), len(self.relations))
        return guessing_mrr(
            guesses,
            self._held_out(split),
            KnownTails.from_splits([self.split(name) for name in known], len(self.relations)),
        )

    def _check_split(self, split: str) -> None:
        if self.graph is None and split == VALID_AND_TEST:
            raise UnknownNameError(
                f"{self.path}: the weights were chosen on validation, so it is no test together with the test split; "
                "valid+test is for a graph that the run was not trained on"
            )
        splits = SPLITS if self.graph is None else (*SPLITS, VALID_AND_TEST)
        if split not in splits:
            raise UnknownNameError(
                f"there is no split {split!r}, only {', '.join(splits)}.{did_you_mean(split, splits)}"
            )

    def evaluation_file(self, split: str) -> Path:
        """Where ``tuckerkg evaluate`` keeps what it found on a split."""
        of_graph = "" if self.graph is None else f"{self.graph.file_name}-"
        of_version = "" if self.version == 1 else f"-version{self.version}"
        return self.path / f"evaluation-{of_graph}{split}{of_version}.json"

    @cached_property
    def predictor(self) -> Predictor:
        """Answers questions; known facts are those of all splits."""
        return self.predictor_knowing(SPLITS)

    def predictor_knowing(self, splits: Sequence[str]) -> Predictor:
        """Answers questions where only facts of ``splits`` count as known; "train" is among them."""
        rest = [name for name in splits if name != "train"]
        known = [self.split(name) for name in ("train", *rest)]
        return Predictor(self.scorer, self.entities, self.relations, known, self.calibration)

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        *,
        known: bool = False,
        typed: bool = True,
        joined: bool = True,
    ) -> Predictions:
        """The ``k`` best completions of a question; see ``Predictor.predict``."""
        return self.predictor.predict(head, relation, tail, k, known=known, typed=typed, joined=joined)

    def top_missing(
        self,
        k: int = 10,
        *,
        typed: bool = True,
        missing_from: Sequence[str] = SPLITS,
        progress: ProgressFunction | None = None,
    ) -> Predictions:
        """The ``k`` most probable facts that the graph does not hold; see ``Predictor.top_missing``.

        With ``missing_from=("train",)`` held-out facts count as missing: their ``known`` then says that they are true.
        """
        if set(missing_from) == set(SPLITS):
            return self.predictor.top_missing(k, typed=typed, progress=progress)
        facts = self.predictor_knowing(missing_from).top_missing(k, typed=typed, progress=progress)
        return Predictions(replace(fact, known=self.predictor.holds(fact)) for fact in facts)

    def retrieval(
        self,
        retriever: Run | None = None,
        *,
        ask: int | None = None,
        minutes: float | None = None,
        typed: bool = True,
        missing_from: Sequence[str] = SPLITS,
    ) -> Retrieval:
        """A search for missing facts that asks this run only the questions that a faster one finds promising.

        ``run.retrieval(fast, ask=1000).top_missing(20)``; its ``cost`` says how long that takes.

        Args:
            retriever: a run with embeddings over the same entities; None: a blend's first member that has them.
            ask: how many questions this run is asked.
            minutes: instead of ``ask``, how long the search may take.
            typed: ask plausible heads only and take tails that have been seen there.
            missing_from: as for ``top_missing``.
        """
        slow = self.predictor if set(missing_from) == set(SPLITS) else self.predictor_knowing(missing_from)
        return Retrieval(slow, retriever_of(self, retriever, slow), ask=ask, minutes=minutes, typed=typed)

    def score(self, triples: Iterable[tuple[str, str, str]]) -> Predictions:
        """Score and probability of whole triples of names."""
        triples = list(triples)
        for place, fact in enumerate(triples):
            if isinstance(fact, str) or len(fact) != 3:
                raise TuckerkgError(f"fact {place} is {fact!r}, expected three names: head, relation, tail")
        heads, relations, tails = zip(*triples, strict=True) if triples else ((), (), ())
        return self.predictor.score(heads, relations, tails)

    @cached_property
    def explainer(self) -> Explainer:
        """Find what carried a score."""
        return Explainer(self.scorer, self.split("train"), self.predictor.known)

    def explain(
        self, head: str, relation: str, tail: str, k: int = 5, progress: ProgressFunction | None = None
    ) -> Explanation:
        """Why a fact is predicted: the ``k`` edges that carried most, what is left without them, and paths."""
        (weighed,) = self.predictor.score([head], [relation], [tail])
        fact = self.entities.id_of(head), self.relations.id_of(relation), self.entities.id_of(tail)
        found = explain_fact(
            self.explainer, self.entities, self.relations, fact, weighed.probability, weighed.known, k, progress
        )
        return replace(found, typed=self.predictor.lists(*fact))

    def on(self, graph: Any, options: ReadOptions | None = None) -> Run:
        """Answer for a graph that this run was not trained on, with the same weights: nothing is trained or stored.

        Args:
            graph: whatever ``tuckerkg.train`` takes: a dataset's name, a path, a ``Dataset`` or a graph in memory. Its
                relations are those of the run, by label; its entities may be any. Answers come from its train split,
                valid and test are held out of it; one file without splits is all facts.
            options: how to read its files.

        Raises:
            InputError: the graph cannot be read, or has relations that were not trained.
            TuckerkgError: this run's model has a vector for each entity of its own graph, and none for others.
        """
        if self._trained is not None:
            second = self._trained.on(graph, options)
            return second if self.calibrated else second.uncalibrated()
        scorer = self.scorer
        if not isinstance(scorer, AnswersOtherGraphs) or not scorer.answers_other_graphs:
            raise TuckerkgError(
                f"{self.path}: this run learnt a vector for each entity it was trained with and has none for the "
                "entities of another graph; train one that starts from the question, --set kind=paths"
            )
        other = self._copy()
        other.graph, other._trained = read_other_graph(graph, self.relations, options), self
        other.entities, other.relations = other.graph.entities, other.graph.relations
        other._scorer = scorer.on(other.split("train"), len(other.entities))
        return other

    def uncalibrated(self) -> Run:
        """The same run with the sigmoid of the score as probability."""
        other = self._copy()
        other.calibrated = False
        return other

    def _copy(self) -> Run:
        """The same weights, with nothing computed from them yet."""
        other = copy.copy(self)
        other._copied = self
        for name, member in vars(Run).items():
            if isinstance(member, cached_property):
                vars(other).pop(name, None)
        return other

    def add(
        self,
        facts: Any,
        options: ReadOptions | None = None,
        *,
        progress: ProgressFunction | None = None,
    ) -> Run:
        """Add facts, and entities linked to known ones, without training again.

        Args:
            facts: a file, a list of triples of names, or a frame.
            options: how to read a file.

        Returns:
            The new version of this run; ``added.report`` counts what became of the rows.
        """
        if self.graph is not None:
            raise TuckerkgError(
                f"{self.graph.name}: facts are added to the graph that a run was trained on; put these into the graph "
                "itself and call on(graph) again, nothing needs training"
            )
        source = facts if isinstance(facts, str | os.PathLike) else table_of(facts)
        add_facts(self, source, options, progress=progress)
        return Run(self.folder, calibrated=self.calibrated)

    def save(self, path: str | Path) -> Path:
        """Copy the run folder, for instance that of a run trained without ``out``.

        Raises:
            RunFolderError: the place is taken or cannot be written.
        """
        if self.graph is not None:
            raise TuckerkgError(
                f"{self.graph.name}: a run folder holds the graph that was trained on; save the run itself, and call "
                "on(graph) after loading it"
            )
        check_place(Path(path))
        shutil.copytree(self.path, path, dirs_exist_ok=True)
        return Path(path)

    def vectors(self, what: Literal["encoded", "entities", "relations"] = "encoded") -> pl.DataFrame:
        """Label, title and vector of every entity or relation, as a Polars frame.

        Args:
            what: "encoded" is what the encoder makes of the entities, "entities" their embeddings as learnt,
                "relations" the relations' embeddings with those of their inverses, labelled ``borders^-1``.
        """
        return vector_frame(self._vectors(what), self.entities, self.relations, what)

    def export(self, path: str | Path, what: Literal["encoded", "entities", "relations"] = "encoded") -> Path:
        """Write ``vectors(what)`` to a .parquet or .npz file."""
        return write_vectors(self._vectors(what), self.entities, self.relations, Path(path), what)

    def _vectors(self, what: Literal["encoded", "entities", "relations"]) -> Tensor:
        if self.members:
            raise TuckerkgError(
                f"{self.path}: a blend has no vectors of its own; those of a member are in {self.members[0].path}"
            )
        if not isinstance(self.scorer, HasVectors):
            raise TuckerkgError(
                f"{self.path}: this model has no vectors, it scores each question by itself; "
                "a run with embeddings has some: train one without --set kind=paths"
            )
        return self.scorer.vectors(what)


def load(path: str | Path, *, calibrated: bool = True, version: int | None = None, checkpoint: Which = "best") -> Run:
    """Open a run folder that ``train`` wrote, with its best weights.

    Args:
        path: the run folder; ``RUN@1`` is its version 1.
        calibrated: False gives the sigmoid of the score as probability, not one fitted on validation.
        version: one that ``add`` made; 1 is the run as it was trained, None the newest.
        checkpoint: whose weights to use: "best", "newest" or a step.

    Raises:
        RunFolderError: it is not a run folder, or is damaged; no other checkpoint is taken instead.
    """
    match = _AT_VERSION.fullmatch(str(path))
    if match and version is None and not Path(path).exists():
        path, version = match[1], int(match[2])
    return Run(RunFolder.open(Path(path)), calibrated=calibrated, version=version, checkpoint=checkpoint)


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

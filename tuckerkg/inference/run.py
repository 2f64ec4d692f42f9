"""A trained run, ready to be evaluated and asked."""

from __future__ import annotations

import copy
import logging
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from tuckerkg.data.from_memory import table_of
from tuckerkg.data.readers.options import ReadOptions
from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import TuckerkgError
from tuckerkg.evaluation.conformal import Conformal, Coverage, fit_conformal, measure_coverage
from tuckerkg.evaluation.metrics import Evaluation
from tuckerkg.explain.explainer import Explainer, Explanation, explain_fact
from tuckerkg.inference.adding.add_facts import add_facts
from tuckerkg.inference.answers.finder import Searches
from tuckerkg.inference.answers.predictions import Predictions
from tuckerkg.inference.answers.search import ExactSearch
from tuckerkg.inference.calibrating import calibration_of, fitted_on_validation
from tuckerkg.inference.evaluating import evaluate, evaluation_file, guess
from tuckerkg.inference.export import vector_frame, write_vectors
from tuckerkg.inference.index.of_run import RunIndex
from tuckerkg.inference.labelled import LabelledFit, calibrate_on
from tuckerkg.inference.opened_run import OpenedRun
from tuckerkg.inference.other_graph import read_other_graph
from tuckerkg.inference.predictor import Predictor
from tuckerkg.inference.retrieval import Retrieval, retriever_of
from tuckerkg.inference.trust import Trust, measure_reliability, measure_trust
from tuckerkg.nn.contracts import AnswersOtherGraphs, HasVectors, Scorer
from tuckerkg.probability.calibration import Calibration
from tuckerkg.probability.reliability import Reliability
from tuckerkg.storage.checkpoints import Which
from tuckerkg.storage.run_folder import RunFolder, check_place
from tuckerkg.types import ProgressFunction

if TYPE_CHECKING:
    import polars as pl

_log = logging.getLogger("tuckerkg")
_AT_VERSION = re.compile(r"(.+)@([0-9]{1,9})")


class Run(OpenedRun):
    """A run folder with its best weights. Get one from ``tuckerkg.train`` or ``tuckerkg.load``.

    Args:
        folder: the run on disk.
        calibrated: False gives the sigmoid of the score as probability, not one fitted on validation.
        version: one that ``add`` made; 1 is the run as it was trained, None the newest.
        checkpoint: whose weights to use: "best", "newest" or a step.
        scorer: what scores, where it is not the model that the settings describe.
        mapped: map the entity table instead of copying it; None: where it lies in shards and is large.

    Attributes:
        graph: the graph that it answers for, where that is not the one it was trained on (``on``).
    """

    members: tuple[Run, ...]
    index: RunIndex | None = None  # what ``indexed`` made
    searches: Searches = ExactSearch
    labelled: LabelledFit | None = None  # what ``calibrate`` found
    base_rate: float | None = None  # the share of facts that are thought to be missing, where it is not that held out
    keeps: bool = True  # whether probabilities that it fits are stored in its folder
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
        mapped: bool | None = None,
    ) -> None:
        super().__init__(folder, version=version, checkpoint=checkpoint, scorer=scorer, mapped=mapped)
        self.calibrated = calibrated

    @cached_property
    def calibration(self) -> Calibration:
        """Turn scores into probabilities: as stored in the run folder, else fitted on validation and stored.

        For another graph it is the one that was fitted on the validation split of training, by relation; for a refit,
        which has none, that of the run before. Without validation triples it is the plain sigmoid of the score.
        """
        if not self.calibrated:
            return Calibration()
        found = self._calibration() if self._trained is None else self._trained.calibration.of_any_graph
        return found if self.base_rate is None else found.at_base_rate(self.base_rate)

    def _calibration(self) -> Calibration:
        return calibration_of(self)

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
        if self.graph is not None or self.given_scorer is not None or not self.calibrated:
            raise TuckerkgError("probabilities are kept for a run's own graph and model: calibrate the run itself")
        if (positives is None) != (negatives is None):
            raise TuckerkgError("labelled facts are needed of both kinds: give positives and negatives")
        other = self._copy()
        other.base_rate = None
        if positives is None:
            fitted, other.labelled = fitted_on_validation(other), None
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
        return fit_conformal(self.scorer, self.split("train"), self.held_out("valid"), coverage)

    def answer_set_coverage(self, split: str = "test", coverage: float = 0.9) -> Coverage:
        """How often answer sets hold the answer on a held-out split, by direction, and how large they are."""
        known = [self.split(name) for name in SPLITS]
        return measure_coverage(self.scorer, self.conformal(coverage), known, self.held_out(split))

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
        return evaluate(self, split, progress, messages=messages)

    def guessing_mrr(self, split: str = "test") -> float:
        """What each relation's most frequent answers score on a split: a model below it has learnt nothing."""
        return guess(self, split)

    def evaluation_file(self, split: str) -> Path:
        """Where ``tuckerkg evaluate`` keeps what it found on a split."""
        return evaluation_file(self, split)

    @cached_property
    def predictor(self) -> Predictor:
        """Answers questions; known facts are those of all splits."""
        return self.predictor_knowing(SPLITS)

    def predictor_knowing(self, splits: Sequence[str]) -> Predictor:
        """Answers questions where only facts of ``splits`` count as known; "train" is among them."""
        rest = [name for name in splits if name != "train"]
        known = [self.split(name) for name in ("train", *rest)]
        return Predictor(self.scorer, self.entities, self.relations, known, self.calibration, self.searches)

    def indexed(self) -> Run:
        """The same run with an index that proposes candidates, for very many entities; it needs faiss.

        ``run.index.quality`` says how good it is. Probabilities then come from estimated sums.
        """
        other = self._copy()
        other.index = RunIndex(self)
        other.searches = other.index.search
        return other

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
        other.given_scorer = scorer.on(other.split("train"), len(other.entities))
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
        for kind in (Run, OpenedRun):
            for name, member in vars(kind).items():
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


def load(
    path: str | Path,
    *,
    calibrated: bool = True,
    version: int | None = None,
    checkpoint: Which = "best",
    mapped: bool | None = None,
) -> Run:
    """Open a run folder that ``train`` wrote, with its best weights.

    Args:
        path: the run folder; ``RUN@1`` is its version 1.
        calibrated: False gives the sigmoid of the score as probability, not one fitted on validation.
        version: one that ``add`` made; 1 is the run as it was trained, None the newest.
        checkpoint: whose weights to use: "best", "newest" or a step.
        mapped: map the entity table from a file beside the checkpoint, which is made where there is none, instead of
            copying it into memory; None: where it was trained in shards and has 64 MB or more.

    Raises:
        RunFolderError: it is not a run folder, or is damaged; no other checkpoint is taken instead.
    """
    place, named = at_version(path) if version is None else (Path(path), None)
    chosen = named if version is None else version
    return Run(RunFolder.open(place), calibrated=calibrated, version=chosen, checkpoint=checkpoint, mapped=mapped)


def at_version(path: str | Path) -> tuple[Path, int | None]:
    """Folder and version of ``RUN@1``; None where none is named."""
    match = _AT_VERSION.fullmatch(str(path))
    return (Path(match[1]), int(match[2])) if match and not Path(path).exists() else (Path(path), None)

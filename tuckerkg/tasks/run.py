"""A trained committee, ready to be evaluated and asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from tuckerkg.config.settings import Settings, settings_of_run
from tuckerkg.data.labels import Labels
from tuckerkg.errors import TuckerkgError, printable
from tuckerkg.nn.model import device_to_answer
from tuckerkg.storage.checkpoints import Which
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.storage.weights import restore_weights
from tuckerkg.tasks.counts import CountClassifier
from tuckerkg.tasks.explaining import ClassExplanation, explain_item
from tuckerkg.tasks.figures import Judgement, judge
from tuckerkg.tasks.model import Committee, message_graph
from tuckerkg.tasks.probabilities import ClassProbabilities, fit_probabilities, unseen_scores
from tuckerkg.tasks.task import TEST, TRAIN, Task, read_task, stratified_folds
from tuckerkg.tasks.training import FOLD_SEED

if TYPE_CHECKING:
    import polars as pl

UNSURE = "unsure"
KINDS = ("nodes", "graphs")
Voters = Literal["all", "encoder", "counts"]
AT_ONCE = 10_000  # items whose surroundings are counted


@dataclass(frozen=True)
class ClassPrediction:
    """The class of one item: what is told, "unsure" where nothing is probable enough, and every class's probability."""

    item: str
    item_label: str
    told: str
    best: str
    probability: float
    probabilities: dict[str, float]
    known: str | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


class ClassPredictions(list[ClassPrediction]):
    """In the order in which they were asked for."""

    def to_frame(self) -> pl.DataFrame:
        """A row per item, with a column for the probability of each class."""
        import polars as pl  # noqa: PLC0415  (half a second that --help need not wait for)

        rows = []
        for each in self:
            named = {f"p({name})": value for name, value in each.probabilities.items()}
            known = {"known": each.known or ""}
            rows.append({"item": each.item, "item_label": each.item_label, "class": each.told,
                         "probability": each.probability, **known, **named})  # fmt: skip
        return pl.DataFrame(rows)

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        return str(self.to_frame()._repr_html_())


@dataclass(frozen=True)
class ClassEvaluation:
    """How held-out labels were judged: all of them, and those that were answered at all."""

    judgement: Judgement
    answered: float
    accuracy_answered: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.judgement.as_dict(), "answered": self.answered, "accuracy_answered": self.accuracy_answered,
        }  # fmt: skip


class ClassRun:
    """A run folder of kind "nodes" or "graphs" with its best weights.

    Args:
        folder: the run on disk.
        checkpoint: whose weights to use: "best", "newest" or a step.
    """

    def __init__(self, folder: RunFolder, checkpoint: Which = "best") -> None:
        self.folder = folder
        self.settings: Settings = settings_of_run(folder)
        if self.settings.kind not in KINDS:
            raise TuckerkgError(f"{folder.path}: completes a graph (kind={self.settings.kind}) and tells no classes")
        self.task: Task = read_task(folder)
        saved = folder.checkpoints.weights(checkpoint)
        self.step = saved.step
        self.state = saved.state
        self.model = Committee(self.task, self.settings)
        restore_weights(self.model, saved.weights)
        self.model.to(device_to_answer(self.settings.train.device)).eval()
        self.nodes = Labels("node", folder.entities(), folder.entity_titles())
        self.relations = Labels("relation", folder.relations(), folder.relation_titles())
        graphs = self.task.kind == "graphs"
        self.items = Labels("graph", list(self.task.graphs), {}) if graphs else self.nodes

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @cached_property
    def scores(self) -> Tensor:
        """Scores of all items by every member, ``[K, items, C]``."""
        device = next(self.model.parameters()).device
        with torch.no_grad():
            found: Tensor = self.model(message_graph(self.task, self.model).to(device)).cpu()
        return found

    @cached_property
    def counts(self) -> CountClassifier | None:
        """What votes beside the encoders, fitted when it is first asked; None: nothing is counted."""
        return CountClassifier.of(self.task, self.settings, self._fold())

    @cached_property
    def fitted(self) -> ClassProbabilities:
        """Temperature and threshold, fitted on the labels to train on, each judged by a member that did not see it."""
        return self._fitted_for("all")

    def _fitted_for(self, voters: Voters) -> ClassProbabilities:
        if len(self.scores) == 1:  # nobody did not see them
            return ClassProbabilities(1.0, 0.0, 1.0, float("nan"))
        scores, counts, label = self._unseen(voters)
        return fit_probabilities(scores, label, counts)

    def _fold(self) -> Tensor:
        return stratified_folds(self.task.of_part(TRAIN)[1], self.settings.classify.members, FOLD_SEED)

    def _unseen(self, voters: Voters = "all") -> tuple[Tensor, Tensor | None, Tensor]:
        """Scores of the labels to train on, what counts say of them, and the labels."""
        items, label = self.task.of_part(TRAIN)
        scores = unseen_scores(self.scores[:, items], self._fold())
        if self.counts is None or voters == "encoder":
            return scores, None, label
        return (self.counts.unseen, None, label) if voters == "counts" else (scores, self.counts.unseen, label)

    def _scores_of(self, items: Tensor, voters: Voters = "all") -> tuple[Tensor, Tensor | None]:
        """Scores ``[K, n, C]`` by the encoders, and ``[n, C]`` by counts where they vote."""
        if self.counts is None or voters == "encoder":
            return self.scores[:, items], None
        counts = torch.cat([self.counts.scores(part) for part in items.split(AT_ONCE)])
        return (counts[None], None) if voters == "counts" else (self.scores[:, items], counts)

    def probabilities_of(self, items: Tensor) -> Tensor:
        """Probabilities of items by number, ``[n, C]``."""
        return self.fitted.of(*self._scores_of(items))

    def predict(self, items: Sequence[str] | None = None) -> ClassPredictions:
        """Classes of items by name or label; None: of all graphs, or of all nodes that are like the labelled ones.

        Raises:
            UnknownNameError: there is no such item.
        """
        ids = self._asked() if items is None else [self.items.id_of(name) for name in items]
        known = dict(zip(self.task.labelled.tolist(), self.task.label.tolist(), strict=True))
        rows = self.probabilities_of(torch.tensor(ids)).tolist() if ids else []
        return ClassPredictions(
            self._prediction(item, shares, known.get(item)) for item, shares in zip(ids, rows, strict=True)
        )

    def _asked(self) -> list[int]:
        """All items that classes make sense for: nodes that have a relation most labelled ones have, in its place."""
        if self.task.kind == "graphs":
            return list(range(self.task.num_items))
        labelled = set(self.task.labelled.tolist())
        triples = self.task.triples
        best: set[int] = labelled
        most = 0.0
        for column in (0, 2):
            for relation in range(self.task.num_relations):
                there = set(triples[triples[:, 1] == relation, column].tolist())
                covered = len(there & labelled) / len(labelled)
                if covered > 0.9 and covered / len(there) > most:  # the narrowest that most labelled nodes are in
                    best, most = there | labelled, covered / len(there)
        return sorted(best)

    def _prediction(self, item: int, shares: list[float], known: int | None) -> ClassPrediction:
        classes = self.task.classes
        place = max(range(len(shares)), key=shares.__getitem__)
        told = classes[place] if shares[place] >= self.fitted.threshold else UNSURE
        return ClassPrediction(
            item=self.items.shown(item),
            item_label=self.items.labels[item],
            told=told,
            best=classes[place],
            probability=shares[place],
            probabilities=dict(zip(classes, shares, strict=True)),
            known=None if known is None else classes[known],
        )

    def evaluate(self, part: str = "test", voters: Voters = "all") -> ClassEvaluation:
        """Judge held-out labels.

        Args:
            part: "valid" judges the labels to train on, each by a member that did not see it.
            voters: "encoder" or "counts" judges as these alone would.

        Raises:
            TuckerkgError: there are no such labels, or no counts.
        """
        if voters == "counts" and self.counts is None:
            raise TuckerkgError(f"{self.path}: counts nothing (classify.counts=none)")
        fitted = self.fitted if voters == "all" else self._fitted_for(voters)
        if part == "valid" and len(self.scores) > 1:
            scores, counts, label = self._unseen(voters)
            shares = fitted.of(scores[None], counts)
            return _evaluation(shares, label, self.task.classes, fitted.threshold)
        items, label = self.task.of_part(TEST)
        if part != "test" or not len(items):
            raise TuckerkgError(f"{self.path}: has no labels to judge as '{printable(part)}'; expected test or valid")
        return _evaluation(fitted.of(*self._scores_of(items, voters)), label, self.task.classes, fitted.threshold)

    def judged(self) -> dict[str, ClassEvaluation]:
        """Evaluations by part: "valid" where members do not see all labels, "test" where some are held out."""
        parts = ["valid"] if len(self.scores) > 1 else []
        parts += ["test"] if bool((self.task.part == TEST).any()) else []
        return {part: self.evaluate(part) for part in parts}

    def alone(self) -> dict[str, dict[str, float]]:
        """Accuracies of encoders and counts by part, each alone; empty where nothing is counted."""
        if self.counts is None:
            return {}
        voters: tuple[Voters, ...] = ("encoder", "counts")
        return {each: {part: self.evaluate(part, each).judgement.accuracy for part in self.judged()} for each in voters}

    def explain(self, item: str, count: int = 5) -> ClassExplanation:
        """The facts that carried an item's most probable class, the strongest first.

        Raises:
            UnknownNameError: there is no such item.
        """
        number = self.items.id_of(item)
        place = int(self.probabilities_of(torch.tensor([number]))[0].argmax())
        found = explain_item(self.task, self.model, self.fitted, number, place, count, self.counts)
        return ClassExplanation.of(self.items.shown(number), self.task.classes[place], found, self._fact)

    def _fact(self, row: int) -> str:
        head, relation, tail = self.task.triples[row].tolist()
        return f"{self.nodes.shown(head)} {self.relations.shown(relation)} {self.nodes.shown(tail)}"


def _evaluation(probabilities: Tensor, label: Tensor, classes: tuple[str, ...], threshold: float) -> ClassEvaluation:
    said, told = probabilities.max(1)
    answered = said >= threshold
    right = (told == label) & answered
    share = float(right.sum() / answered.sum()) if answered.any() else float("nan")
    return ClassEvaluation(judge(probabilities, label, classes), float(answered.double().mean()), share)


def load_class_run(path: str | Path, checkpoint: Which = "best") -> ClassRun:
    """Open a run folder that ``classify`` wrote, with its best weights.

    Raises:
        RunFolderError: it is not a run folder, or is damaged.
        TuckerkgError: it is of another kind.
    """
    return ClassRun(RunFolder.open(Path(path)), checkpoint)

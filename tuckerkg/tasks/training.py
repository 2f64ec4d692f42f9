"""Training a committee on labels: in a run folder with the loop of every other model, or in memory to choose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tuckerkg.batches.phases import Schedule
from tuckerkg.config.settings import Settings
from tuckerkg.graph.message_graph import MessageGraph
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.tasks.figures import Judgement, judge
from tuckerkg.tasks.model import Committee, message_graph
from tuckerkg.tasks.probabilities import fit_probabilities, unseen_scores
from tuckerkg.tasks.task import TRAIN, Task, read_task, stratified_folds
from tuckerkg.training.callbacks import Callback, NullCallback, State
from tuckerkg.training.loop import Loop, fit, own_random_state, step_seed, threads
from tuckerkg.training.optim import ModelOptimizer, learning_rate
from tuckerkg.types import ProgressFunction

BEHIND = 0.95  # of the best trial's figure, below which a trial is given up
FOLD_SEED = 0  # of the labels that members do not see: the same for all seeds, so that their figures can be compared


@dataclass(frozen=True)
class LabelBatch:
    """All labels to train on, ``heads`` are the items: ``[m]``; ``fold`` says which member does not see which."""

    graph: MessageGraph
    heads: Tensor
    label: Tensor
    fold: Tensor

    def to(self, device: torch.device | str) -> LabelBatch:
        """The same batch on ``device``."""
        return LabelBatch(self.graph.to(device), self.heads.to(device), self.label.to(device), self.fold.to(device))


class LabelBatches:
    """Gives all labels at every step; a step is an epoch."""

    steps_per_epoch = 1

    def __init__(self, task: Task, model: Committee) -> None:
        items, label = task.of_part(TRAIN)
        fold = stratified_folds(label, len(model.members), FOLD_SEED)
        self.whole = LabelBatch(message_graph(task, model), items, label, fold)
        self.schedule = Schedule((), 1)

    def batch(self, step: int) -> LabelBatch:
        """The batch of any step."""
        return self.whole


class LabelObjective:
    """Cross entropy of each member on the labels that it sees, and the squared weights of all.

    Args:
        weight_decay: half of it times the squared weights is added: its gradient is that of Adam's weight decay.
    """

    def __init__(self, weight_decay: float) -> None:
        self.weight_decay = weight_decay

    def __call__(self, model: Committee, batch: LabelBatch) -> Tensor:
        """The sum over members of their mean losses, and the penalty."""
        scores: Tensor = model(batch.graph)[:, batch.heads]  # [K, m, C]
        value = scores.new_zeros(())
        for number, own in enumerate(scores):
            seen = torch.ones_like(batch.fold, dtype=torch.bool) if len(scores) == 1 else batch.fold != number
            value = value + F.cross_entropy(own[seen], batch.label[seen])
        if self.weight_decay:
            squares = torch.stack([parameter.square().sum() for parameter in model.parameters()])
            value = value + 0.5 * self.weight_decay * squares.sum()
        return value


class LabelValidation:
    """Judges every label by the member that does not see it; a committee of one is not judged."""

    def __init__(self, task: Task, model: Committee, batch: LabelBatch) -> None:
        self.classes, self.model, self.batch = task.classes, model, batch
        self.has_questions = len(model.members) > 1

    def __call__(self, progress: ProgressFunction | None = None) -> Judgement:
        """Score all items and compare, at the temperature that suits these scores best.

        Without it overconfidence, which a temperature mends, would choose the weights.
        """
        scores, label = self.scores()
        fitted = fit_probabilities(scores, label)
        return judge(fitted.of(scores[None]), label, self.classes)

    @torch.no_grad()
    def scores(self) -> tuple[Tensor, Tensor]:
        """Scores ``[m, C]`` of the labels by members that do not see them, and the labels."""
        self.model.eval()
        device = next(self.model.parameters()).device
        found = self.model(self.batch.graph.to(device))[:, self.batch.heads.to(device)].cpu()
        return unseen_scores(found, self.batch.fold), self.batch.label


class LabelLoop(Loop):
    """The training loop over a task's labels."""

    def build(self) -> None:
        """Make the committee, its optimizer, what is minimized, the batch and the validation."""
        task = read_task(self.folder)
        self.model = Committee(task, self.settings).to(self.device)
        train = self.settings.train
        self.optimizer = ModelOptimizer(self.model, train.optimizer, train.lr)
        self.objective = LabelObjective(self.settings.classify.weight_decay)
        self.batches: Any = LabelBatches(task, self.model)
        self.validation: Any = LabelValidation(task, self.model, self.batches.whole)

    def read_splits(self) -> dict[str, Any]:
        """Nothing: the task has the facts."""
        return {}


def fit_labels(folder: RunFolder, callback: Callback | None = None) -> State:
    """Train a run folder of this kind to its end; see ``fit``."""
    return fit(folder, callback, LabelLoop)


@dataclass(frozen=True)
class Trial:
    """What settings reached in memory: the best validation, and after how many epochs.

    Attributes:
        scores: of the labels to train on by members that do not see them, ``[m, C]``.
        curve: the best figure so far, after each validation.
    """

    settings: Settings
    judgement: Judgement
    epochs: int
    scores: Tensor
    label: Tensor
    curve: tuple[float, ...]


def try_settings(task: Task, settings: Settings, callback: Callback | None = None, rival: Trial | None = None) -> Trial:
    """Train in memory, to see what validation says; the same numbers as in a run folder with as many threads.

    A trial that is well behind its ``rival`` after a third of its epochs ends there.
    """
    train, callback = settings.train, callback or NullCallback()
    with own_random_state(), threads(train.threads):
        torch.manual_seed(train.seed)
        model = Committee(task, settings)
        optimizer = ModelOptimizer(model, train.optimizer, train.lr)
        objective, batches = LabelObjective(settings.classify.weight_decay), LabelBatches(task, model)
        validation = LabelValidation(task, model, batches.whole)
        total, every = max(1, round(train.epochs)), max(1, round(train.evaluate_every))
        best: Trial | None = None
        curve: list[float] = []
        for step in range(total):
            optimizer.set_lr(learning_rate(train, step, total))
            torch.manual_seed(step_seed(train.seed, step))
            model.train()
            optimizer.zero_grad()
            objective(model, batches.whole).backward()
            optimizer.clip(train.clip)
            optimizer.step()
            callback.stepped(step + 1, 0.0, train.lr)
            if (step + 1) % every == 0 or step + 1 == total:
                judgement = validation()
                if best is None or judgement.headline > best.judgement.headline:
                    best = Trial(settings, judgement, step + 1, *validation.scores(), ())
                curve.append(best.judgement.headline)
                if len(set(curve[-train.patience - 1 :])) == 1 and 0 < train.patience < len(curve):
                    break
                if 3 * step >= total and _is_behind(curve, rival):
                    break
        assert best is not None
        return replace(best, curve=tuple(curve))


def _is_behind(curve: list[float], rival: Trial | None) -> bool:
    """Whether a trial's best figure is well below that of another one as long after the start."""
    return rival is not None and curve[-1] < BEHIND * rival.curve[min(len(curve), len(rival.curve)) - 1]

"""The training loop, in sight. It opens the run folder's vocabulary, train and valid; never its test split."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from tuckerkg.ahead import Ahead
from tuckerkg.batches import Batch, TrainingGraph
from tuckerkg.checkpoint import Checkpoint, RunFolder
from tuckerkg.config import (
    Settings,
    TrainSettings,
    build_batches,
    build_loss,
    build_model,
    build_regulariser,
    parse_settings,
)
from tuckerkg.errors import NonFiniteError
from tuckerkg.evaluate import Evaluation, describe_protocol, known_answers, rank, report
from tuckerkg.graph import MessageGraph
from tuckerkg.interrupt import Interruptions, TrainingInterrupted
from tuckerkg.model import Model
from tuckerkg.optimisers import Optimiser
from tuckerkg.triples import add_inverses
from tuckerkg.weights import check_weights


@dataclass
class State:
    """Where training stands; saved with every checkpoint."""

    step: int = 0
    looked_at: int = -1  # step of the last look at validation
    best_mrr: float = -1.0
    best_step: int = 0
    looks_without_gain: int = 0
    minutes: float = 0.0
    cpu_minutes: float = 0.0
    started_from: str = ""  # the run whose weights were the start; its minutes count


class Observer(Protocol):
    """Told what happens; draws a progress bar, writes TensorBoard, or does nothing."""

    def started(self, state: State, total_steps: int, steps_per_epoch: int) -> None:
        """Training starts or goes on at ``state``."""

    def stepped(self, step: int, loss: float, lr: float) -> None:
        """One step is done."""

    def looked(self, epoch: float, evaluation: Evaluation, is_best: bool) -> None:
        """Validation was looked at."""

    def note(self, text: str) -> None:
        """Something a person should know."""


class Silent:
    """An observer that does nothing."""

    def started(self, state: State, total_steps: int, steps_per_epoch: int) -> None:
        """Does nothing."""

    def stepped(self, step: int, loss: float, lr: float) -> None:
        """Does nothing."""

    def looked(self, epoch: float, evaluation: Evaluation, is_best: bool) -> None:
        """Does nothing."""

    def note(self, text: str) -> None:
        """Does nothing."""


def fit(folder: RunFolder, observer: Observer | None = None) -> State:
    """Trains the run in ``folder`` from its newest checkpoint (or from the start) to its end.

    Interrupted by SIGINT or SIGTERM it saves and raises TrainingInterrupted; run it again to go on. With equal thread
    counts a resumed run ends with the same weights, bit for bit.
    """
    observer = Silent() if observer is None else observer
    settings = parse_settings(folder.settings, str(folder.path))
    with folder.lock(), Interruptions() as interruptions, _own_random_state(), _threads(settings.train.threads):
        return _Loop(folder, settings, observer, interruptions).run()


class _Loop:
    """What the loop holds on to; ``run`` is the loop."""

    def __init__(self, folder: RunFolder, settings: Settings, observer: Observer, interruptions: Interruptions) -> None:
        self.folder, self.settings, self.observer, self.interruptions = folder, settings, observer, interruptions
        self.device = choose_device(settings.train.device)
        num_entities, num_relations = len(folder.entities()), len(folder.relations())
        torch.manual_seed(settings.train.seed)
        self.model = build_model(settings, num_entities, num_relations).to(self.device)
        if settings.train.learns == "encoder":
            for name, parameter in self.model.named_parameters():
                parameter.requires_grad_(name.startswith("encoder."))
        self.optimiser = Optimiser(self.model, settings.train.optimiser, settings.train.lr)
        self.loss, self.regulariser = build_loss(settings), build_regulariser(settings)
        train = folder.split("train")
        encoder: Any = self.model.encoder
        graph = TrainingGraph(
            train,
            num_entities,
            num_relations,
            settings.train.seed,
            normalise=encoder.normalise,
            order=encoder.order,
            uses_graph=encoder.uses_graph,
            marks_known=self.loss.marks_known,
        )
        self.batches = build_batches(settings, graph)
        self.validation = Validation(folder, settings, self.model)
        self.steps_per_epoch = self.batches.steps_per_epoch
        self.total_steps = settings.train.steps or max(1, round(settings.train.epochs * self.steps_per_epoch))
        self.state = State()
        self.losses: list[float] = []

    def run(self) -> State:
        """Look, save, step, until the steps or the patience are used up."""
        self._restore()
        self.clock = _Clock(self.state)
        self.observer.started(self.state, self.total_steps, self.steps_per_epoch)
        try:
            with Ahead(self.batches, self.total_steps, self.settings.train.worker) as batches:
                while True:
                    if self._look_is_due():
                        self._look()
                        self._save()
                    if self.state.step >= self.total_steps or self._out_of_patience():
                        return self.state
                    self._step(batches.batch(self.state.step).to(self.device))
                    self.interruptions.check()
        except TrainingInterrupted:
            self._save()
            raise

    def _step(self, batch: Batch) -> None:
        step, train = self.state.step, self.settings.train
        lr = learning_rate(train, step, self.total_steps)
        self.optimiser.set_lr(lr)
        torch.manual_seed(_mix(train.seed, step))  # dropout's masks depend on (seed, step) only
        self.model.train()
        if train.learns == "encoder":
            for part in self.model.decoder.modules():
                part.train(not hasattr(part, "running_mean"))  # the statistics of its norms stay as well
        self.optimiser.zero_grad()
        value = self.model.loss(
            batch, self.loss, train.l2, train.l2_encoded, train.precision, self.regulariser, train.relation_loss
        )
        value.backward()
        norm = self.optimiser.clip(train.clip)
        self._refuse_non_finite(value, norm, len(batch.heads))
        self.optimiser.step()
        self.state.step += 1
        self.losses.append(value.item())
        self.observer.stepped(self.state.step, self.losses[-1], lr)

    def _refuse_non_finite(self, value: Tensor, norm: Tensor, num_queries: int) -> None:
        if torch.isfinite(value) and torch.isfinite(norm):
            return
        raise NonFiniteError(
            f"step {self.state.step}: loss {value.item()}, gradient norm {norm.item()} in a batch of {num_queries} "
            f"queries (seed {self.settings.train.seed}); nothing of this step was kept. "
            f"The newest checkpoint is step {max(self.folder.steps(), default=0)}: "
            "try a smaller train.lr, or train.clip=1.0"
        )

    def _look_is_due(self) -> bool:
        train, step = self.settings.train, self.state.step
        if step == 0 and self.state.started_from and not train.evaluate_from:
            return self.state.looked_at < 0  # weights that were trained before may be the best
        every = max(1, round(train.evaluate_every * self.steps_per_epoch))
        if step == self.state.looked_at or step < train.evaluate_from * self.steps_per_epoch:
            return step == self.total_steps != self.state.looked_at
        return step == self.total_steps or (step > 0 and step % every == 0)

    def _look(self) -> None:
        evaluation = self.validation(lambda *_: self.interruptions.check())
        state = self.state
        state.looked_at = state.step
        is_best = evaluation.mrr > state.best_mrr
        if is_best:
            state.best_mrr, state.best_step, state.looks_without_gain = evaluation.mrr, state.step, 0
        else:
            state.looks_without_gain += 1
        self.clock.tell(state)
        self.folder.append_metrics(
            {
                "step": state.step,
                "epoch": round(state.step / self.steps_per_epoch, 4),
                "minutes": round(state.minutes, 4),
                "loss": float(np.mean(self.losses)) if self.losses else None,
                "lr": learning_rate(self.settings.train, state.step, self.total_steps),
                "valid": evaluation.overall.as_dict(),
            }
        )
        self.losses.clear()
        self.observer.looked(state.step / self.steps_per_epoch, evaluation, is_best)

    def _out_of_patience(self) -> bool:
        patience = self.settings.train.patience
        return bool(patience) and self.state.looks_without_gain >= patience

    def _save(self) -> None:
        self.clock.tell(self.state)
        self.folder.save(
            self.state.step,
            {name: tensor.cpu() for name, tensor in self.model.state_dict().items()},
            self.optimiser.tensors(),
            {**asdict(self.state), "losses": self.losses},
            keep={self.state.best_step},
        )

    def _restore(self) -> None:
        """Goes on from the newest checkpoint; a fresh run saves its start, which proves that saving works here."""
        checkpoint = self.folder.load(on_fallback=self.observer.note)
        if checkpoint is None:
            self.clock = _Clock(self.state)
            self._save()
            return
        restore_weights(self.model, checkpoint)
        self.optimiser.restore(checkpoint.optimiser)
        state = dict(checkpoint.state)
        self.losses = list(state.pop("losses", []))
        self.state = State(**state)
        self.folder.truncate_metrics(self.state.looked_at)


class Validation:
    """Ranks the validation split, filtered by train and valid: the test split is not opened."""

    def __init__(self, folder: RunFolder, settings: Settings, model: Model) -> None:
        self.settings, self.model = settings, model
        self.splits = {name: folder.split(name) for name in ("train", "valid")}
        self.relation_names = folder.relations()
        num_relations = len(self.relation_names)
        self.known = known_answers(list(self.splits.values()), num_relations).to(model.entities.device)
        self.graph = whole_message_graph(model, self.splits["train"])
        self.seen = seen_entities(self.splits["train"], model.num_entities)
        self.protocol = describe_protocol(
            self.splits,
            split="valid",
            filtered_by=["train", "valid"],
            tie_seed=settings.evaluate.tie_seed,
            num_entities=model.num_entities,
        )

    def __call__(self, tick: Callable[[int, int], None] | None = None) -> Evaluation:
        """Encodes once and ranks."""
        model, evaluate = self.model, self.settings.evaluate
        encoded = model.encoded(self.graph)
        ranks = rank(
            encoded.scores, self.splits["valid"], self.known, model.num_entities, model.num_relations, tick=tick
        )
        return report(
            ranks,
            split="valid",
            seen=self.seen,
            relation_names=self.relation_names,
            protocol=self.protocol,
            hits=evaluate.hits,
            tie_seed=evaluate.tie_seed,
        )


def whole_message_graph(model: Model, train: np.ndarray) -> MessageGraph | None:
    """The messages at evaluation and prediction: all training triples and their inverses."""
    encoder: Any = model.encoder
    if not encoder.uses_graph:
        return None
    edges = torch.from_numpy(add_inverses(train, model.num_relations))
    return MessageGraph.of(edges, model.num_entities, encoder.normalise, order="fewest").to(model.entities.device)


def seen_entities(train: np.ndarray, num_entities: int) -> np.ndarray:
    """Which entities occur in training, ``[N]``."""
    seen = np.zeros(num_entities, dtype=bool)
    seen[train[:, 0]] = True
    seen[train[:, 2]] = True
    return seen


def learning_rate(train: TrainSettings, step: int, total_steps: int) -> float:
    """The rate of step ``step``, a function of the step alone, so that there is no schedule to save.

    "one-cycle" rises linearly over the first ``warmup`` share, then falls along a cosine to a thousandth.
    """
    if train.schedule == "constant":
        return train.lr
    if train.schedule == "step":
        return train.lr * train.decay ** (step // train.decay_every)
    rise = max(1.0, train.warmup * total_steps)
    if step < rise:
        return train.lr * (0.04 + 0.96 * step / rise)
    fall = min(1.0, (step - rise) / max(1.0, total_steps - rise))
    return train.lr * (0.001 + 0.999 * 0.5 * (1.0 + math.cos(math.pi * fall)))


def restore_weights(model: Model, checkpoint: Checkpoint) -> None:
    """Loads weights after checking every name, shape, type and value."""
    expected = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in model.state_dict().items()}
    check_weights(checkpoint.weights, expected)
    model.load_state_dict(checkpoint.weights)


def choose_device(name: str) -> torch.device:
    """``auto`` is CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def _mix(seed: int, step: int) -> int:
    """One 63-bit number from (seed, step), far apart for neighbours."""
    return int(np.random.SeedSequence([seed, 3, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class _Clock:
    """Minutes of this run, earlier parts included; monotonic, so that a changed clock does not matter."""

    def __init__(self, state: State) -> None:
        self.wall = time.monotonic() - 60.0 * state.minutes
        self.cpu = time.process_time() - 60.0 * state.cpu_minutes

    def tell(self, state: State) -> None:
        """Writes the time into ``state``."""
        state.minutes = (time.monotonic() - self.wall) / 60.0
        state.cpu_minutes = (time.process_time() - self.cpu) / 60.0


@contextmanager
def _own_random_state() -> Iterator[None]:
    """Leaves the caller's torch random state as it was."""
    with torch.random.fork_rng():
        yield


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""The training loop, in sight. It opens the run folder's vocabulary, train and valid; never its test split."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
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
from tuckerkg.evaluate import Evaluation
from tuckerkg.interrupt import Interruptions, TrainingInterrupted
from tuckerkg.model import Model
from tuckerkg.optimisers import Optimiser
from tuckerkg.shortage import explained_shortage
from tuckerkg.validation import Validation
from tuckerkg.weights import check_weights

SLOW_SAVE = 5.0  # seconds; a save that takes longer is told


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
    threads: int = 0  # of torch, when this was saved


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
    enough = explained_shortage(lambda: _smaller(folder, settings))
    with folder.lock(), Interruptions() as interruptions, _own_random_state(), _threads(settings.train.threads), enough:
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
                        self._save()  # a look may take long, and may be killed
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
        self.state.threads = torch.get_num_threads()
        start = time.monotonic()
        self.folder.save(
            self.state.step,
            {name: tensor.cpu() for name, tensor in self.model.state_dict().items()},
            self.optimiser.tensors(),
            {**asdict(self.state), "losses": self.losses, "settings": self.folder.settings},
            keep={self.state.best_step},
        )
        if (seconds := time.monotonic() - start) > SLOW_SAVE:
            self.observer.note(
                f"saving step {self.state.step} took {seconds:.1f} s: the disk of {self.folder.path} is slow. "
                "Save less often with a larger train.evaluate_every, or choose a faster place by --out."
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
        changed = differences(state.pop("settings", self.folder.settings), self.folder.settings)
        self.state = State(**state)
        self._tell_what_changed(changed)
        self.folder.truncate_metrics(self.state.looked_at)

    def _tell_what_changed(self, changed: list[str]) -> None:
        """A run that goes on elsewhere, or with settings edited by hand, goes on as it is now, and says so."""
        now, then = torch.get_num_threads(), self.state.threads
        if then not in (0, now):
            self.observer.note(
                f"torch has {now} threads, at step {self.state.step} it had {then}: going on, but sums are rounded "
                f"differently, so the weights will not be equal bit for bit (train.threads={then} would make them so)"
            )
        if changed:
            self.observer.note(
                f"{self.folder.path}: settings.json was changed since step {self.state.step}; going on with what it "
                f"says now: {'; '.join(changed)}"
            )


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


def differences(former: Any, now: Any, name: str = "") -> list[str]:
    """What differs between two trees of settings, in words: ``train.lr 0.01 -> 0.02``."""
    if not isinstance(former, dict) or not isinstance(now, dict):
        return [] if former == now else [f"{name} {former} -> {now}"]
    found = []
    for key in [*former, *(key for key in now if key not in former)]:
        place = f"{name}.{key}" if name else key
        found += differences(former.get(key, "not set"), now.get(key, "not set"), place)
    return found


def _smaller(folder: RunFolder, settings: Settings) -> str:
    """What to make smaller when there is not enough memory, and what was kept."""
    sizes = [
        f"batch.{name} (now {settings.batch[name]:,})" for name in ("queries", "triples") if name in settings.batch
    ]
    kept = folder.steps()
    return f"Train again with a smaller {' or '.join([*sizes, f'model.dim (now {settings.model.dim})'])}. " + (
        f"The checkpoint of step {kept[-1]} is kept in {folder.path}." if kept else "Nothing was saved yet."
    )


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

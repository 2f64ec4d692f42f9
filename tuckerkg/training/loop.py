"""The training loop: step, validate, save; resumable at any step with the same bits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuckerkg.batches.batch import Batches, StepBatch
from tuckerkg.batches.prefetch import Prefetch
from tuckerkg.config.build import build_model, build_training
from tuckerkg.config.settings import Settings, settings_of_run
from tuckerkg.errors import NonFiniteError
from tuckerkg.losses.objective import Minimized
from tuckerkg.nn.model import choose_device
from tuckerkg.out_of_memory import explain_out_of_memory
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.storage.weights import restore_weights
from tuckerkg.training.callbacks import Callback, Judgement, NullCallback, State
from tuckerkg.training.optim import ModelOptimizer, learning_rate
from tuckerkg.training.signals import Interruptions, TrainingInterrupted
from tuckerkg.training.validation import Validation
from tuckerkg.types import JsonObject

SLOW_SAVE = 5.0  # seconds; a slower save is logged


def fit(folder: RunFolder, callback: Callback | None = None, loop: type[Loop] | None = None) -> State:
    """Train the run in ``folder`` from its newest checkpoint, or from the start, to its end.

    With equal thread counts a resumed run ends with the same weights as an uninterrupted one, bit for bit.
    ``loop`` trains runs of another kind.

    Raises:
        TrainingInterrupted: SIGINT or SIGTERM came; the state is saved.
        NonFiniteError: the loss or a gradient is NaN or infinite; the last checkpoint is untouched.
    """
    callback = NullCallback() if callback is None else callback
    settings = settings_of_run(folder)
    memory = explain_out_of_memory(lambda: smaller(folder, settings))
    with folder.lock(), Interruptions() as interruptions, own_random_state(), threads(settings.train.threads), memory:
        try:
            return (loop or Loop)(folder, settings, callback, interruptions).run()
        finally:
            callback.close()


class Loop:
    """Everything that a run needs; ``run`` is the loop.

    Attributes:
        writes: whether this process writes the metrics and notes which weights are the best.
    """

    writes = True

    def __init__(self, folder: RunFolder, settings: Settings, callback: Callback, interruptions: Interruptions) -> None:
        self.folder, self.settings, self.callback, self.interruptions = folder, settings, callback, interruptions
        self.device = choose_device(settings.train.device)
        self.relations = folder.relations()
        self.splits = self.read_splits()
        torch.manual_seed(settings.train.seed)
        self.build()
        self.steps_per_epoch = self.batches.steps_per_epoch
        self.total_steps = settings.train.steps or max(1, round(settings.train.epochs * self.steps_per_epoch))
        self.state = State()
        self.losses: list[float] = []

    def read_splits(self) -> dict[str, np.ndarray]:
        """The triples that training and validation read."""
        return {name: self.folder.split(name) for name in ("train", "valid")}

    def build(self) -> None:
        """Make the model, its optimizer, what is minimized, the batches and the validation."""
        self.build_model()
        self.objective: Minimized
        self.batches: Batches
        self.objective, self.batches = build_training(self.settings, self.model, self.splits["train"])
        self.validation = Validation(self.splits, self.relations, self.settings, self.model)

    def build_model(self) -> None:
        """Make the model and its optimizer."""
        train = self.settings.train
        model = build_model(self.settings, self.folder.num_entities(), len(self.relations)).to(self.device)
        self.model: Any = model
        self.optimizer = ModelOptimizer(model, train.optimizer, train.lr)

    def run(self) -> State:
        """Validate, save, step, until the steps or the patience are used up."""
        self.restore()
        self.clock = _Clock(self.state)
        self.callback.started(self.state, self.total_steps, self.steps_per_epoch)
        try:
            with Prefetch(self.batches, self.total_steps) as batches:
                while True:
                    if self._validation_is_due():
                        if self.validation.has_questions:
                            self.save()  # validating may take long, and may be killed
                        self._validate()
                        self.save()
                    if self.state.step >= self.total_steps or self._out_of_patience():
                        return self.state
                    self._step(self.complete(batches.batch(self.state.step)).to(self.device))
                    self.check_interruptions()
        except TrainingInterrupted:
            self.save()
            raise

    def complete(self, batch: StepBatch) -> StepBatch:
        """What is left to do for a batch outside the worker that makes batches."""
        return batch

    def check_interruptions(self) -> None:
        """Raise TrainingInterrupted where it is asked for."""
        self.interruptions.check()

    def _step(self, batch: StepBatch) -> None:
        step, train = self.state.step, self.settings.train
        lr = learning_rate(train, step, self.total_steps)
        self.optimizer.set_lr(lr)
        torch.manual_seed(step_seed(train.seed, step))  # dropout's masks depend on (seed, step) only
        self.model.train()
        self.optimizer.zero_grad()
        value = self.objective(self.model, batch)
        value.backward()
        norm = self.optimizer.clip(train.clip)
        self._refuse_non_finite(value, norm, len(batch.heads))
        self.optimizer.step()
        self.state.step += 1
        self.losses.append(value.item())
        self.callback.stepped(self.state.step, self.losses[-1], lr)

    def _refuse_non_finite(self, value: Tensor, norm: Tensor, num_queries: int) -> None:
        if torch.isfinite(value) and torch.isfinite(norm):
            return
        raise NonFiniteError(
            f"step {self.state.step}: loss {value.item()}, gradient norm {norm.item()} in a batch of {num_queries} "
            f"queries (seed {self.settings.train.seed}); nothing of this step was kept. "
            f"The newest checkpoint is step {max(self.folder.checkpoints.steps(), default=0)}: "
            "try a smaller train.lr, or train.clip=1.0"
        )

    def _validation_is_due(self) -> bool:
        step, validated_at = self.state.step, self.state.validated_at
        if step == validated_at:
            return False
        if step == self.total_steps:
            return True
        if not self.batches.schedule.at(step).evaluate:
            return False
        if step == 0:
            return bool(self.state.started_from)  # weights that were trained before may be the best
        return step % max(1, round(self.settings.train.evaluate_every * self.steps_per_epoch)) == 0

    def _validate(self) -> None:
        """Judge the validation split and note the best weights; without one, the last weights are the best."""
        evaluation: Judgement | None = None
        if self.validation.has_questions:
            evaluation = self.validation(lambda *_: self.check_interruptions())
        state = self.state
        state.validated_at = state.step
        is_best = evaluation is None or state.best_mrr is None or evaluation.headline > state.best_mrr
        if is_best:
            state.best_step, state.validations_without_improvement = state.step, 0
            state.best_mrr = None if evaluation is None else evaluation.headline
        else:
            state.validations_without_improvement += 1
        self.clock.update(state)
        row = {
            "step": state.step,
            "epoch": round(state.step / self.steps_per_epoch, 4),
            "minutes": round(state.minutes, 4),
            "loss": float(np.mean(self.losses)) if self.losses else None,
            "lr": learning_rate(self.settings.train, state.step, self.total_steps),
            "valid": None if evaluation is None else dict(evaluation.figures()),
        }
        if self.writes:
            self.folder.metrics.append(row)
        self.losses.clear()
        epoch = state.step / self.steps_per_epoch
        if evaluation is None:
            self.callback.passed(epoch)
        else:
            self.callback.validated(epoch, evaluation, is_best)

    def _out_of_patience(self) -> bool:
        patience = self.settings.train.patience
        return bool(patience) and self.state.validations_without_improvement >= patience

    def save(self) -> None:
        """Save this step, and say so where it took long."""
        self.clock.update(self.state)
        self.state.threads = torch.get_num_threads()
        start = time.monotonic()
        if self.writes:
            self.folder.metrics.sync()  # a checkpoint that survives a power cut must not be ahead of its metrics
        self.write({**asdict(self.state), "losses": self.losses, "settings": self.folder.settings})
        if (seconds := time.monotonic() - start) > SLOW_SAVE:
            self.callback.log(
                f"saving step {self.state.step} took {seconds:.1f} s: the disk of {self.folder.path} is slow. "
                "Save less often with a larger train.evaluate_every, or choose a faster place by --out."
            )

    def write(self, state: JsonObject) -> None:
        """Write the checkpoint of this step."""
        self.folder.checkpoints.save(
            self.state.step,
            {name: tensor.cpu() for name, tensor in self.model.state_dict().items()},
            self.optimizer.tensors(),
            state,
            best=self.state.best_step,
        )

    def restore(self) -> None:
        """Load the newest checkpoint; a fresh run saves its start, which proves that saving works here."""
        checkpoint = self.folder.checkpoints.newest(on_fallback=self.callback.log)
        if checkpoint is None:
            self.begin()
            return
        restore_weights(self.model, checkpoint.weights)
        self.optimizer.restore(checkpoint.optimizer)
        self.restore_state(checkpoint.state)

    def begin(self) -> None:
        """Save the start."""
        self.clock = _Clock(self.state)
        self.save()

    def restore_state(self, saved: JsonObject) -> None:
        """Go on from the state of a checkpoint."""
        state = dict(saved)
        self.losses = list(state.pop("losses", []))
        changed = differences(state.pop("settings", self.folder.settings), self.folder.settings)
        self.state = State(**state)
        self._log_changes(changed)
        if self.writes:
            self.folder.checkpoints.note_best(self.state.best_step)  # a crash may have come between the two
            self.folder.metrics.truncate(self.state.validated_at)

    def _log_changes(self, changed: list[str]) -> None:
        """Say what differs from when the checkpoint was saved; training continues with what is there now."""
        now, then = torch.get_num_threads(), self.state.threads
        if then not in (0, now):
            self.callback.log(
                f"torch has {now} threads, at step {self.state.step} it had {then}: continuing, but sums are rounded "
                f"differently, so the weights will not be equal bit for bit (train.threads={then} would make them so)"
            )
        if changed:
            self.callback.log(
                f"{self.folder.path}: settings.json was changed since step {self.state.step}; continuing with what it "
                f"says now: {'; '.join(changed)}"
            )


def differences(former: Any, now: Any, name: str = "") -> list[str]:
    """What differs between two trees of settings, in words: ``train.lr 0.01 -> 0.02``."""
    if not isinstance(former, dict) or not isinstance(now, dict):
        return [] if former == now else [f"{name} {former} -> {now}"]
    found = []
    for key in [*former, *(key for key in now if key not in former)]:
        place = f"{name}.{key}" if name else key
        found += differences(former.get(key, "not set"), now.get(key, "not set"), place)
    return found


def smaller(folder: RunFolder, settings: Settings) -> str:
    """What to reduce when memory runs out, and what was saved."""
    if settings.kind == "paths":  # a thread holds the states of one question
        paths = settings.paths
        sizes = [f"paths.width (now {paths.width})", f"paths.layers (now {paths.layers})", "train.threads"]
    elif settings.kind in ("nodes", "graphs"):
        sizes = [f"model.dim (now {settings.model.dim})", f"classify.members (now {settings.classify.members})"]
    else:
        options = settings.batch.options
        sizes = [f"batch.{name} (now {options[name]:,})" for name in ("queries", "triples") if name in options]
        sizes.append(f"model.dim (now {settings.model.dim})")
    saved = folder.checkpoints.steps()
    return f"Train again with a smaller {' or '.join(sizes)}. " + (
        f"The checkpoint of step {saved[-1]} is kept in {folder.path}." if saved else "Nothing was saved yet."
    )


def step_seed(seed: int, step: int) -> int:
    """One 63-bit number from (seed, step), far apart for neighbours."""
    return int(np.random.SeedSequence([seed, 3, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class _Clock:
    """Minutes of this run, earlier parts included; monotonic, so that a changed system clock does not matter."""

    def __init__(self, state: State) -> None:
        self.wall = time.monotonic() - 60.0 * state.minutes
        self.cpu = time.process_time() - 60.0 * state.cpu_minutes

    def update(self, state: State) -> None:
        """Write the time into ``state``."""
        state.minutes = (time.monotonic() - self.wall) / 60.0
        state.cpu_minutes = (time.process_time() - self.cpu) / 60.0


@contextmanager
def own_random_state() -> Iterator[None]:
    """Leave the caller's torch random state as it was."""
    with torch.random.fork_rng():
        yield


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch's threads while it is entered; 0: as they are."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

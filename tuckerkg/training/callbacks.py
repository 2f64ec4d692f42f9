"""Callbacks of the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class Judgement(Protocol):
    """What a validation found."""

    headline_name: str

    @property
    def headline(self) -> float:
        """What training maximizes."""
        ...

    def figures(self) -> Mapping[str, float]:
        """All of it, by name."""
        ...


@dataclass
class State:
    """How far training is; saved with every checkpoint."""

    step: int = 0
    validated_at: int = -1  # step of the last validation
    best_mrr: float | None = None  # what validation maximizes, which may be no MRR; None: nothing was judged
    best_step: int = 0
    validations_without_improvement: int = 0
    minutes: float = 0.0
    cpu_minutes: float = 0.0
    started_from: str = ""  # the run whose weights were the start; its minutes count
    threads: int = 0  # of torch, when this was saved


class Callback:
    """Called by the training loop. Override what you need; by itself it does nothing."""

    def started(self, state: State, total_steps: int, steps_per_epoch: int) -> None:
        """Training starts, or resumes at ``state``."""

    def stepped(self, step: int, loss: float, lr: float) -> None:
        """One step is done."""

    def validated(self, epoch: float, evaluation: Judgement, is_best: bool) -> None:
        """The validation split was judged."""

    def passed(self, epoch: float) -> None:
        """Where the validation split would have been ranked, of a run that has none; the weights are saved."""

    def log(self, text: str) -> None:
        """Something the user should know."""

    def close(self) -> None:
        """Training has ended, for whatever reason."""


class NullCallback(Callback):
    """Does nothing."""

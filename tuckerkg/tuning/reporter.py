"""What a trial's training tells the search, and what stops it early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.training.callbacks import Callback, Judgement, State

if TYPE_CHECKING:
    import optuna


class Reporter(Callback):
    """Reports every validation to Optuna, and stops the trial when it is weaker than most at that epoch."""

    def __init__(self, trial: optuna.Trial, folder: RunFolder, callback: Callback, figure: str) -> None:
        self.trial, self.callback = trial, callback
        self.reported: set[int] = set()
        for row in folder.metrics.rows():  # of a part that was trained before
            self._report(row["epoch"], row["valid"][figure])

    def started(self, state: State, total_steps: int, steps_per_epoch: int) -> None:
        """Passed on."""
        self.callback.started(state, total_steps, steps_per_epoch)

    def stepped(self, step: int, loss: float, lr: float) -> None:
        """Passed on."""
        self.callback.stepped(step, loss, lr)

    def passed(self, epoch: float) -> None:
        """Passed on."""
        self.callback.passed(epoch)

    def log(self, text: str) -> None:
        """Passed on."""
        self.callback.log(text)

    def close(self) -> None:
        """Passed on."""
        self.callback.close()

    def validated(self, epoch: float, evaluation: Judgement, is_best: bool) -> None:
        """Passed on and reported; then it may raise TrialPruned."""
        import optuna  # noqa: PLC0415

        self.callback.validated(epoch, evaluation, is_best)
        self._report(epoch, evaluation.headline)
        if self.trial.should_prune():
            raise optuna.TrialPruned

    def _report(self, epoch: float, mrr: float) -> None:
        step = round(1_000 * epoch)
        if step not in self.reported:  # one that came after the last checkpoint is made again
            self.reported.add(step)
            self.trial.report(mrr, step)

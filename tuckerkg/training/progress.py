"""What users see while training: a bar with epoch, loss, validation MRR and time left, or plain lines in a log."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from tuckerkg.console import UnbreakableConsole
from tuckerkg.errors import printable
from tuckerkg.training.callbacks import Callback, Judgement, State


class Progress(Callback):
    """A callback for the terminal. A closed or full output silences it; training continues."""

    def __init__(self, console: Console | None = None, board: Any = None) -> None:
        self.console = UnbreakableConsole(stderr=True) if console is None else console
        self.board = board  # a TensorBoard writer, or None
        self.bar: Bar | None = None
        self.task = TaskID(0)
        self.best: float | None = None
        self.headline = "MRR"
        self.mean_loss = float("nan")
        self.total, self.steps_per_epoch, self.first = 1, 1, 0
        self.began = time.monotonic()

    def started(self, state: State, total_steps: int, steps_per_epoch: int) -> None:
        """Draw the bar, or say what will happen."""
        self.total, self.steps_per_epoch, self.first = total_steps, steps_per_epoch, state.step
        self.best, self.mean_loss = state.best_mrr, float("nan")
        self.began = time.monotonic()
        if self.console.is_terminal:
            self.bar = Bar(
                TextColumn("epoch {task.fields[epoch]}"),
                BarColumn(),
                TextColumn("loss {task.fields[loss]:.4f}{task.fields[mrr]}"),
                TimeRemainingColumn(elapsed_when_finished=True),
                TextColumn("left"),
                console=self.console,
                refresh_per_second=4,
            )
            self.task = self.bar.add_task(
                "",
                total=total_steps,
                completed=state.step,
                epoch=self._epoch(state.step),
                loss=float("nan"),
                mrr=self._shown_best(),
            )
            self.bar.start()
        elif state.step:
            self._say(f"resuming at step {state.step:,} of {total_steps:,}")

    def stepped(self, step: int, loss: float, lr: float) -> None:
        """Move the bar."""
        self.mean_loss = loss if self.mean_loss != self.mean_loss else 0.98 * self.mean_loss + 0.02 * loss
        if self.bar is not None:
            self._draw(completed=step, epoch=self._epoch(step), loss=self.mean_loss, mrr=self._shown_best())
        if self.board is not None:
            self.board.add_scalar("train/loss", loss, step)
            self.board.add_scalar("train/lr", lr, step)
        if step >= self.total:
            self.close()

    def validated(self, epoch: float, evaluation: Judgement, is_best: bool) -> None:
        """Show the new figure."""
        self.best, self.headline = (evaluation.headline if is_best else self.best), evaluation.headline_name
        step = round(epoch * self.steps_per_epoch)
        if self.board is not None:
            for name, value in evaluation.figures().items():
                self.board.add_scalar(f"valid/{name}", value, step)
        if self.bar is not None:
            self._draw(mrr=self._shown_best())
        elif step == self.first:
            self._say(f"start: valid {self.headline} {evaluation.headline:.4f}")
        else:
            self._say_epoch(step, f"valid {self.headline} {evaluation.headline:.4f}{' *' if is_best else '  '}  ")

    def passed(self, epoch: float) -> None:
        """Show the loss, where there is no bar."""
        if self.bar is None:
            self._say_epoch(round(epoch * self.steps_per_epoch), "")

    def log(self, text: str) -> None:
        """Print a line for the user."""
        self._say(printable(text))

    def close(self) -> None:
        """End the bar."""
        if self.bar is not None:
            bar, self.bar = self.bar, None
            try:
                bar.stop()
            except OSError:
                self._silence()
        if self.board is not None:
            self.board.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _epoch(self, step: int) -> str:
        return f"{step / self.steps_per_epoch:.4g}/{self.total / self.steps_per_epoch:.4g}"

    def _say_epoch(self, step: int, found: str) -> None:
        left = (time.monotonic() - self.began) / max(step - self.first, 1) * (self.total - step)
        self._say(f"epoch {self._epoch(step)}  loss {self.mean_loss:.4f}  {found}{_duration(left)} left")

    def _shown_best(self) -> str:
        return "" if self.best is None else f"  valid {self.headline} {self.best:.4f}"

    def _draw(self, **fields: Any) -> None:
        if self.bar is not None:
            try:
                self.bar.update(self.task, **fields)
            except OSError:
                self._silence()

    def _say(self, text: str) -> None:
        try:
            self.console.print(text, markup=False, highlight=False)
        except OSError:
            self._silence()

    def _silence(self) -> None:
        """Nobody reads any more: draw nothing, but keep training."""
        self.bar = None
        self.console = Console(quiet=True)


def tensorboard(folder: str) -> Any:
    """A TensorBoard writer, or an error that says how to get it."""
    from tuckerkg.errors import TuckerkgError  # noqa: PLC0415

    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
    except ImportError as error:
        raise TuckerkgError(
            "train.tensorboard needs the tensorboard package: pip install 'tuckerkg[tensorboard]'"
        ) from error
    return SummaryWriter(folder)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

"""Programs of their own for files that were sent: what inspection says of a graph, and training with live progress.

    python -m tuckerkg.serve.jobs.training inspect FILE MINUTES
    python -m tuckerkg.serve.jobs.training train FILE OUT MINUTES

Each line on standard output is JSON: an event with progress, or the result. An error that the user can mend is a line
too, and ends the program with status 2.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tuckerkg.errors import TuckerkgError
from tuckerkg.training.callbacks import Callback, Judgement, State

EVERY = 0.5  # seconds between two lines about steps


def say(**event: Any) -> None:
    """Write an event."""
    print(json.dumps(event, ensure_ascii=False), flush=True)


class Told(Callback):
    """Training's progress as events."""

    def __init__(self) -> None:
        self._total, self._spoken, self._since = 0, 0.0, 0.0

    def started(self, state: State, total_steps: int, steps_per_epoch: int) -> None:
        """A member begins."""
        self._total, self._since = total_steps, time.monotonic()
        say(event="started", total=total_steps)

    def stepped(self, step: int, loss: float, lr: float) -> None:
        """Now and then a line."""
        now = time.monotonic()
        if now - self._spoken >= EVERY:
            self._spoken = now
            left = (now - self._since) / max(step, 1) * max(self._total - step, 0)
            say(event="step", done=step, total=self._total, loss=loss, seconds_left=left)

    def validated(self, epoch: float, evaluation: Judgement, is_best: bool) -> None:
        """A point of the curve."""
        say(event="validated", epoch=epoch, mrr=evaluation.headline, best=is_best)

    def log(self, text: str) -> None:
        """What is decided and why."""
        say(event="log", text=text)


def inspect(file: Path, minutes: float) -> None:
    """Say what the graph is, and how long training would take."""
    from tuckerkg.automatic import make_plan  # noqa: PLC0415
    from tuckerkg.data.load import load  # noqa: PLC0415
    from tuckerkg.reports.inspection import inspect_dataset  # noqa: PLC0415

    dataset = load(str(file))
    report = inspect_dataset(dataset).as_dict()
    report["name"] = file.name
    report["files"] = [line.replace(str(file), file.name) for line in report["files"]]  # not where it lies here
    plan = make_plan(dataset, minutes=minutes)
    say(event="result", report=report, estimate_minutes=plan.seconds / 60.0)


def train(file: Path, out: Path, minutes: float) -> None:
    """Train what suits the graph."""
    from tuckerkg.api import train_automatically  # noqa: PLC0415
    from tuckerkg.data.load import load  # noqa: PLC0415

    run = train_automatically(
        load(str(file)), out, minutes=minutes, callback=Told(), log=lambda text: say(event="log", text=text)
    )
    run.calibration  # noqa: B018  (fitted once, here)
    say(event="result", checkpoint=run.step, mrr=run.state.get("best_mrr"))


def main(arguments: list[str]) -> int:
    """Do one of both."""
    try:
        if arguments[0] == "inspect":
            inspect(Path(arguments[1]), float(arguments[2]))
        else:
            train(Path(arguments[1]), Path(arguments[2]), float(arguments[3]))
    except TuckerkgError as error:
        say(event="error", text=str(error))
        return 2
    except MemoryError:
        say(event="error", text="the memory does not suffice for this graph")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

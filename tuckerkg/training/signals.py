"""SIGINT and SIGTERM during training: the first is remembered until it is safe to stop, the second acts at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from tuckerkg.errors import TuckerkgError


class TrainingInterrupted(TuckerkgError):
    """Training was asked to stop and saved its state. ``exit_code`` is 128 + the signal's number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.exit_code = 128 + number
        super().__init__(
            f"stopped by {signal.Signals(number).name}; the state is saved, "
            "continue with: tuckerkg train --resume and the run folder"
        )


class Interruptions:
    """Catches both signals while it is entered (in the main thread); ``check`` raises once one has come."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruptions:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def check(self) -> None:
        """Raise TrainingInterrupted if a signal has come; it is raised once."""
        if self.number is not None:
            number, self.number = self.number, None
            raise TrainingInterrupted(number)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self._restore(signal.SIG_DFL)  # a second signal ends the process now

    def _restore(self, handler: Any = None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before if handler is None else handler)

"""A line of JSON about every request, written by a thread of its own."""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuckerkg.errors import TuckerkgError

WAITING = 10_000  # lines; what comes while so many wait is left out
_log = logging.getLogger("tuckerkg.serve")


class AccessLog:
    """Appends to a file, or to standard output where it is called ``-``. Several processes may share one.

    Raises:
        TuckerkgError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = sys.stdout if str(path) == "-" else path.open("a", encoding="utf-8")
        except OSError as error:
            raise TuckerkgError(f"--access-log {path}: cannot be written: {error.strerror}") from None
        self._lines: queue.Queue[str] = queue.Queue(WAITING)
        threading.Thread(target=self._write, daemon=True, name="access-log").start()

    def __call__(self, row: dict[str, Any]) -> None:
        """Note a request."""
        row = row | {"time": datetime.fromtimestamp(row["time"], UTC).isoformat(timespec="milliseconds")}
        with suppress(queue.Full):
            self._lines.put_nowait(json.dumps(row) + "\n")

    def _write(self) -> None:
        while True:
            lines = [self._lines.get()]
            while not self._lines.empty() and len(lines) < 1_000:
                lines.append(self._lines.get_nowait())
            try:
                self._file.write("".join(lines))
                self._file.flush()
            except OSError as error:
                _log.warning("the access log cannot be written: %s", error.strerror)

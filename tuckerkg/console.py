"""A console that outlives its reader, and a progress bar for whatever takes long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from tuckerkg.types import ProgressFunction


class UnbreakableConsole(Console):
    """A console whose closed pipe is no reason to stop the program."""

    def on_broken_pipe(self) -> None:
        """Fall silent; rich's own would exit."""
        self.quiet = True


@contextmanager
def progress_bar(what: str) -> Iterator[ProgressFunction]:
    """Draw a bar with the time left on standard error, where that is a terminal; yields ``progress(done, total)``."""
    bar = Bar(
        TextColumn(what),
        BarColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    task = bar.add_task(what, total=None)
    with bar:
        yield lambda done, total: bar.update(task, completed=done, total=total)

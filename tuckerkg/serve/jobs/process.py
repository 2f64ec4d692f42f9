"""A program of its own for work that would keep others waiting: low priority, ended when nobody wants it any more."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

LINE_BYTES = 1 << 20
KILLED_AFTER = 5.0  # seconds that a program has to end by itself
LOOKED = 0.25  # seconds between two looks for a cancellation
NICE = 10


class Cancelled(Exception):
    """The work was to end."""


class Failed(Exception):
    """The program ended with an error, which this says in words."""


async def run_program(
    arguments: Sequence[str],
    hear: Callable[[dict[str, Any]], None],
    is_cancelled: Callable[[], bool],
    seconds: float,
) -> str:
    """Run ``python`` with these arguments until it ends.

    Args:
        arguments: of the interpreter.
        hear: called with each line of JSON on standard output.
        is_cancelled: asked now and then.
        seconds: that it may take.

    Returns:
        What else it wrote on standard output.

    Raises:
        Cancelled: it was to end, or took too long.
        Failed: it ended with an error.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TUCKERKG_")}
    environment |= {"OMP_NUM_THREADS": environment.get("OMP_NUM_THREADS", "1"), "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        limit=LINE_BYTES,
        start_new_session=True,
    )
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
    said: list[str] = []
    wrong: list[str] = []
    reading = asyncio.gather(_lines(process.stdout, hear, said), _lines(process.stderr, None, wrong))
    end = asyncio.get_running_loop().time() + seconds
    try:
        while process.returncode is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), LOOKED)
            if process.returncode is None and (is_cancelled() or asyncio.get_running_loop().time() > end):
                raise Cancelled
    finally:
        if process.returncode is None:
            await _end(process)
        await reading
    if process.returncode:
        raise Failed(_words(process.returncode, wrong))
    return "\n".join(said)


async def _lines(
    stream: asyncio.StreamReader | None, hear: Callable[[dict[str, Any]], None] | None, kept: list[str]
) -> None:
    assert stream is not None
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than any that is expected
            continue
        if not line:
            return
        text = line.decode("utf-8", "replace").rstrip("\n")
        event = None
        if hear is not None and text.startswith("{"):
            with suppress(ValueError):
                event = json.loads(text)
        if isinstance(event, dict) and hear is not None:
            hear(event)
        else:
            kept.append(text)
            del kept[:-50]


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask it to end, then make it end, with all that it started."""
    for number, seconds in ((signal.SIGTERM, KILLED_AFTER), (signal.SIGKILL, 60.0)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), seconds)
            return


def _words(status: int, wrong: list[str]) -> str:
    """The last thing that it said, if it was meant for people."""
    if status == 2 and wrong:
        return "\n".join(line.removeprefix("error: ") for line in wrong[-20:])
    if status == -signal.SIGKILL:
        return "it was killed, perhaps since the memory did not suffice"
    return "something went wrong here; the log of the service has it"

"""Bytes of answers that clients have not read yet, by client: who reads slowly holds little."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress

from prometheus_client import Gauge

ARENAS_OPTION, ARENAS = -8, 2  # M_ARENA_MAX of glibc's mallopt
ALL = 3  # times as many bytes for all clients as for one


class Held:
    """How much is held for whom; used on the event loop alone.

    Args:
        most: bytes for one client.
        gauge: shows how many are held in all.
        trim: called when none are held any more.
    """

    def __init__(self, most: int, gauge: Gauge, trim: Callable[[], None] = lambda: None) -> None:
        self.most, self.gauge, self.trim = most, gauge, trim
        self.total = 0
        self._of: dict[str, int] = {}

    def take(self, client: str, size: int) -> bool:
        """Hold so many bytes more, if there is room; one answer has some in any case."""
        mine = self._of.get(client, 0)
        if (mine and mine + size > self.most) or (self.total and self.total + size > ALL * self.most):
            return False
        self.take_more(client, size)
        return True

    def take_more(self, client: str, size: int) -> None:
        """Hold more, or less, than was thought."""
        self._of[client] = self._of.get(client, 0) + size
        self.total += size
        self.gauge.set(self.total)
        if self._of[client] <= 0:
            del self._of[client]

    def give_back(self, client: str, size: int) -> None:
        """They are read, or nobody will."""
        self.take_more(client, -size)
        if not self.total:
            self.trim()


def share_memory_among_threads() -> None:
    """Have threads take memory from the same two places; by itself glibc keeps what was freed for each thread."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(ARENAS_OPTION, ARENAS)


def give_memory_back() -> None:
    """Have the allocator give free memory back to the system, in a thread; glibc keeps that of large answers."""

    def trim() -> None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)

    threading.Thread(target=trim, daemon=True).start()

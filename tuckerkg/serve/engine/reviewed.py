"""Decisions about a run's facts, in memory; read again where another process or the command line has written some."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tuckerkg.review.decisions import CHOICES, UNDO, Decision, Decisions

Fact = tuple[str, str, str]


@dataclass(frozen=True)
class Standing:
    """What counts at one moment: decisions with their lines, by fact; ``revision`` is the number of lines."""

    size: int = -1
    revision: int = 0
    by_fact: dict[Fact, tuple[int, Decision]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """How many facts are accepted, rejected and deferred."""
        found: dict[str, int] = dict.fromkeys(CHOICES, 0)
        for _, decision in self.by_fact.values():
            found[decision.choice] += 1
        return found


class Reviewed:
    """The decisions of one run folder. Several threads and processes may use it."""

    def __init__(self, run: Path) -> None:
        self._kept = Decisions(run)
        self._standing = Standing()
        self._reading = threading.Lock()

    def now(self) -> Standing:
        """What stands, read again where the file has grown."""
        size = self._size()
        if size == self._standing.size:
            return self._standing
        with self._reading:
            if size != self._standing.size:
                self._standing = self._read(size)
            return self._standing

    def choice_of(self, fact: Fact) -> str | None:
        """What was decided about a fact, by its labels, as of the last ``now``."""
        found = self._standing.by_fact.get(fact)
        return None if found is None else found[1].choice

    def add(self, decisions: Sequence[Decision]) -> list[tuple[int, Decision]]:
        """Append decisions; they come back with their lines. Raises RunFolderError."""
        self._kept.add(decisions)
        by_fact = self.now().by_fact
        return [by_fact.get(each.fact, (0, each)) for each in decisions]

    def undo(self, by: str, count: int) -> list[tuple[int, Decision]]:
        """Take back the last ``count`` decisions that ``by`` made."""
        before = {decision: line for line, decision in self.now().by_fact.values()}
        return [(before.get(each, 0), each) for each in self._kept.undo(by, count)]

    def accepted(self) -> list[Fact]:
        """Facts that are accepted, in the order in which they were first decided."""
        return [fact for fact, (_, decision) in self.now().by_fact.items() if decision.choice == "accept"]

    def _size(self) -> int:
        try:
            return self._kept.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _read(self, size: int) -> Standing:
        lines = list(enumerate(self._kept.history(), start=1))
        undone = {each.undoes for _, each in lines if each.choice == UNDO}
        by_fact = {each.fact: (line, each) for line, each in lines if each.choice != UNDO and line not in undone}
        return Standing(size, len(lines), by_fact)

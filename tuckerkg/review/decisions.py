"""Decisions about facts: an append-only file beside the run, with who decided what, and when.

A line is never changed: a later decision about the same fact takes the place of an earlier one, and to undo one is a
line of its own. Writers of several processes take turns, so that none is lost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

import filelock

from tuckerkg.errors import RunFolderError, TuckerkgError, printable
from tuckerkg.storage.json_lines import JsonLines
from tuckerkg.storage.sealed_folder import explained

FILE, LOCK = "decisions.jsonl", ".decisions.lock"
SECONDS = 10.0  # that a writer waits for its turn
LONGEST_NOTE = 1_000
Choice = Literal["accept", "reject", "defer"]
CHOICES: tuple[Choice, ...] = get_args(Choice)
UNDO = "undo"
Fact = tuple[str, str, str]  # labels of head, relation and tail


@dataclass(frozen=True)
class Decision:
    """What somebody decided about a fact, which stands here by its labels.

    Attributes:
        choice: "accept", "reject" or "defer"; "undo" takes back the decision of line ``undoes``.
        by: who.
        at: when, UTC, as ISO 8601.
        probability: what the run said of it then; None: it was not asked.
        version, step: of the run that said so.
        note: in their words.
    """

    head: str
    relation: str
    tail: str
    choice: str
    by: str
    at: str
    probability: float | None = None
    version: int | None = None
    step: int | None = None
    note: str = ""
    undoes: int | None = None

    @property
    def fact(self) -> Fact:
        """Labels of head, relation and tail."""
        return self.head, self.relation, self.tail

    @classmethod
    def now(
        cls,
        fact: Sequence[str],
        choice: str,
        by: str,
        *,
        probability: float | None = None,
        version: int | None = None,
        step: int | None = None,
        note: str = "",
    ) -> Decision:
        """A decision made at this moment.

        Raises:
            TuckerkgError: the choice is none, nobody decides, or the note is too long.
        """
        if choice not in CHOICES:
            raise TuckerkgError(f"{choice!r} is no decision, expected {', '.join(CHOICES)}")
        if not by.strip():
            raise TuckerkgError("a decision needs the name of who makes it")
        if len(note) > LONGEST_NOTE:
            raise TuckerkgError(f"the note has {len(note):,} characters, {LONGEST_NOTE:,} are kept at most")
        if probability is not None and not math.isfinite(probability):
            probability = None
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        head, relation, tail = fact
        return cls(head, relation, tail, choice, by, at, probability, version, step, note)


class Decisions:
    """The decisions about the facts of one run."""

    def __init__(self, run: Path) -> None:
        self.path = run / FILE
        self._lines = JsonLines(self.path, "a decision")
        self._lock = run / LOCK

    def add(self, decisions: Iterable[Decision]) -> None:
        """Append decisions, all or none, and have them on the disk.

        Raises:
            RunFolderError: they cannot be written.
        """
        rows = [asdict(decision) for decision in decisions]
        with explained(f"Cannot write {self.path}"):
            try:
                with filelock.FileLock(self._lock, timeout=SECONDS):
                    self._lines.append_all(rows)
                    self._lines.sync()
            except filelock.Timeout:
                raise RunFolderError(
                    f"{self.path}: another process has been writing for {SECONDS:g} seconds. Try again."
                ) from None

    def history(self) -> list[Decision]:
        """Every decision, in the order in which they were made.

        Raises:
            RunFolderError: a line is no decision; the message has its number.
        """
        return [self._decision(number, row) for number, row in enumerate(self._lines.rows(), start=1)]

    def current(self, choice: str | None = None) -> list[Decision]:
        """The last decision about each fact, in the order in which facts were first decided.

        Args:
            choice: those with this one alone.
        """
        last = {decision.fact: decision for _, decision in self._standing()}
        return [each for each in last.values() if choice in (None, each.choice)]

    def counts(self) -> dict[str, int]:
        """How many facts are accepted, rejected and deferred."""
        found = Counter(decision.choice for decision in self.current())
        return {choice: found[choice] for choice in CHOICES}

    def undo(self, by: str, count: int = 1) -> list[Decision]:
        """Take back the last ``count`` decisions that ``by`` made: these, the last one first.

        What was decided about their facts before counts again, by whomever.
        """
        own = [(line, each) for line, each in self._standing() if each.by == by][: -count - 1 : -1]
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        if own:
            self.add(Decision(*each.fact, UNDO, by, at, undoes=line) for line, each in own)
        return [each for _, each in own]

    def _standing(self) -> list[tuple[int, Decision]]:
        """Decisions that nobody took back, with the numbers of their lines."""
        lines = list(enumerate(self.history(), start=1))
        undone = {each.undoes for _, each in lines if each.choice == UNDO}
        return [(line, each) for line, each in lines if each.choice != UNDO and line not in undone]

    def _decision(self, number: int, row: Mapping[str, object]) -> Decision:
        try:
            found = Decision(**row)  # type: ignore[arg-type]
            words = (*found.fact, found.choice, found.by, found.at, found.note)
            if found.choice not in (*CHOICES, UNDO) or not all(isinstance(word, str) for word in words):
                raise TypeError
        except TypeError:
            raise RunFolderError(
                f"{self.path}:{number}: is not a decision: {printable(str(row))[:200]}. Remove the line."
            ) from None
        return found

"""Errors for users: what was found, what was expected, how to mend it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


class TuckerkgError(Exception):
    """Anything a user can mend. The command line prints it without a traceback and exits with code 2."""


class SettingsError(TuckerkgError):
    """A setting is unknown, of the wrong type or out of range."""


class RunFolderError(TuckerkgError):
    """A run folder is missing, damaged, in use or from another version."""


class UnknownNameError(TuckerkgError):
    """An entity, relation, dataset or component name that does not exist."""


class NonFiniteError(TuckerkgError):
    """A loss, gradient or score is NaN or infinite."""


@dataclass(frozen=True)
class Problem:
    """One bad place in an input file; ``line`` and ``column`` count from 1."""

    file: str
    line: int | None
    column: int | None
    what: str

    def __str__(self) -> str:
        place = self.file
        if self.line is not None:
            place += f":{self.line}"
            if self.column is not None:
                place += f":{self.column}"
        return f"{place}: {self.what}"


class InputError(TuckerkgError):
    """An input file cannot be used as it is. Shows the first twenty problems and counts them all."""

    SHOWN = 20

    def __init__(self, problems: Sequence[Problem] | Problem, remedy: str = "", total: int | None = None) -> None:
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)
        self.total = len(self.problems) if total is None else total
        self.remedy = remedy
        lines = [printable(str(problem)) for problem in self.problems[: self.SHOWN]]
        if self.total > len(lines):
            lines.append(f"... and {self.total - len(lines):,} more ({self.total:,} in all)")
        if remedy:
            lines.append(remedy)
        super().__init__("\n".join(lines))


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The ``count`` known names that look most like ``name``, best first."""
    known = list(known)
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold(), list(by_folded), n=count, cutoff=0.5)
    return [by_folded[match] for match in close]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or an empty string; to be appended to an error's first sentence."""
    close = nearest(name, known)
    return f" Did you mean {' or '.join(repr(printable(match)) for match in close)}?" if close else ""


def counted(number: int, one: str, many: str) -> str:
    """``1 relation has`` or ``1,200 relations have``."""
    return f"{number:,} {one if number == 1 else many}"


def printable(text: str) -> str:
    """``text`` with control, zero-width and direction characters escaped, so that it is safe on a terminal."""
    return "".join(
        character
        if character == "\n" or character.isprintable()
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def printable_json(value: Any) -> str:
    """``value`` as indented JSON in which the same characters are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(each if each == "\n" or each.isprintable() else json.dumps(each)[1:-1] for each in text)

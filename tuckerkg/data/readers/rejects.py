"""Rows that are set aside, and the file that they go to."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuckerkg.data.readers.bytes import refuse
from tuckerkg.errors import Problem, printable

REJECTS_HEADER = "file\tline\treason\trow"


@dataclass(frozen=True)
class Reject:
    """A row set aside, with its original text."""

    problem: Problem
    raw: str


def reject_line(reject: Reject) -> str:
    """A row set aside as a line of TSV."""
    problem = reject.problem
    # As a JSON string the row cannot start a formula in a spreadsheet, and its control characters are harmless.
    cells: list[Any] = [problem.file, problem.line, problem.what, json.dumps(reject.raw, ensure_ascii=False)]
    return "\t".join(printable(str(cell)).replace("\n", "\\n").replace("\t", "\\t") for cell in cells)


def write_rejects(path: Path, rejects: Sequence[Reject]) -> None:
    """Write rows set aside as TSV: file, line, reason, and the row as a JSON string."""
    rows = [REJECTS_HEADER, *map(reject_line, rejects)]
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text("\n".join(rows) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        refuse(str(path), f"rejected rows cannot be written: {error.strerror}; name another file")

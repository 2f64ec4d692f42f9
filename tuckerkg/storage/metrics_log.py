"""The rows of ``metrics.jsonl``. Importing this does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuckerkg.errors import NonFiniteError
from tuckerkg.storage.json_lines import JsonLines
from tuckerkg.storage.sealed_folder import explained, write_atomic


class MetricsLog(JsonLines):
    """A file of rows that training appends to. The file need not be there yet."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a row of metrics")

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row; when it cannot be written whole, nothing of it stays.

        Raises:
            NonFiniteError: the row holds NaN or an infinity, which JSON does not have.
            RunFolderError: the disk refused.
        """
        try:
            self.append_all([row])
        except ValueError as error:
            raise NonFiniteError(f"metrics of step {row.get('step')}: {error}") from None

    def truncate(self, step: int) -> None:
        """Remove the rows whose ``step`` is larger, and a last line cut by a crash."""
        lines = self.lines()
        kept = [line for line, row in lines if not _is_after(row, step)]
        with explained(f"Cannot write {self.path}"):
            self.drop_torn_line()
        if len(kept) != len(lines):
            write_atomic(self.path, b"".join(kept))


def _is_after(row: Mapping[str, Any], step: int) -> bool:
    found = row.get("step")
    return isinstance(found, int | float) and found > step

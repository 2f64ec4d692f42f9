"""The rows of ``metrics.jsonl``: one JSON object per line, whole or absent. Importing this does not import torch."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tuckerkg.errors import NonFiniteError
from tuckerkg.storage.sealed_folder import explained, json_bytes, refusal, write_atomic
from tuckerkg.types import JsonObject


class MetricsLog:
    """A file of rows that training appends to. The file need not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row; when it cannot be written whole, nothing of it stays.

        Raises:
            NonFiniteError: the row holds NaN or an infinity, which JSON does not have.
            RunFolderError: the disk refused.
        """
        try:
            line = json_bytes(dict(row)) + b"\n"
        except ValueError as error:
            raise NonFiniteError(f"metrics of step {row.get('step')}: {error}") from None
        with explained(f"Cannot write {self.path}"):
            self._drop_torn_line()
            with self.path.open("ab", buffering=0) as file:
                size = file.tell()
                try:
                    if file.write(line) != len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                except BaseException:
                    file.truncate(size)
                    raise

    def rows(self) -> list[JsonObject]:
        """All rows, in the order they were added; a last line cut by a crash is left out.

        Raises:
            RunFolderError: a line is not a row; the message has its number.
        """
        return [row for _, row in self._lines()]

    def truncate(self, step: int) -> None:
        """Remove the rows whose ``step`` is larger, and a last line cut by a crash."""
        lines = self._lines()
        kept = [line for line, row in lines if not _is_after(row, step)]
        with explained(f"Cannot write {self.path}"):
            self._drop_torn_line()
        if len(kept) != len(lines):
            write_atomic(self.path, b"".join(kept))

    def sync(self) -> None:
        """Have the rows on the disk, not only in memory."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            os.fsync(file.fileno())

    def _lines(self) -> list[tuple[bytes, JsonObject]]:
        raw = b""
        with explained(f"Cannot read {self.path}"), suppress(FileNotFoundError):
            raw = self.path.read_bytes()
        found: list[tuple[bytes, JsonObject]] = []
        for number, line in enumerate(raw.split(b"\n")[:-1], start=1):  # the last is empty, or was cut
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise refusal(f"{self.path}:{number}: is not a row of metrics. Remove the line.")
            found.append((line + b"\n", row))
        return found

    def _drop_torn_line(self) -> None:
        with suppress(FileNotFoundError), self.path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            if size and file.read() != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)


def _is_after(row: Mapping[str, Any], step: int) -> bool:
    found = row.get("step")
    return isinstance(found, int | float) and found > step

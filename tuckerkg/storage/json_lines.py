"""A file of JSON objects, one a line, whole or absent. Importing this does not import torch."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tuckerkg.storage.sealed_folder import explained, json_bytes, refusal
from tuckerkg.types import JsonObject


class JsonLines:
    """A file that rows are appended to. It need not be there yet.

    Args:
        path: the file.
        row: what a line is called where one is damaged.
    """

    def __init__(self, path: Path, row: str) -> None:
        self.path, self.row = path, row

    def append_all(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows; when they cannot be written whole, nothing of them stays.

        Raises:
            ValueError: a row holds NaN or an infinity, which JSON does not have.
            RunFolderError: the disk refused.
        """
        lines = b"".join(json_bytes(dict(row)) + b"\n" for row in rows)
        with explained(f"Cannot write {self.path}"):
            self.drop_torn_line()
            with self.path.open("ab", buffering=0) as file:
                size = file.tell()
                try:
                    if file.write(lines) != len(lines):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                except BaseException:
                    file.truncate(size)
                    raise

    def rows(self) -> list[JsonObject]:
        """All rows, in the order they were added; a last line cut by a crash is left out.

        Raises:
            RunFolderError: a line is not a row; the message has its number.
        """
        return [row for _, row in self.lines()]

    def sync(self) -> None:
        """Have the rows on the disk, not only in memory."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            os.fsync(file.fileno())

    def lines(self) -> list[tuple[bytes, JsonObject]]:
        """Rows with the bytes of their lines. Raises RunFolderError, as ``rows`` does."""
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
                raise refusal(f"{self.path}:{number}: is not {self.row}. Remove the line.")
            found.append((line + b"\n", row))
        return found

    def drop_torn_line(self) -> None:
        """Remove a last line that was cut by a crash."""
        with suppress(FileNotFoundError), self.path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            if size and file.read() != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)

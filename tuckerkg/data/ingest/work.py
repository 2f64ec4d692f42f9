"""The folder of an unfinished ingest: which stages are done, with their results, so that it can be continued.

DIR.partial/state.json   what was asked, and the result of every finished stage
DIR.partial/STAGE/       what a stage writes; removed and written again where the stage was interrupted
DIR.partial/spill/       DuckDB's temporary files
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tuckerkg.errors import TuckerkgError
from tuckerkg.storage.sealed_folder import explained, json_bytes, write_atomic
from tuckerkg.types import JsonObject

STATE = "state.json"
FORMAT = 1
OVER = "graph"  # the last stage: its folder is renamed to the result


class Work:
    """Stages by name; a stage that is recorded is not run again."""

    def __init__(self, out: Path) -> None:
        self.path = out.with_name(out.name + ".partial")
        self.done: JsonObject = {}

    def open(self, fingerprint: JsonObject, restart: bool) -> bool:
        """Begin, or continue what was begun with the same files and options; whether it is continued.

        Raises:
            TuckerkgError: it was begun with other files or options.
        """
        state = self._read()
        asked = {"format": FORMAT, **fingerprint}
        if state is not None and state["done"] and not restart and (changes := _differences(state["asked"], asked)):
            raise TuckerkgError(
                f"{self.path}: holds an unfinished ingest of something else: {'; '.join(changes)}. "
                "Give the same files and options to continue it, or --restart to begin again"
            )
        continued = state is not None and not restart and state["asked"] == asked
        self.done = state["done"] if state is not None and continued else {}
        if not continued:
            for folder in [path for path in self.path.iterdir() if path.is_dir()]:
                shutil.rmtree(folder)
        self.asked = asked
        self._write()
        shutil.rmtree(self.path / "spill", ignore_errors=True)
        return continued

    def folder(self, stage: str) -> Path:
        """Where a stage writes."""
        return self.path / stage

    def start(self, stage: str) -> Path:
        """An empty folder for a stage that is about to run."""
        folder = self.folder(stage)
        with explained(f"Cannot write {folder}"):
            if folder.exists():
                shutil.rmtree(folder)
            folder.mkdir()
        return folder

    def finish(self, stage: str, result: Any) -> None:
        """Record that a stage is done."""
        self.done[stage] = result
        self._write()

    def drop(self, *patterns: str) -> None:
        """Remove what finished stages wrote and nothing needs any more."""
        for path in [path for pattern in patterns for path in self.path.glob(pattern)]:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def is_over(self, fingerprint: JsonObject) -> bool:
        """Whether only its removal is left to do: the result of the same request was put in place."""
        state = self._read()
        asked = {"format": FORMAT, **fingerprint}
        return (
            state is not None and state["asked"] == asked and OVER in state["done"] and not self.folder(OVER).exists()
        )

    def remove(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _read(self) -> JsonObject | None:
        try:
            state = json.loads((self.path / STATE).read_bytes())
            return state if state["asked"]["format"] == FORMAT and isinstance(state["done"], dict) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # there is none, or it is from another version: everything is read again

    def _write(self) -> None:
        write_atomic(self.path / STATE, json_bytes({"asked": self.asked, "done": self.done}))


def _differences(before: JsonObject, now: JsonObject) -> list[str]:
    """What differs between two requests, in words."""
    words = [
        f"{name} was {before['options'].get(name)}, now {value}"
        for name, value in now["options"].items()
        if before["options"].get(name) != value
    ]
    for name in {**before["files"], **now["files"]}:
        if name not in now["files"]:
            words.append(f"without the file {name}")
        elif name not in before["files"]:
            words.append(f"with the file {name}")
        elif before["files"][name] != now["files"][name]:
            words.append(f"the file {name} has changed")
    if not words and list(before["files"]) != list(now["files"]):
        words.append("the files come in another order")
    return words

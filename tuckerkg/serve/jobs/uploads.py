"""Graphs that were sent: received with limits, inspected in a program of its own, kept until they are trained."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuckerkg.serve.jobs.process import Cancelled, Failed, run_program
from tuckerkg.serve.limits import Limits
from tuckerkg.serve.problems import Refused, later

INSPECT_SECONDS = 120.0
KEPT_SECONDS = 86_400.0
MOST_KEPT = 8
AT_ONCE = 1
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ENDINGS = (".tsv", ".txt", ".csv", ".parquet", ".nt", ".ttl", ".nq", ".trig", ".rdf", ".xml", ".jsonld", ".owl")
PACKED = (".gz", ".zip", ".tar", ".tgz", ".bz2", ".xz")


class Uploads:
    """Files of clients in a folder."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        folder.mkdir(parents=True, exist_ok=True)
        self._at_once = asyncio.Semaphore(AT_ONCE)

    def file(self, number: str) -> Path:
        """What was sent. Raises Refused where there is nothing of that id."""
        place = self.folder / number
        found = [each for each in place.iterdir() if each.is_file()] if place.is_dir() else []
        if not re.fullmatch(r"[0-9a-f]{16}", number) or not found:
            raise Refused(404, "there is no such upload: files are kept for a day", "unknown-upload")
        return found[0]

    async def receive(self, name: str, parts: AsyncIterator[bytes]) -> tuple[str, Path]:
        """Write what is sent to a file: its id, and the file.

        Raises:
            Refused: the name is none, it is too large, or too slow.
        """
        plain = _checked(name)
        self._forget_old()
        number = secrets.token_hex(8)
        place = self.folder / number
        place.mkdir()
        file, size = place / plain, 0
        seconds = 10 * self.limits.receive_seconds
        try:
            async with asyncio.timeout(seconds):
                with file.open("wb") as out:
                    async for part in parts:
                        size += len(part)
                        if size > self.limits.upload_bytes:
                            raise Refused(413, f"a file may have {self.limits.upload_bytes:,} bytes", "too-large")
                        out.write(part)
            if size == 0:
                raise Refused(422, "the file is empty: send it as the body", "empty")
        except TimeoutError:
            shutil.rmtree(place, ignore_errors=True)
            raise Refused(408, f"the file did not arrive within {seconds:g} seconds") from None
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return number, file

    async def inspect(self, number: str, file: Path) -> dict[str, Any]:
        """What inspection says, and how long training takes.

        Raises:
            Refused: it cannot be read as a graph.
        """
        found: dict[str, Any] = {}
        errors: list[str] = []

        def hear(event: dict[str, Any]) -> None:
            if event.get("event") == "result":
                found.update(event)
            elif event.get("event") == "error":
                errors.append(str(event.get("text")))

        arguments = ["-m", "tuckerkg.serve.jobs.training", "inspect", str(file), str(self.limits.train_minutes)]
        try:
            async with self._at_once:
                await run_program(arguments, hear, lambda: False, INSPECT_SECONDS)
        except (Failed, Cancelled) as error:
            shutil.rmtree(file.parent, ignore_errors=True)
            said = errors[-1] if errors else str(error) or f"it takes longer than {INSPECT_SECONDS:g} seconds to read"
            raise Refused(422, said.replace(str(file), file.name), "not-a-graph") from None
        return found

    def _forget_old(self) -> None:
        """Remove files that nobody came back for. Raises Refused where too many are kept."""
        kept = []
        for place in self.folder.iterdir():
            if datetime.now(UTC).timestamp() - place.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(place, ignore_errors=True)
            else:
                kept.append(place)
        if len(kept) >= MOST_KEPT:
            raise later(429, f"{len(kept)} files are kept already: train them, or come back later", "too-many", 3_600)

    def forget(self, number: str) -> None:
        """Remove a file."""
        shutil.rmtree(self.folder / number, ignore_errors=True)


def _checked(name: str) -> str:
    lower = name.lower()
    for ending in PACKED:
        lower = lower.removesuffix(ending)
    known = lower.endswith(ENDINGS) or lower != name.lower()
    if not SAFE_NAME.fullmatch(name) or not known:
        raise Refused(
            422,
            f"name is to be that of a file of letters, digits, dots, - and _, ending in {', '.join(ENDINGS)}, "
            f"or in {', '.join(PACKED)} of them",
            "invalid",
            more={"errors": [{"pointer": "query.name", "detail": "no name of a file with triples"}]},
        )
    return name

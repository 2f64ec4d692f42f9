"""What all workers of a service are to serve, as files in the folder that they share."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from tuckerkg.storage.sealed_folder import write_atomic


class Told:
    """Versions that runs were switched to, and runs that came later."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "told"
        self.folder.mkdir(parents=True, exist_ok=True)

    def switch(self, name: str, version: int) -> None:
        """Every worker is to serve this version."""
        self._write(f"version-{name}", {"name": name, "version": version})

    def serve(self, path: Path) -> None:
        """Every worker is to serve this run, too."""
        self._write(f"run-{path.name}", {"path": str(path.resolve())})

    def version(self, name: str) -> int | None:
        """The version that a run was switched to; None: nobody said."""
        found = self._read(self.folder / f"version-{name}.json").get("version")
        return found if isinstance(found, int) else None

    def runs(self) -> list[Path]:
        """Runs that came later."""
        return [Path(str(row["path"])) for file in self.folder.glob("run-*.json") if (row := self._read(file))]

    def _write(self, name: str, row: dict[str, object]) -> None:
        write_atomic(self.folder / f"{name}.json", json.dumps(row).encode())

    def _read(self, file: Path) -> dict[str, object]:
        with suppress(OSError, ValueError):
            row = json.loads(file.read_bytes())
            if isinstance(row, dict):
                return row
        return {}

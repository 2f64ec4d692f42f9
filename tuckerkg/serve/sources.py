"""Run folders by the names that they have in the service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tuckerkg.errors import TuckerkgError
from tuckerkg.inference.run import Run, at_version
from tuckerkg.serve.state import RunSource

OpenFunction = Callable[[Path, int | None], Run]


def named_sources(paths: Sequence[Path], opened: OpenFunction, *, follow: bool = True) -> list[RunSource]:
    """Runs by the names of their folders.

    Args:
        paths: the folders; ``RUN@1`` stays at its version.
        opened: opens one, at a version or at the newest.
        follow: whether new versions are served when they come.

    Raises:
        TuckerkgError: two have the same name.
    """
    sources: list[RunSource] = []
    for path in paths:
        folder, version = at_version(path)
        name = folder.resolve().name if version is None else f"{folder.resolve().name}@{version}"
        if any(source.name == name for source in sources):
            raise TuckerkgError(f"{path}: another run is called {name!r} too; rename the folder of one of them")
        sources.append(source_of(name, path, folder, version is None and follow, opened))
    return sources


def source_of(name: str, path: Path, folder: Path, follows: bool, opened: OpenFunction) -> RunSource:
    """A run under its name."""
    return RunSource(name, folder.resolve(), partial(opened, path.absolute()), follows, opened)

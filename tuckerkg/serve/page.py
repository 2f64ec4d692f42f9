"""The page's files, read once: what is not among them is not there, whatever a path says."""

from __future__ import annotations

from importlib import resources

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_files() -> dict[str, tuple[bytes, str]]:
    """Content and kind of every file, by name."""
    folder = resources.files("tuckerkg.serve") / "web"
    found = {}
    for entry in folder.iterdir():
        suffix = "." + entry.name.rpartition(".")[2]
        if suffix in KINDS:
            found[entry.name] = (entry.read_bytes(), KINDS[suffix])
    return found

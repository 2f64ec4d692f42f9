"""Compiled code that is kept on disk, and trusted only while it is as it was written.

Numba keeps machine code without a checksum: a damaged file is a traceback at best, and a wrong number at worst. Beside
its files lies a list of their SHA-256. What is not on it, or differs, is removed before it is read, and compiled again.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

SEAL = "tuckerkg-compiled.json"
_lock = threading.Lock()
_checked: set[Path] = set()


class SealedKernel:
    """A function compiled by Numba with ``cache=True``; ``folder`` is where its compiled code is kept."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self._compiled = kernel, 0
        self.folder = Path(kernel.stats.cache_path)

    def __call__(self, *arguments: Any) -> Any:
        """Call it; the first time, after a look at what is on disk."""
        if self.folder not in _checked:
            with _lock:
                if self.folder not in _checked:
                    remove_damaged(self.folder)
                    _checked.add(self.folder)
        found = self.kernel(*arguments)
        if len(self.kernel.signatures) != self._compiled:  # compiled, or read, for arguments of this kind
            with _lock:
                seal(self.folder)
            self._compiled = len(self.kernel.signatures)
        return found


def remove_damaged(folder: Path) -> None:
    """Remove all compiled code of ``folder`` unless every file is as it was when it was sealed."""
    found = {path.name: _sha256(path) for path in _files(folder)}
    sealed: Any = None
    with suppress(OSError, ValueError):
        sealed = json.loads((folder / SEAL).read_text(encoding="utf-8"))
    if isinstance(sealed, dict) and all(sealed.get(name) == digest for name, digest in found.items()):
        return
    for path in _files(folder):
        with suppress(OSError):
            path.unlink()


def seal(folder: Path) -> None:
    """Note what the compiled code of ``folder`` looks like now. A folder that cannot be written stays without."""
    found = {path.name: _sha256(path) for path in _files(folder)}
    temporary = folder / f".{SEAL}.{os.getpid()}.tmp"
    with suppress(OSError):
        temporary.write_text(json.dumps(found, indent=1), encoding="utf-8")
        temporary.replace(folder / SEAL)


def sealed(*kernels: Callable[..., Any]) -> tuple[SealedKernel, ...]:
    """Each of ``kernels`` with its cache checked before it is read."""
    return tuple(SealedKernel(kernel) for kernel in kernels)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.nb[ci]") if path.is_file())


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""

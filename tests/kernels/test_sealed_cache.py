"""Compiled code on disk: damaged or stale, it is compiled again, with the same numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tuckerkg.kernels.sealed_cache import SEAL, remove_damaged, seal

ASK = """
import json, sys
import numpy as np
from numba import njit
from tuckerkg.kernels.sealed_cache import sealed

@njit(cache=True)
def add(values):
    return values.sum() + 1.0

(add,) = sealed(add)
print(json.dumps([add(np.arange(4.0)), sum(add.kernel.stats.cache_hits.values())]))
"""


def asked(folder) -> list[float]:
    """What a process of its own computes, and how often it found its code on disk."""
    script = folder / "ask.py"
    if not script.exists():
        script.write_text(ASK, encoding="utf-8")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    told = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(told.stdout)
    return found


def damage(path, how: str) -> None:
    data = path.read_bytes()
    changed = {
        "flipped": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
        "cut": data[: len(data) // 2],
        "empty": b"",
    }
    path.write_bytes(changed[how])


@pytest.mark.parametrize("how", ["flipped", "cut", "empty"])
def test_f20_damaged_code_is_compiled_again_with_the_same_numbers(tmp_path, how):
    assert asked(tmp_path) == [7.0, 0]
    assert asked(tmp_path) == [7.0, 1]
    files = sorted((tmp_path / "cache").rglob("*.nb*"))
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for path in files:
        damage(path, how)
        assert asked(tmp_path) == [7.0, 0]
        assert asked(tmp_path) == [7.0, 1]


def test_f20_code_that_nobody_vouches_for_is_removed_and_other_files_are_not(tmp_path):
    for name in ("a.nbi", "b.nbc", "module.pyc"):
        (tmp_path / name).write_bytes(b"code")
    remove_damaged(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["module.pyc"]
    (tmp_path / "a.nbi").write_bytes(b"code")
    seal(tmp_path)
    remove_damaged(tmp_path)
    assert (tmp_path / "a.nbi").exists()
    (tmp_path / SEAL).write_text("[", encoding="utf-8")
    remove_damaged(tmp_path)
    assert not (tmp_path / "a.nbi").exists()

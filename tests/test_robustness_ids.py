"""The ids in test names are those of docs/robustness.md, and every promise there has a test or is marked open."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")


def promised() -> dict[str, str]:
    return dict(re.findall(r"^\| ([BFS]\d+) \| (.*) \|$", PAGE, re.MULTILINE))


def kept() -> set[str]:
    """Ids at the beginning of test names; a test may keep several promises: ``test_b03_b04_...``."""
    names = [
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def test_((?:[bfs]\d+_)+)", file.read_text(encoding="utf-8"))
    ]
    return {each.upper() for name in names for each in name.strip("_").split("_")}


def test_every_id_in_a_test_is_on_the_page():
    assert kept() <= set(promised())


def test_every_promise_has_a_test_or_is_open():
    for name, words in promised().items():
        assert name in kept() or "*open*" in words, name


def test_no_open_promise_is_kept_already():
    still_open = {name for name, words in promised().items() if "*open*" in words}
    assert not still_open & kept()

"""The command lines that scripts and benchmarks document are ones that they take."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tuckerkg.config.toml import find_settings

ROOT = Path(__file__).parent.parent
COMMAND = re.compile(r"^ +python (\S+.*)$", re.MULTILINE)
FILES = [
    file
    for folder in ("scripts", "benchmarks")
    for file in sorted((ROOT / folder).glob("*.py"))
    if COMMAND.search(file.read_text())
]


def test_there_are_documented_commands():
    assert {"measure_adding", "measure_explaining", "choose_settings", "load"} <= {file.stem for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_documented_command_is_understood(file):
    for line in COMMAND.findall(file.read_text(encoding="utf-8")):
        words = shlex.split(line)
        program = words[:2] if words[0] == "-m" else words[:1]
        before = sorted(ROOT.iterdir())
        shown = subprocess.run(
            [sys.executable, *program, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        assert "usage:" in shown.casefold(), f"{line}: --help shows no help"
        assert sorted(ROOT.iterdir()) == before, f"{line}: --help wrote something"
        for word in words[len(program) :]:
            if word.startswith("--"):
                assert word.partition("=")[0] in shown, f"{line}: {word}"
            if "/" in word and word.startswith("results/"):
                assert (ROOT / word).exists(), word
        if "--settings" in words:
            assert find_settings(words[words.index("--settings") + 1]).is_file()

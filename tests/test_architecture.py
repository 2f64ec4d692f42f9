"""ARCHITECTURE.md is true: its names exist, and a triple takes the path that it lists."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w/]+\.py): ([\w.]+)`")
MOST = {"train": 30, "predict": 6}


def path_of(name: str) -> list[tuple[str, str]]:
    block = TEXT.split(f"<!-- path {name} -->\n")[1].split("\n\n")[0]
    return NAMED.findall(block)


def defined(file: Path) -> set[str]:
    """Functions, classes, methods and constants of a module, as ``name`` and ``Class.name``."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        found |= set(names)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def test_every_name_exists():
    named = NAMED.findall(TEXT)
    assert len(named) > 60
    for file, name in named:
        assert (ROOT / "tuckerkg" / file).is_file(), file
        assert name in defined(ROOT / "tuckerkg" / file), f"{file} has no {name}"


def test_every_file_and_folder_exists():
    for place in re.findall(r"`((?:[\w-]+/)+)`", TEXT):
        assert any((base / place).is_dir() for base in (ROOT, ROOT / "tuckerkg", ROOT / "tuckerkg/nn")), place
    for file in re.findall(r"`((?:[\w-]+/)*[\w-]+\.(?:py|toml|js))`", TEXT):
        places = (ROOT, ROOT / "tuckerkg", ROOT / "tests", ROOT / "tuckerkg/serve/web")
        assert any((base / file).is_file() for base in places), file


def test_bare_names_exist():
    """Names in code style that are no path: a class of the package, or a member of one."""
    everything = {name for file in (ROOT / "tuckerkg").rglob("*.py") for name in defined(file)}
    for name in re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", TEXT):
        assert name in everything, name


@pytest.mark.parametrize("verb", MOST)
def test_no_file_is_visited_twice(verb):
    files = [file for file, _ in path_of(verb)]
    assert len(files) == len(set(files)) <= MOST[verb]


TRACE = """
import sys, threading
from tuckerkg.cli.app import app

seen = []
def profile(frame, event, argument):
    code = frame.f_code
    if event == "call" and "/tuckerkg/" in code.co_filename:
        name = (code.co_filename.rpartition("/tuckerkg/")[2], code.co_qualname)
        if name not in seen:
            seen.append(name)

sys.setprofile(profile)
threading.setprofile(profile)
try:
    app(sys.argv[1:])
except SystemExit:
    pass
sys.setprofile(None)
print("\\n".join(f"TRACED {file} {name}" for file, name in seen))
"""


def traced(*words: str, cwd: Path) -> list[tuple[str, str]]:
    shown = subprocess.run([sys.executable, "-c", TRACE, *words], cwd=cwd, check=True, capture_output=True, text=True)
    return re.findall(r"^TRACED (\S+) (\S+)$", shown.stdout, re.MULTILINE)


def test_a_triple_takes_the_path(tmp_path):
    rows = [f"a{i}\tr{i % 3}\ta{i * 7 % 23}" for i in range(60)]
    (tmp_path / "my.tsv").write_text("\n".join(rows) + "\n")
    small = [part for key in ("train.epochs=1.0", "train.threads=1") for part in ("--set", key)]
    calls = traced("train", "my.tsv", "--out", "run", *small, cwd=tmp_path)
    # The start is saved before the first step; the checkpoint that knows the triple comes last.
    expected = path_of("train")
    places = [calls.index(call) for call in expected[:-1]]
    assert places == sorted(places), [expected[i] for i in range(len(places) - 1) if places[i] > places[i + 1]]
    assert expected[-1] in calls
    calls = traced("predict", "run", "--head", "a1", "--relation", "r1", cwd=tmp_path)
    places = [calls.index(call) for call in path_of("predict")]
    assert places == sorted(places)

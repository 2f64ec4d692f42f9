"""Every command and every piece of Python in docs/ runs, page by page, in an empty folder; the Dockerfile is linted."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import pytest
from services import running
from typer.testing import CliRunner

from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.config.registry import REGISTRIES
from tuckerkg.config.toml import load_settings
from tuckerkg.data import load as datasets
from tuckerkg.training.callbacks import NullCallback

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
UNRUN = ("index", "page", "robustness", "stores", "service")  # no code to run here; the service's requests are below
NO_DUCKDB = pytest.mark.skipif(find_spec("duckdb") is None, reason="needs the extra ingest")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def runnable(page):
    return pytest.param(page, id=page.stem, marks=[NO_DUCKDB] if page.stem == "large-graphs" else [])


@pytest.mark.parametrize("page", [runnable(page) for page in PAGES if page.stem not in UNRUN])
def test_everything_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.syspath_prepend(tmp_path)
    before = {section: dict(registry) for section, registry in REGISTRIES.items()}
    modules = set(sys.modules)
    monkeypatch.setitem(sys.modules, "docs", types.ModuleType("docs"))
    names: dict[str, object] = {"__name__": "docs"}
    ran = 0
    try:
        for kind, file, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if file:
                (tmp_path / file).write_text(text, encoding="utf-8")
            elif kind == "sh":
                for line in text.strip().splitlines():
                    words = shlex.split(re.sub(r"--minutes [0-9.]+", "--minutes 0.1", line))
                    assert words[0] == "tuckerkg", line
                    shown = CliRunner().invoke(app, words[1:])
                    assert shown.exit_code == 0, f"{line}\n{shown.output}\n{shown.exception!r}"
                    ran += 1
            elif kind == "python":
                exec(compile(text, str(page), "exec"), names)
                ran += 1
            else:
                raise AssertionError(f"{page.name}: a block of kind {kind!r} is not run by anything")
    finally:
        for section, registry in REGISTRIES.items():
            registry.clear()
            registry.update(before[section])
        for name in set(sys.modules) - modules:
            if name.startswith("my_"):
                del sys.modules[name]
    assert ran > 1


def test_every_request_on_the_page_of_the_service_is_answered(tmp_path):
    blocks = BLOCK.findall((ROOT / "docs" / "service.md").read_text(encoding="utf-8"))
    settings = load_settings("countries-tgcn-tucker", {"train.epochs": 2.0, "train.threads": 1})
    folder = tmp_path / "runs" / "countries"
    api.resume(api.prepare(datasets.load("countries"), settings, folder), NullCallback())
    asked = 0
    with running(folder) as service:
        for kind, _, written in blocks:
            text = written.replace("http://127.0.0.1:8000", service.address)
            if kind == "curl":
                for line in text.strip().splitlines():
                    words = [*shlex.split(line), "--fail-with-body"]
                    shown = subprocess.run(words, capture_output=True, text=True, check=False)
                    assert shown.returncode == 0, f"{line}\n{shown.stdout}"
                    assert shown.stdout
                    asked += 1
            elif kind == "python":
                exec(compile(text, "service.md", "exec"), {"__name__": "docs"})
            else:
                assert text.strip() == "tuckerkg serve runs/countries"
    assert asked > 8


def test_the_readme_links_every_page():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert f"docs/{page.name}" in text or page.stem == "index"


def test_hadolint_finds_nothing_in_the_dockerfile():
    lint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert lint is not None, "hadolint is one of the dev extra's packages"
    shown = subprocess.run([lint, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr


def test_the_container_takes_the_build_for_cpus_and_can_be_asked_for_its_health():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu" in text
    assert '--index-url "$TORCH_INDEX" torch==2.13.0' in text
    assert "HEALTHCHECK" in text
    assert "/health" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_can_be_taught_the_verbs(shell):
    program = Path(sys.executable).with_name("tuckerkg")
    environment = {**os.environ, "_TUCKERKG_COMPLETE": f"source_{shell}"}
    shown = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
    assert f"_TUCKERKG_COMPLETE=complete_{shell}" in shown.stdout


def test_a_verb_is_completed():
    words = {"_TUCKERKG_COMPLETE": "complete_bash", "COMP_WORDS": "tuckerkg pre", "COMP_CWORD": "1"}
    program = Path(sys.executable).with_name("tuckerkg")
    shown = subprocess.run([program], env={**os.environ, **words}, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["predict"]

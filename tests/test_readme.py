"""README.md: its commands exist, its Python runs, its links lead somewhere, and it stays short."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from tuckerkg import __version__
from tuckerkg.cli.app import app
from tuckerkg.config.toml import find_settings

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    lines = re.findall(r"^    (tuckerkg .*?)(?:\s+#.*)?$", TEXT, re.MULTILINE)
    return [shlex.split(line)[1:] for line in lines]


def test_the_readme_shows_commands():
    assert len(commands()) > 8


def test_every_command_parses():
    program = typer.main.get_command(app)
    for verb, *rest in commands():
        if verb.startswith("--"):
            continue
        context = program.commands[verb].make_context(verb, list(rest), resilient_parsing=False)
        settings = context.params.get("settings")
        if settings is not None:
            assert find_settings(settings).is_file()


def test_the_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    exec(compile(text.replace("minutes=1", "minutes=0.1"), "README.md", "exec"), {"__name__": "readme"})
    assert "shape: (10, 10)" in capsys.readouterr().out


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 130


def test_every_folder_of_the_package_has_a_line():
    for folder in (ROOT / "tuckerkg").iterdir():
        if folder.is_dir() and not folder.name.startswith("__"):
            assert re.search(rf"tuckerkg/{folder.name}\b", TEXT), folder.name


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


def test_the_citation_is_of_this_version():
    cited = dict(re.findall(r"^ *([a-z-]+): (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    assert cited["version"] == __version__
    assert cited["url"] in TEXT


def test_the_changelog_has_the_usual_sections():
    sections = re.findall(r"^### (\w+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections
    assert set(sections) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}

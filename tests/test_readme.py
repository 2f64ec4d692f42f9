"""Every tuckerkg command in README.md is one that the program has, with options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import typer

from tuckerkg.cli import app
from tuckerkg.config import find_settings

README = Path(__file__).parent.parent / "README.md"


def commands() -> list[list[str]]:
    lines = re.findall(r"^    (tuckerkg .*?)(?:\s+#.*)?$", README.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line)[1:] for line in lines]


def test_the_readme_shows_commands():
    assert len(commands()) > 8


def test_every_command_parses():
    program = typer.main.get_command(app)
    for words in commands():
        verb, *rest = words
        command = program.commands[verb]
        context = command.make_context(verb, list(rest), resilient_parsing=False)
        settings = context.params.get("settings")
        if settings is not None:
            assert find_settings(settings).is_file()


def test_the_file_tree_names_every_module():
    text = README.read_text(encoding="utf-8")
    for module in (README.parent / "tuckerkg").glob("*.py"):
        if module.name != "__init__.py":
            assert module.name in text, f"{module.name} is missing from README's tree"

"""Labels that would like to be more than labels: whatever is printed or written holds them as text (S8, S10, S11)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from graphs import toy_dataset
from typer.testing import CliRunner

import tuckerkg
from tuckerkg import api
from tuckerkg.cli.app import app
from tuckerkg.data.labels import Vocabulary
from tuckerkg.training.callbacks import NullCallback

LABELS = (
    "../../outside", "/outside", "$(touch outside)", "`touch outside`", "; touch outside", "{0.__class__}", "%s%n",
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "bell\x07", "\x9b31m", "[red]markup[/red]", "CON", "~", "-rf",
)  # fmt: skip
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
QUICK = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 2.0, "train.threads": 1}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    data = toy_dataset()
    labels = sorted((*LABELS, *data.entities.labels[len(LABELS) :]))
    path = tmp_path_factory.mktemp("work") / "inside" / "run"
    path.parent.mkdir()
    return api.train(
        replace(data, entities=Vocabulary(tuple(labels))),
        out=path,
        overrides=QUICK,
        callback=NullCallback(),
        encoder="tgcn",
    )


def log(*command: str) -> str:
    result = CliRunner().invoke(app, list(command))
    assert result.exception is None or isinstance(result.exception, SystemExit | tuckerkg.TuckerkgError), result.output
    return result.output + str(result.exception or "")


def everything_asked(run, folder: Path) -> list[str]:
    """Every command that names entities, for every label: what each prints."""
    said = [
        log("predict", str(run.path), "--top-missing", "50", "--untyped", "--format", form)
        for form in ("table", "tsv", "json")
    ]
    for label in LABELS:
        said.append(log("predict", str(run.path), f"--head={label}", "--relation", "plus1", "--known", "-k", "30"))
        said.append(log("explain", "--", str(run.path), label, "plus1", "e019"))
    said.append(log("predict", str(run.path), f"--head={LABELS[7]} ", "--relation", "plus1"))
    said.append(log("report", str(run.path), "--out", str(folder / "report.html")))
    said.append(log("report", str(run.path), "--out", str(folder / "card.md")))
    said.append(log("export", str(run.path), str(folder / "vectors.parquet")))
    return said


def test_s10_s11_labels_are_only_ever_text(hostile, monkeypatch):
    inside = hostile.path.parent
    outside = inside.parent
    before = {path for path in outside.rglob("*") if inside not in path.parents}
    monkeypatch.chdir(inside)
    said = everything_asked(hostile, inside)
    assert [text for text in said if CONTROL.search(text)] == []
    assert any("{0.__class__}" in text for text in said)
    assert any("\\x1b[31mred" in text for text in said)
    assert any("[red]markup[/red]" in text for text in said)
    assert {path for path in outside.rglob("*") if inside not in path.parents} == before
    assert {path.name for path in inside.iterdir()} == {"run", "report.html", "card.md", "vectors.parquet"}
    assert not Path("/outside").exists()


def test_s8_labels_reach_the_page_as_text_only():
    scripts = list((Path(tuckerkg.__file__).parent / "serve" / "web").glob("*.js"))
    assert scripts
    writers = re.compile(r"\b(innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|document\.write|eval)\b")
    assert [path.name for path in scripts if writers.search(path.read_text(encoding="utf-8"))] == []

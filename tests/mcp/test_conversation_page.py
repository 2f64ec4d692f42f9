"""The conversation that docs/mcp.md records happens again: the same tools, refusals and shapes of answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tuckerkg import api
from tuckerkg.config.toml import load_settings
from tuckerkg.data import load as datasets
from tuckerkg.training.callbacks import NullCallback

ROOT = Path(__file__).parents[2]


def shape(value: Any) -> Any:
    """Names of fields, all the way down; of a list, those of its first element."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return [shape(each) for each in value[:1]] if isinstance(value, list) else None


@pytest.fixture(scope="module")
def countries(tmp_path_factory):
    settings = load_settings("countries-tgcn-tucker", {"train.epochs": 2.0, "train.threads": 1})
    folder = api.prepare(datasets.load("countries"), settings, tmp_path_factory.mktemp("runs") / "countries")
    return api.resume(folder, NullCallback()).path


def test_the_recorded_conversation_happens_again(countries, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import record_conversation

    lines = record_conversation.recorded((ROOT / "docs" / "mcp.md").read_text(encoding="utf-8"))
    said = asyncio.run(record_conversation.asked(lines, [str(countries), "--decide-as", "a program"]))
    assert {line["tool"] for line in lines} >= {"search", "facts", "predict", "score", "explain", "decide", "undo"}
    assert any("refused" in line for line in lines)
    for line, again in zip(lines, said, strict=True):
        if "refused" in line:
            assert again == line
            continue
        assert shape(again["answer"]).keys() == shape(line["answer"]).keys(), line["tool"]
        if line["tool"] in ("search", "facts"):  # what the graph holds does not depend on the training
            assert again == line

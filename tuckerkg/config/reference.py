"""The reference of every setting: meaning, range and default, from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tuckerkg.batches.phases import Phase
from tuckerkg.config.registry import REGISTRIES
from tuckerkg.config.settings import DEFAULTS, Settings, options_of
from tuckerkg.losses.regularizers import REGULARIZERS

_ARGUMENT = re.compile(r"^ {4}(?P<names>\w+(?:, \w+)*): (?P<text>.*)$")


@dataclass(frozen=True)
class Entry:
    """One setting; ``of`` is the component that it belongs to, where it is an option."""

    key: str
    of: str
    values: str
    default: str
    meaning: str


def settings_reference() -> list[Entry]:
    """Every setting, section by section."""
    found = []
    for name, field in Settings.model_fields.items():
        if name in DEFAULTS:
            found += list(_components(name))
        elif name == "regularizer":
            found += [
                Entry(f"regularizer.{each}", "", "number from 0", "0.0", _summary(cls))
                for each, cls in REGULARIZERS.items()
            ]
        elif name == "phase":
            found += list(_fields("phase", Phase, described(Phase)))
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found += list(_fields(name, field.annotation, {}))
        else:
            found.append(_entry(name, "", field, field.description or ""))
    return found


def reference_text() -> str:
    """The reference for a terminal."""
    lines = []
    for entry in settings_reference():
        of = f" ({entry.of})" if entry.of else ""
        lines.append(f"{entry.key}{of} = {entry.default}    [{entry.values}]\n    {entry.meaning}")
    return "\n".join(lines)


def reference_markdown() -> str:
    """The reference as a page: a table per section."""
    parts, section = (
        ["# Settings\n\nWritten by `make docs` from the code; `tuckerkg settings --explain` prints the same."],
        "",
    )
    for entry in settings_reference():
        head = f"{entry.key.partition('.')[0]}{f' {entry.of}' if entry.of else ''}"
        head = "general" if "." not in entry.key else head
        if head != section:
            section = head
            parts.append(f"## {section}\n\n| setting | values | default | meaning |\n| --- | --- | --- | --- |")
        cells = (f"`{entry.key}`", entry.values, f"`{entry.default}`", entry.meaning)
        parts[-1] += "\n| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    return "\n\n".join(parts) + "\n"


def described(cls: Any) -> dict[str, str]:
    """The meanings of a class's arguments, from the Args or Attributes section of its docstring."""
    meanings: dict[str, str] = {}
    names: list[str] = []
    inside = False
    for line in (inspect.getdoc(cls) or "").splitlines():
        if line.rstrip() in ("Args:", "Attributes:"):
            inside = True
        elif inside and (match := _ARGUMENT.match(line)):
            names = match["names"].split(", ")
            meanings |= dict.fromkeys(names, match["text"].strip())
        elif inside and line.startswith(" " * 8) and names:
            meanings |= {name: f"{meanings[name]} {line.strip()}" for name in names}
        elif inside and line.strip():
            inside = line.startswith(" ")
    return meanings


def _summary(cls: type) -> str:
    return (inspect.getdoc(cls) or "").partition("\n\n")[0]


def _components(section: str) -> Iterator[Entry]:
    registry = REGISTRIES[section]
    names = [name for name in registry if ":" not in name]
    yield Entry(f"{section}.name", "", ", ".join(names), DEFAULTS[section], f"Which {section} to use.")
    for name in names:
        factory = registry[name]
        yield from _fields(section, options_of(factory), described(factory), name)


def _fields(section: str, model: type[BaseModel], meanings: dict[str, str], of: str = "") -> Iterator[Entry]:
    for name, field in model.model_fields.items():
        yield _entry(f"{section}.{name}", of, field, meanings.get(name, field.description or ""))


def _entry(key: str, of: str, field: FieldInfo, meaning: str) -> Entry:
    default = field.get_default(call_default_factory=True)
    text = re.sub(r"\s+", " ", meaning).strip()
    return Entry(key, of, _values(field), _shown(default), text[:1].upper() + text[1:])


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return str(list(default))
    return str(default).lower() if isinstance(default, bool) else repr(default) if default == "" else str(default)


def _values(field: FieldInfo) -> str:
    """What is allowed, in words."""
    kind: Any = field.annotation
    arguments = [each for each in get_args(kind) if each is not type(None)]
    limits = list(field.metadata)
    if get_origin(kind) is not Literal and len(arguments) == 1 and type(None) in get_args(kind):
        (kind,) = arguments  # optional
        limits += list(getattr(kind, "__metadata__", ()))
        kind = get_args(kind)[0] if limits and get_args(kind) else kind
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    if kind is bool:
        return "true, false"
    words = {int: "whole number", float: "number", str: "text"}.get(kind, "list")
    return " ".join([words, *_limit_words(limits)])


def _limit_words(limits: list[Any]) -> Iterator[str]:
    flat = [each for limit in limits for each in getattr(limit, "metadata", [limit])]
    for name, word in (("ge", "from"), ("gt", "above"), ("le", "to"), ("lt", "below")):
        for limit in flat:
            bound = getattr(limit, name, None)
            if bound is not None:
                yield f"{word} {bound:g}"

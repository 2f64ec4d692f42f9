"""Settings from TOML files, shipped experiments and ``--set section.key=value``."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuckerkg.config.settings import DEFAULTS, Settings, parse_settings
from tuckerkg.errors import SettingsError, did_you_mean, printable
from tuckerkg.types import JsonObject

SPACES = "spaces"  # folder of search spaces, beside the experiments


def load_settings(file: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings from a TOML file (or none) with dotted ``overrides`` such as ``{"train.lr": 0.01}`` on top."""
    values = {} if file is None else read_values(file)
    for key, value in (overrides or {}).items():
        _put(values, key, value)
    return parse_settings(values, str(file) if file is not None else "settings")


def read_values(file: str | Path) -> JsonObject:
    """The plain values of a settings file or shipped experiment.

    Raises:
        SettingsError: there is no such file, or it is not TOML.
    """
    path = find_settings(file)
    try:
        values: JsonObject = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    values.setdefault("experiment", experiment_name(path))
    return values


def dotted(values: Mapping[str, Any], before: str = "") -> JsonObject:
    """Nested ``values`` as overrides: ``{"train": {"lr": 0.01}}`` -> ``{"train.lr": 0.01}``."""
    found: JsonObject = {}
    for key, value in values.items():
        found |= dotted(value, f"{before}{key}.") if isinstance(value, Mapping) else {f"{before}{key}": value}
    return found


def put_all(values: JsonObject, overrides: Mapping[str, Any]) -> JsonObject:
    """A copy of nested ``values`` with dotted ``overrides`` on top."""
    found = copy.deepcopy(values)
    for key, value in overrides.items():
        _put(found, key, value)
    return found


def parse_override(text: str) -> tuple[str, Any]:
    """``train.lr=0.01`` -> ("train.lr", 0.01). The value is read as TOML; what is not TOML is a string."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise SettingsError(f"--set {printable(text)}: expected section.key=value, for instance train.lr=0.01")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def is_settings(name: str | Path) -> bool:
    """Whether ``name`` is a TOML file or a shipped experiment."""
    if Path(name).is_file():
        return Path(name).suffix == ".toml"
    return str(name).removesuffix(".toml").replace("/", "-") in map(experiment_name, experiment_files())


def find_settings(name: str | Path) -> Path:
    """A settings file by path, or a shipped experiment by name."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = {experiment_name(file): file for file in experiment_files()}
    wanted = str(name).removesuffix(".toml").replace("/", "-")
    if wanted in shipped:
        return shipped[wanted]
    raise SettingsError(
        f"{printable(str(name))}: neither a settings file nor a shipped experiment.{did_you_mean(str(name), shipped)}"
    )


def experiment_files() -> list[Path]:
    """The shipped settings files."""
    folder = Path(__file__).resolve().parent.parent / "experiments"
    return sorted(file for file in folder.rglob("*.toml") if file.parent.name != SPACES)


def experiment_name(file: Path) -> str:
    """``experiments/wn18rr/tgcn-tucker.toml`` -> ``wn18rr-tgcn-tucker``; of a user's file, its name."""
    parts = file.with_suffix("").parts
    return "-".join(parts[-2:]) if "experiments" in parts[-3:-2] else file.stem


def _put(values: JsonObject, key: str, value: Any) -> None:
    """Set a dotted key. Naming another component drops the options of the one it replaces."""
    *sections, last = key.split(".")
    if not sections and last in DEFAULTS and isinstance(value, str):
        sections, last = [last], "name"
    for section in sections:
        inner = values.setdefault(section, {})
        if isinstance(inner, str) and section in {*DEFAULTS, "start"}:
            inner = values[section] = {"run" if section == "start" else "name": inner}
        if not isinstance(inner, dict):
            raise SettingsError(f"{printable(key)}: {section} is not a section")
        values = inner
    if last == "name" and sections[0] in DEFAULTS and values.get("name", DEFAULTS[sections[0]]) != value:
        values.clear()
    values[last] = value

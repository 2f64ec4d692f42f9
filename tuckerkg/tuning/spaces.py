"""What a search varies: a space of settings, from a file, by name, or as a mapping."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tuckerkg.config.toml import SPACES, experiment_files
from tuckerkg.errors import SettingsError, did_you_mean, printable
from tuckerkg.types import JsonObject

if TYPE_CHECKING:
    import optuna


class Range(BaseModel):
    """Numbers from ``low`` to ``high``, in steps of ``step`` if given, evenly by size or (``log``) by ratio."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    low: float
    high: float
    step: float | None = None
    log: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low >= self.high or (self.log and (self.low <= 0 or self.step is not None)):
            raise ValueError("needs low < high; with log = true also low > 0 and no step")
        return self


Values = list[float | int | bool | str]


class Space(BaseModel):
    """``vary``: dotted setting -> list of values, or a Range. ``fixed``: dotted setting -> value during the search."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = ""
    sampler: Literal["tpe", "random"] = "tpe"
    vary: dict[str, Values | Range] = Field(min_length=1)
    fixed: JsonObject = {}


def load_space(name: str | Path) -> Space:
    """A space by path, or a shipped one by name."""
    path = Path(name)
    shipped = {file.stem: file for file in space_files()}
    if not path.is_file():
        if str(name) not in shipped:
            raise SettingsError(
                f"{printable(str(name))}: neither a file nor a shipped space.{did_you_mean(str(name), shipped)}"
            )
        path = shipped[str(name)]
    try:
        return Space.model_validate({"name": path.stem, **tomllib.loads(path.read_text(encoding="utf-8"))})
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise SettingsError("\n".join(f"{path}: {printable(line)}" for line in lines)) from error


def space_files() -> list[Path]:
    """The shipped spaces, in the folder ``spaces`` beside the experiments."""
    folders = {file.parent.parent for file in experiment_files()}
    return sorted(file for folder in folders for file in (folder / SPACES).glob("*.toml"))


def suggest(trial: optuna.Trial, key: str, choice: list[Any] | Range) -> Any:
    """A value of ``key`` that the study wants to see tried."""
    if not isinstance(choice, Range):
        return trial.suggest_categorical(key, choice)
    return trial.suggest_float(key, choice.low, choice.high, step=choice.step, log=choice.log)


def some_value(choice: list[Any] | Range) -> Any:
    """One that the search may try."""
    return choice.low if isinstance(choice, Range) else choice[0]

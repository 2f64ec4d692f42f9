"""The settings of one run: frozen, typed, from TOML plus ``--set section.key=value``.

An unknown key is refused with the nearest name; a wrong type or value with what is allowed. The options of encoders,
decoders, losses, batches and regularisers are the keyword arguments of their classes: adding one there adds it here.
"""

from __future__ import annotations

import inspect
import json
import tomllib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, field_validator, model_validator

from tuckerkg.ahead import Worker
from tuckerkg.batches import BATCHES, Batches, TrainingGraph
from tuckerkg.decoders import DECODERS
from tuckerkg.dot import Precision
from tuckerkg.encoders import ENCODERS
from tuckerkg.errors import SettingsError, did_you_mean, printable
from tuckerkg.losses import LOSSES, ScoreLoss
from tuckerkg.model import Bias, Model
from tuckerkg.optimisers import LAZY, Name
from tuckerkg.options import NonNegative, NonNegativeFloat, Positive, PositiveFloat, Share
from tuckerkg.regularisers import REGULARISERS, Regulariser

REGISTRIES: dict[str, Mapping[str, type]] = {
    "encoder": ENCODERS,
    "decoder": DECODERS,
    "loss": LOSSES,
    "batch": BATCHES,
    "regulariser": REGULARISERS,
}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelSettings(_Section):
    """Widths of the tables (d_e, d_r), the deviation they start from, and a bias per candidate."""

    dim: Positive = 100
    relation_dim: Positive = 100
    init_std: PositiveFloat = 0.1
    bias: Bias = "none"


class TrainSettings(_Section):
    """The loop."""

    seed: NonNegative = 0
    epochs: PositiveFloat = 100.0
    steps: NonNegative = 0  # 0: as many as epochs need
    learns: Literal["all", "encoder"] = "all"  # encoder: tables and decoder stay as they started
    start_tables: Literal["as they are", "paired"] = "as they are"  # of another run; see warm.py
    optimiser: Name = "adam"
    lr: PositiveFloat = 0.003
    schedule: Literal["constant", "step", "one-cycle"] = "one-cycle"
    decay: Share = 0.95  # step schedule: factor ...
    decay_every: Positive = 500  # ... after so many steps
    warmup: Share = 0.2  # one-cycle: share of the steps in which lr rises
    clip: NonNegativeFloat = 1.0  # gradient norm, 0: not clipped
    l2: NonNegativeFloat = 0.0  # on the embeddings
    l2_encoded: NonNegativeFloat = 0.0  # on what the encoder makes of them
    relation_loss: NonNegativeFloat = 0.0  # weight of predicting the relation too; decoders tucker and distmult
    evaluate_every: PositiveFloat = 5.0  # epochs between looks at validation
    evaluate_from: NonNegativeFloat = 0.0  # epochs before the first look; above 0 a start's weights are not looked at
    patience: NonNegative = 0  # looks without a better MRR before stopping, 0: never
    precision: Precision = "float32"  # of the products of queries with candidates
    worker: Worker = "auto"  # prepares the next batch; auto: where a core is free for it
    device: str = "auto"
    threads: NonNegative = 0  # 0: as many as torch finds
    tensorboard: bool = False


class EvaluateSettings(_Section):
    """How ranks are reported."""

    tie_seed: NonNegative = 0
    hits: tuple[int, ...] = Field(default=(1, 3, 10), strict=False)

    @field_validator("hits")
    @classmethod
    def _positive(cls, hits: tuple[int, ...]) -> tuple[int, ...]:
        if not hits or min(hits) < 1:
            raise ValueError("needs whole numbers from 1 on")
        return tuple(sorted(set(hits)))


class Settings(_Section):
    """All settings of one run. The sections named in ``REGISTRIES`` are a component's name and its options."""

    experiment: str = ""
    dataset: str = "countries"
    model: ModelSettings = ModelSettings()
    encoder: dict[str, Any] = Field(default={"name": "tgcn"}, validate_default=True)
    decoder: dict[str, Any] = Field(default={"name": "tucker"}, validate_default=True)
    loss: dict[str, Any] = Field(default={"name": "softmax"}, validate_default=True)
    batch: dict[str, Any] = Field(default={"name": "whole"}, validate_default=True)
    regulariser: dict[str, Any] = Field(default={"name": "none"}, validate_default=True)
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()

    @model_validator(mode="before")
    @classmethod
    def _component_options(cls, values: Any) -> Any:
        """Fills every component's options, checked against its class."""
        if not isinstance(values, Mapping):
            return values
        return {key: _component(key, value) if key in REGISTRIES else value for key, value in values.items()}

    @model_validator(mode="after")
    def _filled(self) -> Settings:
        for section in REGISTRIES:
            object.__setattr__(self, section, _component(section, getattr(self, section)))
        if self.train.optimiser in LAZY and self.batch["name"] != "subgraph":
            raise SettingsError(
                f"train.optimiser: {self.train.optimiser} moves only the entities of a random subgraph, and "
                f"batch.name is {self.batch['name']}; set batch.name=subgraph, or use adam or adagrad"
            )
        if self.train.learns == "encoder" and self.encoder["name"] == "none":
            raise SettingsError("train.learns: the encoder none has nothing to learn; use another encoder, or all")
        able = [name for name, kind in DECODERS.items() if hasattr(kind, "relation_query")]
        if self.train.relation_loss and self.decoder["name"] not in able:
            raise SettingsError(
                f"train.relation_loss: the decoder {self.decoder['name']} cannot ask for relations; "
                f"set it to 0, or use {' or '.join(able)}"
            )
        return self

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain: dict[str, Any] = json.loads(self.model_dump_json())
        return plain


def load_settings(file: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings from a TOML file (or none) with dotted ``overrides`` such as ``{"train.lr": 0.01}`` on top."""
    values: dict[str, Any] = {}
    if file is not None:
        path = find_settings(file)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path}: cannot be read: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{path}: not valid TOML: {error}") from error
        values.setdefault("experiment", path.stem)
    for key, value in (overrides or {}).items():
        _put(values, key, value)
    return parse_settings(values, str(file) if file is not None else "settings")


def parse_settings(values: Mapping[str, Any], origin: str = "settings") -> Settings:
    """Checks plain values; raises SettingsError that names key, value and what is allowed."""
    try:
        return Settings.model_validate(dict(values))
    except ValidationError as error:
        raise SettingsError("\n".join(f"{origin}: {line}" for line in _explain(error, Settings, ""))) from error


def parse_override(text: str) -> tuple[str, Any]:
    """``train.lr=0.01`` -> ("train.lr", 0.01). The value is read as TOML; what is not TOML is a string."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise SettingsError(f"--set {printable(text)}: expected section.key=value, for instance train.lr=0.01")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def find_settings(name: str | Path) -> Path:
    """A settings file by path, or a shipped experiment by name."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = {file.stem: file for file in experiment_files()}
    if str(name) in shipped:
        return shipped[str(name)]
    raise SettingsError(
        f"{printable(str(name))}: neither a settings file nor a shipped experiment.{did_you_mean(str(name), shipped)}"
    )


def experiment_files() -> list[Path]:
    """The shipped settings files: beside the code when installed, at the top of the repository otherwise."""
    here = Path(__file__).resolve().parent
    for folder in (here / "experiments", here.parent / "experiments"):
        if folder.is_dir():
            return sorted(folder.glob("*.toml"))
    return []


def build_model(settings: Settings, num_entities: int, num_relations: int) -> Model:
    """The model that ``settings`` describe, freshly initialised from torch's current random state."""
    dim, relation_dim = settings.model.dim, settings.model.relation_dim
    try:
        encoder = ENCODERS[settings.encoder["name"]](dim, relation_dim, 2 * num_relations, **_options(settings.encoder))
        decoder = DECODERS[settings.decoder["name"]](
            encoder.out_dim, encoder.out_relation_dim, **_options(settings.decoder)
        )
    except ValueError as error:
        raise SettingsError(str(error)) from error
    return Model(
        num_entities,
        num_relations,
        dim,
        relation_dim,
        encoder,
        decoder,
        init_std=settings.model.init_std,
        bias=settings.model.bias,
    )


def build_loss(settings: Settings) -> ScoreLoss:
    """The loss that ``settings`` describe."""
    loss: ScoreLoss = LOSSES[settings.loss["name"]](**_options(settings.loss))
    return loss


def build_regulariser(settings: Settings) -> Regulariser:
    """The regulariser that ``settings`` describe."""
    regulariser: Regulariser = REGULARISERS[settings.regulariser["name"]](**_options(settings.regulariser))
    return regulariser


def build_batches(settings: Settings, graph: TrainingGraph) -> Batches:
    """The batches that ``settings`` describe."""
    batches: Batches = BATCHES[settings.batch["name"]](graph, **_options(settings.batch))
    return batches


def _options(component: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in component.items() if key != "name"}


def _component(section: str, given: Any) -> dict[str, Any]:
    """``{"name": ...}`` with every option filled in; a bare string is a name."""
    registry = REGISTRIES[section]
    given = {"name": given} if isinstance(given, str) else given
    if not isinstance(given, Mapping):
        raise SettingsError(f"{section}: expected a name or a table, got {given!r}")
    name = given.get("name", _default_name(section))
    if name not in registry:
        raise SettingsError(
            f"{section}.name: {printable(repr(name))} does not exist, allowed are {', '.join(registry)}."
            f"{did_you_mean(str(name), registry)}"
        )
    options = options_of(registry[name])
    try:
        checked = options.model_validate(_options(given))
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(error, options, f"{section}."))) from error
    return {"name": name, **checked.model_dump()}


def _default_name(section: str) -> str:
    name: str = Settings.model_fields[section].default["name"]
    return name


def options_of(component: type) -> type[BaseModel]:
    """A pydantic model of a class's keyword-only arguments: names, types, ranges, defaults."""
    start: Any = getattr(component, "__init__")  # noqa: B009  (mypy doubts an attribute of a class held in a variable)
    hints = typing.get_type_hints(start, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], parameter.default)
        for name, parameter in inspect.signature(start).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    return create_model(
        f"{component.__name__}Options", __config__=ConfigDict(extra="forbid", strict=True, frozen=True), **fields
    )


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted key. Naming another component drops the options of the one it replaces."""
    *sections, last = key.split(".")
    if not sections and last in REGISTRIES and isinstance(value, str):
        sections, last = [last], "name"
    for section in sections:
        inner = values.setdefault(section, {})
        if isinstance(inner, str) and section in REGISTRIES:
            inner = values[section] = {"name": inner}
        if not isinstance(inner, dict):
            raise SettingsError(f"{printable(key)}: {section} is not a section")
        values = inner
    if last == "name" and sections[0] in REGISTRIES and values.get("name", _default_name(sections[0])) != value:
        values.clear()
    values[last] = value


def _explain(error: ValidationError, model: type[BaseModel], prefix: str) -> Iterable[str]:
    for item in error.errors():
        path = [str(part) for part in item["loc"]]
        where = prefix + ".".join(path)
        if item["type"] == "extra_forbidden":
            names = _names_at(model, path[:-1])
            yield (
                f"{printable(where)}: unknown key.{did_you_mean(path[-1], names)} "
                f"Known here: {', '.join(sorted(names))}"
            )
        else:
            yield f"{printable(where)} = {printable(repr(item['input']))}: {item['msg']}"


def _names_at(model: type[BaseModel], path: list[str]) -> list[str]:
    for part in path:
        annotation = model.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)

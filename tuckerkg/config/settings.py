"""The settings of one run: frozen and typed.

An unknown key is refused with the nearest name; a wrong type or value with what is allowed. The options of encoders,
decoders, losses and batches are the keyword-only arguments of their classes: adding one there adds it here.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_serializer,
    model_validator,
)

from tuckerkg.batches.phases import Phase
from tuckerkg.config.registry import REGISTRIES, Factory, find_component
from tuckerkg.errors import SettingsError, did_you_mean, printable
from tuckerkg.losses.regularizers import REGULARIZERS
from tuckerkg.nn.model import Bias
from tuckerkg.nn.paths import Core, Hide
from tuckerkg.ranges import Dropout, NonNegative, NonNegativeFloat, Positive, PositiveFloat, Share, ShareOrNone
from tuckerkg.storage.run_folder import RunFolder
from tuckerkg.types import Counted, JsonObject, Precision, Readout
from tuckerkg.version import VERSION

OptimizerName = Literal["adam", "adagrad", "lazy-adam", "rowwise-adagrad"]
LAZY: tuple[OptimizerName, ...] = ("lazy-adam", "rowwise-adagrad")
Kind = Literal["embedding", "paths", "blend", "nodes", "graphs"]
DEFAULTS = {"encoder": "tgcn", "decoder": "tucker", "loss": "softmax", "batch": "whole"}


class Section(BaseModel):
    """A part of the settings; the text below a field is its meaning in the reference."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class StartSettings(Section):
    """Warm start: embeddings and weights of another run to begin with."""

    run: str = ""
    """A run folder, or the name of a shipped experiment, which is trained first where its run is not there yet."""
    tables: Literal["same", "interleaved"] = "same"
    """"interleaved" puts the two halves of each row, ComplEx's real and imaginary parts, side by side, where a
    convolution sees both."""


class ModelSettings(Section):
    """The embeddings."""

    dim: Positive = 100
    """Width of entity embeddings, d_e."""
    relation_dim: Positive = 100
    """Width of relation embeddings, d_r."""
    init_std: PositiveFloat = 0.1
    """Standard deviation of the embeddings at the start."""
    bias: Bias = "none"
    """A number per entity that is added to its scores: "free" is learnt; "distance" also subtracts half the squared
    length of the entity's vector, so that a dot product ranks as a distance does."""


class PathSettings(Section):
    """Messages that start from the question, for kind = "paths"."""

    layers: Positive = 4
    """How many steps messages go from the head."""
    width: Literal[8, 16, 32, 64, 128] = 32
    """Features of a message."""
    core: Core = "question"
    """The message's core: "question" is Eq. (7) with relation vectors that a Tucker core makes of the relation and the
    question; "cp" is Eq. (7) with a vector per relation; "tucker" is Eq. (3), a matrix per relation, in plain PyTorch
    and so many times slower."""
    power: ShareOrNone = 0.5
    """The sum of an entity's messages is divided by its degree to this power: 0 is a sum, 1 a mean."""
    hide: Hide = "own"
    """Which edges a training question must not use: "own", the fact that is asked for; "pair", every edge between head
    and answer."""
    questions: Positive = 32
    """Questions of a step."""
    answers: ShareOrNone = 0.1
    """Share of a question's other known answers that are asked for, and so hidden, together with its own: about as many
    as are missing from the graph."""
    least_gradient: Share | Literal[0] = 0.01
    """Gradients of scores below this share are rounded to it or to 0 at random, without bias, so that the backward pass
    follows few entities; 0 keeps all."""


class ClassifySettings(Section):
    """Classes of nodes or graphs, for kind = "nodes" and "graphs"."""

    members: Positive = 5
    """Classifiers that vote, each trained without another part of the labels, on which it is validated; 1: trained on
    all, and not validated."""
    least: Positive = 5
    """Facts that a node must be in to have a start vector of its own; all others share one."""
    readout: Readout = "sum"
    """How the nodes of a graph become one vector."""
    dropout: Dropout = 0.0
    """On the start vectors, and in front of the last layer of a classifier of graphs."""
    weight_decay: NonNegativeFloat = 0.0005
    """Weight of the squared weights in what is minimized."""
    counts: Counted = "none"
    """A linear classifier that votes beside the encoder: counts of what stands around an item, as they are, or rare
    things for more and all items as equally large. Its share is fitted on labels that members do not see."""
    hops: Positive = 2
    """How far away things are counted: facts of a path from a node, or rounds of colours in a graph."""
    counts_decay: NonNegativeFloat = 0.0001
    """Weight of that classifier's squared weights."""


class TrainSettings(Section):
    """The training loop."""

    seed: NonNegative = 0
    """Seed of everything random."""
    epochs: PositiveFloat = 100.0
    """Passes over the training queries."""
    steps: NonNegative = 0
    """Optimizer steps instead of epochs; 0: as many as the epochs need."""
    optimizer: OptimizerName = "adam"
    """The lazy ones move only the entities of a batch, so that a step does not cost more in a larger graph; they need
    batch.name=subgraph, or, on ranks, phases that all sample candidates."""
    lr: PositiveFloat = 0.003
    """Learning rate, the highest one of its schedule."""
    schedule: Literal["constant", "step", "one-cycle"] = "one-cycle"
    """How the learning rate changes."""
    decay: Share = 0.95
    """Step schedule: factor after every decay_every steps."""
    decay_every: Positive = 500
    """Step schedule: steps between two decays."""
    warmup: Share = 0.2
    """One-cycle schedule: share of the steps in which the learning rate rises."""
    clip: NonNegativeFloat = 1.0
    """Largest norm of the gradient; 0: not clipped."""
    evaluate_every: PositiveFloat = 5.0
    """Epochs between two evaluations of the validation split."""
    validate_on: NonNegative = 0
    """Validation triples that are ranked, random ones but always the same; 0: all of them."""
    patience: NonNegative = 0
    """Early stopping: evaluations without a better validation MRR before training stops; 0: never."""
    precision: Precision = "float32"
    """Of the products of queries with candidates and of convolutional projections, in training."""
    device: str = "auto"
    """cpu, cuda, or auto: CUDA where there is one."""
    threads: NonNegative = 0
    """Threads of PyTorch; 0: as many as it finds. A resumed run is bit-exact with the same number."""


class RankSettings(Section):
    """Training on several processes, the ranks, each with a part of the entity table."""

    shards: NonNegative = 0
    """Parts of the entity table, or with kind=paths of a step's questions: a power of two and no fewer than there are
    ranks; 0: one piece, for one process. The numbers do not depend on how many ranks share them."""
    fanout: tuple[Positive, ...] = Field(default=(), strict=False)
    """How many messages an entity receives in a layer, at most, random ones from its owner: a number for each layer,
    such as [10, 5], that of the last layer first; none: all messages, from the facts that every rank then has. With
    kind=paths, how many facts are drawn for an entity by its distance from a question's head and answers."""


class EvaluateSettings(Section):
    """How ranks are reported."""

    tie_seed: NonNegative = 0
    """Seed of the random order among equal scores."""
    hits: tuple[int, ...] = Field(default=(1, 3, 10), strict=False)
    """The k of Hits@k."""

    @field_validator("hits")
    @classmethod
    def _positive(cls, hits: tuple[int, ...]) -> tuple[int, ...]:
        if not hits or min(hits) < 1:
            raise ValueError("needs whole numbers from 1 on")
        return tuple(sorted(set(hits)))


class Component(BaseModel):
    """An encoder, decoder, loss or way to make batches: its name, and every option of its class."""

    model_config = ConfigDict(frozen=True)

    name: str
    options: JsonObject

    @model_serializer
    def _flat(self) -> JsonObject:
        return {"name": self.name, **self.options}


class Settings(Section):
    """All settings of one run."""

    experiment: str = ""
    """Name of the experiment; a shipped file's is its path."""
    kind: Kind = "embedding"
    """"embedding" is a model with a vector per entity; "paths" sends messages from the question's head and has
    no vector of any entity; "blend" is a weighted sum of trained runs, which `tuckerkg blend` makes; "nodes" and
    "graphs" put these into classes, which `tuckerkg classify` does."""
    dataset: str = "countries"
    """A dataset's name, a folder with train/valid/test files, or one file to be split."""
    plugins: tuple[str, ...] = Field(default=(), strict=False)
    """User modules that the components come from. They are imported only where --plugin names them."""
    start: StartSettings = StartSettings()
    model: ModelSettings = ModelSettings()
    paths: PathSettings = PathSettings()
    classify: ClassifySettings = ClassifySettings()
    encoder: Component = Field(default_factory=lambda: _component("encoder", DEFAULTS["encoder"]))
    decoder: Component = Field(default_factory=lambda: _component("decoder", DEFAULTS["decoder"]))
    loss: Component = Field(default_factory=lambda: _component("loss", DEFAULTS["loss"]))
    batch: Component = Field(default_factory=lambda: _component("batch", DEFAULTS["batch"]))
    regularizer: dict[str, NonNegativeFloat] = Field(default_factory=dict, validate_default=True)
    """Weights of penalties that are added to the loss, by name."""
    phase: tuple[Phase, ...] = Field(default=(), strict=False)
    """What happens when: stretches of training, one after the other."""
    train: TrainSettings = TrainSettings()
    ranks: RankSettings = RankSettings()
    evaluate: EvaluateSettings = EvaluateSettings()

    @field_validator("start", mode="before")
    @classmethod
    def _start_by_name(cls, value: Any) -> Any:
        return {"run": value} if isinstance(value, str) else value

    @field_validator("encoder", "decoder", "loss", "batch", mode="before")
    @classmethod
    def _component(cls, value: Any, info: Any) -> Component:
        return value if isinstance(value, Component) else _component(info.field_name, value)

    @field_validator("regularizer", mode="before")
    @classmethod
    def _weighed_regularizers(cls, value: Any) -> Any:
        """A name alone would have no weight, and so no effect."""
        if isinstance(value, str):
            name = value if value in REGULARIZERS else next(iter(REGULARIZERS))
            raise SettingsError(f"regularizer: each has a weight of its own, for example regularizer.{name}=0.05")
        return value

    @field_validator("regularizer", mode="after")
    @classmethod
    def _known_regularizers(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            if name not in REGULARIZERS:
                hint = did_you_mean(name, REGULARIZERS)
                raise SettingsError(
                    f"regularizer.{printable(name)}: unknown key.{hint} Known: {', '.join(REGULARIZERS)}"
                )
        return {name: value.get(name, 0.0) for name in REGULARIZERS}

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        explicit = self.encoder.name == "none" or bool(self.ranks.fanout)
        sampled = self.ranks.shards and explicit and self.phase and all(phase.candidates for phase in self.phase)
        if self.train.optimizer in LAZY and self.batch.name != "subgraph" and not sampled:
            raise SettingsError(
                f"train.optimizer: {self.train.optimizer} moves only the entities of a random subgraph, and "
                f"batch.name is {self.batch.name}; set batch.name=subgraph, or use adam or adagrad; or, on ranks, give "
                "every phase candidates"
            )
        if self.ranks.fanout and not self.ranks.shards:
            raise SettingsError("ranks.fanout: is for training on ranks; give ranks.shards, or --ranks")
        if self.kind == "paths":
            self._fits_paths()
        self._fits_classes()
        for place, phase in enumerate(self.phase[:-1]):
            if phase.epochs is None:
                raise SettingsError(f"phase.{place}.epochs: every phase but the last says how long it lasts")
        return self

    def _fits_paths(self) -> None:
        """Refuse what would be left out without a word."""
        if self.train.optimizer in LAZY:
            raise SettingsError(
                f"train.optimizer: {self.train.optimizer} moves the vectors of a batch's entities, and with kind=paths "
                "no entity has any; use adam or adagrad"
            )
        default = Settings()
        given = {f"regularizer.{name}": bool(weight) for name, weight in self.regularizer.items()}
        given |= {name: getattr(self, name) != getattr(default, name) for name in TABLES_ONLY}
        given["train.precision"] = self.train.precision != default.train.precision
        for key in (key for key, is_given in given.items() if is_given):
            raise SettingsError(f"{key}: belongs to models with a vector per entity; leave it out with kind=paths")

    def _fits_classes(self) -> None:
        """Refuse sections of another kind, as ``_fits_paths`` does."""
        default = Settings.model_construct()
        if self.kind not in ("nodes", "graphs"):
            if self.classify != ClassifySettings():
                raise SettingsError(f"classify: is for nodes and graphs that get classes, and kind is {self.kind}")
            return
        given = {name: getattr(self, name) != getattr(default, name) for name in LINKS_ONLY}
        given["regularizer"] = any(self.regularizer.values())
        given["train.optimizer"] = self.train.optimizer in LAZY
        for key in (key for key, is_given in given.items() if is_given):
            raise SettingsError(f"{key}: belongs to models of links; leave it out with kind={self.kind}")

    def as_dict(self) -> JsonObject:
        """Plain values for JSON."""
        plain: JsonObject = json.loads(self.model_dump_json())
        return plain


TABLES_ONLY = ("phase", "model", "encoder", "decoder", "loss", "batch")
"""Sections that mean nothing where no entity has a vector."""

LINKS_ONLY = ("paths", "decoder", "loss", "batch", "phase", "ranks", "start")
"""Sections that mean nothing where nodes or graphs are put into classes."""


def parse_settings(values: Mapping[str, Any], origin: str = "settings") -> Settings:
    """Check plain values.

    Raises:
        SettingsError: names key, value and what is allowed.
    """
    try:
        return Settings.model_validate(dict(values))
    except ValidationError as error:
        raise SettingsError("\n".join(f"{origin}: {line}" for line in _explain(error, Settings, ""))) from error


def settings_of_run(folder: RunFolder) -> Settings:
    """The settings of a run folder.

    Raises:
        SettingsError: they are not what this version knows; says so where a newer one made the run.
    """
    try:
        return parse_settings(folder.settings, str(folder.path))
    except SettingsError as error:
        made_by = folder.made_by()
        if made_by is None or _numbers(made_by) <= _numbers(VERSION):
            raise
        raise SettingsError(
            f"{error}\n{folder.path} was made by tuckerkg {printable(made_by)}, and this is {VERSION}: update tuckerkg"
        ) from error


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]{1,9}", version)]


def _component(section: str, given: Any) -> Component:
    """A name, a table with a name and options, or a class, with every option filled in."""
    if isinstance(given, str):
        given = {"name": given}
    if not isinstance(given, Mapping):
        raise SettingsError(f"{section}: expected a name or a table, got {given!r}")
    name = given.get("name", DEFAULTS[section])
    options = options_of(find_component(section, name))
    try:
        checked = options.model_validate({key: value for key, value in given.items() if key != "name"})
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(error, options, f"{section}."))) from error
    return Component(name=name, options=checked.model_dump())


def options_of(factory: Factory) -> type[BaseModel]:
    """A pydantic model of a class's keyword-only arguments: names, types, ranges, defaults."""
    start: Any = getattr(factory, "__init__")  # noqa: B009  (mypy doubts an attribute of a class held in a variable)
    hints = typing.get_type_hints(start, include_extras=True)
    fields: JsonObject = {
        name: (hints.get(name, Any), parameter.default)
        for name, parameter in inspect.signature(start).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    name = getattr(factory, "__name__", type(factory).__name__)
    return create_model(f"{name}Options", __config__=ConfigDict(extra="forbid", strict=True, frozen=True), **fields)


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
        if part.isdigit():
            continue
        annotation = Phase if part == "phase" else model.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)


__all__ = ["LAZY", "REGISTRIES", "Component", "Settings", "options_of", "parse_settings", "settings_of_run"]

"""Components by name: those of the package, of installed packages (entry points) and of the user's own modules.

A settings file or a run folder only ever names a component. Code of a user's module runs when the user asks for it,
by ``--plugin`` or by passing a class, never because a run folder says so.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from tuckerkg.batches import BATCHES
from tuckerkg.errors import SettingsError, did_you_mean, printable
from tuckerkg.losses import LOSSES
from tuckerkg.nn.contracts import Decoder, Encoder, Loss
from tuckerkg.nn.decoders import DECODERS
from tuckerkg.nn.encoders import ENCODERS

Factory = Callable[..., Any]

REGISTRIES: dict[str, dict[str, Factory]] = {
    "encoder": ENCODERS,
    "decoder": DECODERS,
    "loss": LOSSES,
    "batch": BATCHES,
}
CONTRACTS: dict[str, type] = {"encoder": Encoder, "decoder": Decoder, "loss": Loss}


def find_component(section: str, name: Any) -> Factory:
    """The class or function that makes the component ``name`` of ``section``.

    Raises:
        SettingsError: nobody has registered that name.
    """
    registry = REGISTRIES[section]
    if isinstance(name, str) and name not in registry:
        for point in entry_points(group=f"tuckerkg.{section}s", name=name):
            registry[name] = point.load()
    if not isinstance(name, str) or name not in registry:
        hint = did_you_mean(str(name), registry)
        if isinstance(name, str) and ":" in name:
            module = name.partition(":")[0]
            hint = f" It comes from the module {printable(module)}: pass --plugin {printable(module)} to import that."
        raise SettingsError(
            f"{section}.name: {printable(repr(name))} does not exist, allowed are {', '.join(registry)}.{hint}"
        )
    return registry[name]


def register(section: str, component: Any) -> str:
    """Make a class, or an instance, usable by name in this process, and return the name.

    The name is ``module:Class``. An instance is copied each time a model is built, and has no options.
    """
    cls = component if inspect.isclass(component) else type(component)
    if not inspect.isclass(component) and not issubclass(cls, nn.Module) and not issubclass_of(cls, CONTRACTS[section]):
        raise SettingsError(
            f"{section}: expected a name, a class or an instance of one, got {printable(repr(component))[:200]}"
        )
    name = f"{cls.__module__}:{cls.__qualname__}"
    REGISTRIES[section][name] = component if inspect.isclass(component) else _Copies(component)
    return name


class _Copies:
    """Makes copies of one instance, whatever the arguments."""

    def __init__(self, instance: Any) -> None:
        self.instance = instance

    def __call__(self, *widths: int) -> Any:
        return copy.deepcopy(self.instance)


def load_plugin(source: str) -> ModuleType:
    """Import a user's module and register the encoders, decoders and losses in it.

    Args:
        source: a module's name, looked for in the current folder too, or a path to a .py file.

    Classes that subclass ``tuckerkg.Encoder``, ``Decoder`` or ``Loss`` are registered under their name in lower case
    and as ``module:Class``; dicts called ENCODERS, DECODERS or LOSSES give them other names.

    Raises:
        SettingsError: it cannot be imported, or holds no component.
    """
    module = _import(source)
    found = 0
    for section, contract in CONTRACTS.items():
        for cls in vars(module).values():
            if inspect.isclass(cls) and cls.__module__ == module.__name__ and issubclass_of(cls, contract):
                REGISTRIES[section][cls.__name__.lower()] = cls
                register(section, cls)
                found += 1
        named = getattr(module, f"{section.upper()}{'ES' if section == 'loss' else 'S'}", None)
        if isinstance(named, Mapping):
            REGISTRIES[section].update(named)
            found += len(named)
    if not found:
        raise SettingsError(
            f"--plugin {printable(source)}: has no class that subclasses tuckerkg.Encoder, tuckerkg.Decoder or "
            "tuckerkg.Loss, and no dict ENCODERS, DECODERS or LOSSES"
        )
    return module


def issubclass_of(cls: type, contract: type) -> bool:
    """Whether ``cls`` names ``contract`` among its bases; its methods alone do not count."""
    return contract in cls.__mro__ and cls is not contract


def _import(source: str) -> ModuleType:
    path = Path(source)
    try:
        if path.suffix == ".py":
            return _import_file(path)
        before = list(sys.path)
        sys.path.insert(0, str(Path.cwd()))
        try:
            return importlib.import_module(source)
        finally:
            sys.path[:] = before
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(
            f"--plugin {printable(source)}: cannot be imported: {type(error).__name__}: {printable(str(error))}"
        ) from error


def _import_file(path: Path) -> ModuleType:
    if path.stem in sys.modules:
        return sys.modules[path.stem]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise SettingsError(f"--plugin {printable(str(path))}: there is no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module

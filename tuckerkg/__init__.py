"""tuckerkg completes knowledge graphs with Tucker Graph Convolutional Networks (TGCN).

    import tuckerkg
    run = tuckerkg.train("umls", encoder="tgcn", decoder="tucker", out="runs/umls")
    run.evaluate("test").mrr
    tuckerkg.load("runs/umls").predict(head="acquired_abnormality", relation="location_of", k=10)

Nothing heavy is imported until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuckerkg.api import train
    from tuckerkg.datasets import load as load_dataset
    from tuckerkg.encoders.tgcn import TGCN, TGCNConv
    from tuckerkg.errors import TuckerkgError
    from tuckerkg.memory import dataset_of
    from tuckerkg.run import Run, load

_HOMES = {
    "train": ("tuckerkg.api", "train"),
    "load": ("tuckerkg.run", "load"),
    "dataset_of": ("tuckerkg.memory", "dataset_of"),
    "load_dataset": ("tuckerkg.datasets", "load"),
    "Run": ("tuckerkg.run", "Run"),
    "TGCN": ("tuckerkg.encoders.tgcn", "TGCN"),
    "TGCNConv": ("tuckerkg.encoders.tgcn", "TGCNConv"),
    "TuckerkgError": ("tuckerkg.errors", "TuckerkgError"),
}

__all__ = ["TGCN", "Run", "TGCNConv", "TuckerkgError", "dataset_of", "load", "load_dataset", "train"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tuckerkg' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = globals()[name] = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])

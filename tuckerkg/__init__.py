"""tuckerkg completes knowledge graphs with Tucker Graph Convolutional Networks (TGCN).

    import tuckerkg
    run = tuckerkg.train("umls", epochs=40)
    run.evaluate("test").mrr
    run.predict(head="acquired_abnormality", relation="location_of").to_frame()

Nothing heavy is imported until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tuckerkg.version import VERSION

if TYPE_CHECKING:
    from tuckerkg.api import refit_run as refit
    from tuckerkg.api import resume as resume
    from tuckerkg.api import train as train
    from tuckerkg.api import train_seeds as train_seeds
    from tuckerkg.config.registry import load_plugin as load_plugin
    from tuckerkg.config.registry import register as register
    from tuckerkg.config.settings import Settings as Settings
    from tuckerkg.config.toml import load_settings as load_settings
    from tuckerkg.data.dataset import Dataset as Dataset
    from tuckerkg.data.ingest.ingest import ingest as ingest
    from tuckerkg.data.load import available as datasets
    from tuckerkg.data.load import load as load_dataset
    from tuckerkg.data.shards import ShardedGraph as ShardedGraph
    from tuckerkg.errors import TuckerkgError as TuckerkgError
    from tuckerkg.evaluation.metrics import Evaluation as Evaluation
    from tuckerkg.graph.message_graph import MessageGraph as MessageGraph
    from tuckerkg.inference.answers.predictions import Prediction as Prediction
    from tuckerkg.inference.answers.predictions import Predictions as Predictions
    from tuckerkg.inference.blend import blend as blend
    from tuckerkg.inference.predictor import Predictor as Predictor
    from tuckerkg.inference.run import Run as Run
    from tuckerkg.inference.run import load as load
    from tuckerkg.inference.runs import Runs as Runs
    from tuckerkg.kernels.comparison import Comparison as Comparison
    from tuckerkg.losses import LOSSES as LOSSES
    from tuckerkg.losses.bce import BinaryCrossEntropy as BinaryCrossEntropy
    from tuckerkg.losses.bce import BinaryCrossEntropyAll as BinaryCrossEntropyAll
    from tuckerkg.losses.nt_xent import NTXent as NTXent
    from tuckerkg.losses.self_adversarial import SelfAdversarial as SelfAdversarial
    from tuckerkg.nn.contracts import Decoder as Decoder
    from tuckerkg.nn.contracts import Encoder as Encoder
    from tuckerkg.nn.contracts import Loss as Loss
    from tuckerkg.nn.contracts import Scorer as Scorer
    from tuckerkg.nn.decoders import DECODERS as DECODERS
    from tuckerkg.nn.decoders.complex import ComplEx as ComplEx
    from tuckerkg.nn.decoders.conve import ConvE as ConvE
    from tuckerkg.nn.decoders.convtranse import ConvTransE as ConvTransE
    from tuckerkg.nn.decoders.distmult import DistMult as DistMult
    from tuckerkg.nn.decoders.rescal import RESCAL as RESCAL
    from tuckerkg.nn.decoders.rotate import RotatE as RotatE
    from tuckerkg.nn.decoders.transe import TransE as TransE
    from tuckerkg.nn.decoders.tucker import TuckER as TuckER
    from tuckerkg.nn.encoders import ENCODERS as ENCODERS
    from tuckerkg.nn.encoders.compgcn import CompGCN as CompGCN
    from tuckerkg.nn.encoders.identity import NoEncoder as NoEncoder
    from tuckerkg.nn.encoders.rgcn import RGCN as RGCN
    from tuckerkg.nn.encoders.sacn import SACN as SACN
    from tuckerkg.nn.encoders.tgcn import TGCN as TGCN
    from tuckerkg.nn.encoders.tgcn import TGCNConv as TGCNConv
    from tuckerkg.nn.encoders.tgcn import TGCNLayer as TGCNLayer
    from tuckerkg.nn.model import Model as Model
    from tuckerkg.reports.comparison import compare as compare
    from tuckerkg.reports.html import report as report
    from tuckerkg.reports.inspection import inspect_dataset as inspect
    from tuckerkg.tasks.classify import classify as classify
    from tuckerkg.tasks.run import ClassRun as ClassRun
    from tuckerkg.tasks.run import load_class_run as load_class_run
    from tuckerkg.training.callbacks import Callback as Callback
    from tuckerkg.training.callbacks import NullCallback as NullCallback
    from tuckerkg.tuning.tune import tune as tune

# Public name -> (module, name there). The block above says the same to type checkers; a test compares the two.
_HOMES: dict[str, tuple[str, str]] = {
    name: (module, attribute or name)
    for module, names in {
        "api": {"refit": "refit_run", "resume": "", "train": "", "train_seeds": ""},
        "config.registry": {"load_plugin": "", "register": ""},
        "config.settings": {"Settings": ""},
        "config.toml": {"load_settings": ""},
        "data.dataset": {"Dataset": ""},
        "data.ingest.ingest": {"ingest": ""},
        "data.load": {"datasets": "available", "load_dataset": "load"},
        "data.shards": {"ShardedGraph": ""},
        "errors": {"TuckerkgError": ""},
        "evaluation.metrics": {"Evaluation": ""},
        "graph.message_graph": {"MessageGraph": ""},
        "inference.blend": {"blend": ""},
        "inference.answers.predictions": {"Prediction": "", "Predictions": ""},
        "inference.predictor": {"Predictor": ""},
        "inference.run": {"Run": "", "load": ""},
        "inference.runs": {"Runs": ""},
        "kernels.comparison": {"Comparison": ""},
        "losses": {"LOSSES": ""},
        "losses.bce": {"BinaryCrossEntropy": "", "BinaryCrossEntropyAll": ""},
        "losses.nt_xent": {"NTXent": ""},
        "losses.self_adversarial": {"SelfAdversarial": ""},
        "nn.contracts": {"Decoder": "", "Encoder": "", "Loss": "", "Scorer": ""},
        "nn.decoders": {"DECODERS": ""},
        "nn.decoders.complex": {"ComplEx": ""},
        "nn.decoders.conve": {"ConvE": ""},
        "nn.decoders.convtranse": {"ConvTransE": ""},
        "nn.decoders.distmult": {"DistMult": ""},
        "nn.decoders.rescal": {"RESCAL": ""},
        "nn.decoders.rotate": {"RotatE": ""},
        "nn.decoders.transe": {"TransE": ""},
        "nn.decoders.tucker": {"TuckER": ""},
        "nn.encoders": {"ENCODERS": ""},
        "nn.encoders.compgcn": {"CompGCN": ""},
        "nn.encoders.identity": {"NoEncoder": ""},
        "nn.encoders.rgcn": {"RGCN": ""},
        "nn.encoders.sacn": {"SACN": ""},
        "nn.encoders.tgcn": {"TGCN": "", "TGCNConv": "", "TGCNLayer": ""},
        "nn.model": {"Model": ""},
        "reports.comparison": {"compare": ""},
        "reports.html": {"report": ""},
        "reports.inspection": {"inspect": "inspect_dataset"},
        "tasks.classify": {"classify": ""},
        "tasks.run": {"ClassRun": "", "load_class_run": ""},
        "training.callbacks": {"Callback": "", "NullCallback": ""},
        "tuning.tune": {"tune": ""},
    }.items()
    for name, attribute in names.items()
}

__all__ = [
    "DECODERS",
    "ENCODERS",
    "LOSSES",
    "RESCAL",
    "RGCN",
    "SACN",
    "TGCN",
    "BinaryCrossEntropy",
    "BinaryCrossEntropyAll",
    "Callback",
    "ClassRun",
    "CompGCN",
    "Comparison",
    "ComplEx",
    "ConvE",
    "ConvTransE",
    "Dataset",
    "Decoder",
    "DistMult",
    "Encoder",
    "Evaluation",
    "Loss",
    "MessageGraph",
    "Model",
    "NTXent",
    "NoEncoder",
    "NullCallback",
    "Prediction",
    "Predictions",
    "Predictor",
    "RotatE",
    "Run",
    "Runs",
    "Scorer",
    "SelfAdversarial",
    "Settings",
    "ShardedGraph",
    "TGCNConv",
    "TGCNLayer",
    "TransE",
    "TuckER",
    "TuckerkgError",
    "blend",
    "classify",
    "compare",
    "datasets",
    "ingest",
    "inspect",
    "load",
    "load_class_run",
    "load_dataset",
    "load_plugin",
    "load_settings",
    "refit",
    "register",
    "report",
    "resume",
    "train",
    "train_seeds",
    "tune",
]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tuckerkg' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = globals()[name] = getattr(import_module(f"tuckerkg.{module}"), attribute)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])

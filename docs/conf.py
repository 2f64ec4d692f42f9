"""Builds the documentation site: the pages of this folder, and two references made from the code."""

from __future__ import annotations

from pathlib import Path

import tuckerkg
from tuckerkg.config.reference import reference_markdown

project = "tuckerkg"
author = "The tuckerkg authors"
copyright = "The tuckerkg authors, Apache-2.0"
version = release = tuckerkg.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme = "furo"
smartquotes = False  # "--plugin" keeps its two hyphens
html_title = f"tuckerkg {release}"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]
nitpicky = False

GROUPS = {
    "Train": ["train", "train_seeds", "resume", "tune", "Callback", "NullCallback", "Settings", "load_settings"],
    "Data": ["Dataset", "load_dataset", "datasets", "inspect", "ingest", "ShardedGraph"],
    "Runs": [
        "load",
        "Run",
        "Runs",
        "Evaluation",
        "Prediction",
        "Predictions",
        "Predictor",
        "blend",
        "compare",
        "report",
    ],
    "Contracts": ["Scorer", "Encoder", "Decoder", "Comparison", "Loss", "MessageGraph", "Model"],
    "Plugins": ["register", "load_plugin"],
    "Encoders": ["TGCN", "TGCNLayer", "TGCNConv", "RGCN", "CompGCN", "SACN", "NoEncoder"],
    "Decoders": ["TuckER", "DistMult", "ComplEx", "RESCAL", "RotatE", "TransE", "ConvE", "ConvTransE"],
    "Losses": ["NTXent", "BinaryCrossEntropy", "BinaryCrossEntropyAll", "SelfAdversarial"],
    "Errors": ["TuckerkgError"],
}


def api_markdown() -> str:
    """A section per group of public names, documented from their docstrings."""
    parts = ["# Python API\n\nEverything here is a name of `tuckerkg`; nothing else is public."]
    for group, names in GROUPS.items():
        parts.append(f"## {group}")
        for name in names:
            thing = getattr(tuckerkg, name)
            kind = "autoclass" if isinstance(thing, type) else "autofunction"
            options = "\n   :members:" if isinstance(thing, type) else ""
            parts.append(f"### {name}\n\n```{{eval-rst}}\n.. {kind}:: tuckerkg.{name}{options}\n```")
    return "\n\n".join(parts) + "\n"


reference = Path(__file__).parent / "reference"
reference.mkdir(exist_ok=True)
for page, text in {"settings.md": reference_markdown(), "api.md": api_markdown()}.items():
    (reference / page).write_text(text, encoding="utf-8")

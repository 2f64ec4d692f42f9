"""Imports point backwards along the path of the data: data never imports a model, a model never the loop."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "tuckerkg"

LAYERS = [
    ["errors"],
    ["textfile", "download", "archives", "options", "manifest", "shortage"],
    ["rows", "read_options", "read_report", "known_datasets", "metrics_log", "place", "names", "weights", "versions"],
    ["layout", "parquet", "rdf", "plots", "splitting"],
    ["reading"],
    ["triples"],
    ["datasets", "memory"],
    ["answers", "distance", "dot", "dropout", "grouping", "norm", "plausible", "sparse", "top"],
    ["feature_maps", "graph", "tucker", "paths"],
    ["propagate"],
    ["encoders", "decoders", "batches", "losses", "regularisers"],
    ["model", "checkpoint", "ahead"],
    ["optimisers"],
    ["config", "evaluate", "interrupt"],
    ["validation"],
    ["calibrate", "examine", "remedies", "training"],
    ["explain"],
    ["predict", "progress", "reliability", "warm", "fold_in"],
    ["run"],
    ["compare"],
    [
        "scoring",
        "adding",
        "export",
        "serve",
        "report",
        "results",
        "questions",
        "outputs",
        "api",
        "compare_plot",
        "explain_plot",
    ],
    ["report_page"],
    ["show"],
    ["spaces", "paper"],
    ["tune", "reproduce"],
    ["claims", "figures"],
    ["results_page"],
    ["cli_options"],
    ["cli_study", "cli_after"],
    ["cli"],
    ["__main__", "__init__"],
]
PLACE = {name: depth for depth, names in enumerate(LAYERS) for name in names}


def imports_of(file: Path) -> set[str]:
    """Top modules of the package that ``file`` imports, lazily or not; type-checking blocks do not count."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tuckerkg":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_backwards(file):
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    name = parts[0]
    assert name in PLACE, f"{name} has no place in the layers: add it where its imports allow"
    for other in imports_of(file) - {name}:
        assert PLACE[other] <= PLACE[name], f"{name} imports {other}, which comes later"


def test_importing_the_package_runs_nothing_heavy():
    import subprocess
    import sys

    script = (
        "import sys, tuckerkg, tuckerkg.cli; print([m for m in ('torch', 'polars', 'pydantic') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == "[]"

"""Imports point backwards: between packages along ``ORDER``, and inside a package without a cycle."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "tuckerkg"

ORDER = [  # bottom to top; a package imports only what comes before it, or itself
    "version",
    "errors",
    "types",
    "ranges",
    "autograd",
    "console",
    "out_of_memory",
    "data.readers",
    "storage.sealed_folder",
    "storage.lock",
    "data",
    "data.leaks",
    "data.ingest",
    "storage",
    "stores",
    "graph",
    "kernels",
    "nn.contracts",
    "nn.tucker_core",
    "nn.encoders",
    "nn.decoders",
    "nn",
    "batches",
    "losses",
    "config",
    "evaluation",
    "probability",
    "training",
    "tasks.task",
    "tasks.reading",
    "tasks",
    "ranks",
    "explain",
    "inference.answers",
    "inference.index",
    "inference.adding",
    "inference",
    "review",
    "inference.on_ranks",
    "automatic",
    "refitting",
    "api",
    "reports",
    "tuning",
    "paper",
    "serve",
    "mcp",
    "cli",
    "__main__",
]
FILES = sorted(ROOT.rglob("*.py"))


def module_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file) for file in FILES}


def package_of(module: str) -> str:
    """The longest name of ``ORDER`` that ``module`` belongs to."""
    found = [name for name in ORDER if module == name or module.startswith(f"{name}.")]
    assert found, f"{module} has no place in the order of packages: add it where its imports allow"
    return max(found, key=len)


def imports_of(file: Path) -> set[str]:
    """Modules of the package that ``file`` imports, lazily or not; blocks for type checkers do not count."""
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
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tuckerkg":
            base = (node.module or "").partition(".")[2]
            for alias in node.names:
                inner = f"{base}.{alias.name}".lstrip(".")
                found.add(inner if inner in MODULES else base)
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[2] for alias in node.names if alias.name.split(".")[0] == "tuckerkg"}
    return found - {""}


@pytest.mark.parametrize(
    "file", [file for file in FILES if file.parent != ROOT or file.name != "__init__.py"], ids=module_of
)
def test_imports_point_backwards(file):
    place = ORDER.index(package_of(module_of(file)))
    for other in imports_of(file):
        assert ORDER.index(package_of(other)) <= place, f"{module_of(file)} imports {other}, which comes later"


def test_no_module_imports_itself_by_way_of_others():
    graph = {module_of(file): imports_of(file) - {module_of(file)} for file in FILES}
    list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError with the modules on the cycle


def test_a_cycle_is_noticed():
    with pytest.raises(graphlib.CycleError):
        list(graphlib.TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())


def test_no_folder_is_crowded():
    """A stranger finds a file by its folder's question; more than a dozen files need another question."""
    for folder in {file.parent for file in FILES}:
        files = [file for file in folder.glob("*.py") if file.name != "__init__.py"]
        assert len(files) <= 13, f"{folder.name} has {len(files)} modules"


def test_the_tests_are_laid_out_as_the_package_is():
    tests = ROOT.parent / "tests"
    ours = {folder.relative_to(ROOT) for folder in ROOT.rglob("*") if folder.is_dir()}
    for folder in tests.rglob("*"):
        if folder.is_dir() and list(folder.glob("test_*.py")):
            place = folder.relative_to(tests)
            assert place in ours or place.name in ("faults", "peers"), f"tests/{place} mirrors no package"


def test_importing_the_package_runs_nothing_heavy():
    script = (
        "import sys, tuckerkg, tuckerkg.cli.app\n"
        "print([name for name in ('torch', 'polars', 'pydantic', 'requests') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == "[]"


def test_inference_imports_no_training_code():
    script = "import sys, tuckerkg.inference.run; print([m for m in sys.modules if m.startswith('tuckerkg.training')])"
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == "[]"

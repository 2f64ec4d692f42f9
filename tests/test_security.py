"""S1: nothing in the package, the scripts or the benchmarks can run code that it reads from a file."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("tuckerkg", "scripts", "benchmarks")

MODULES = {
    "pickle",
    "_pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "marshal",
    "shelve",
    "jsonpickle",
    "pickletools",
}
CALLS = {
    "eval", "exec", "builtins.eval", "builtins.exec",
    "yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.unsafe_load_all", "yaml.full_load", "yaml.full_load_all",
    "torch.load", "torch.save", "torch.jit.load", "torch.package.PackageImporter",
    "pandas.read_pickle", "numpy.lib.format.read_array",
}  # fmt: skip
METHODS = {"to_pickle", "read_pickle"}
IMPORTERS = {"__import__", "importlib.import_module"}


def forbidden(source: str) -> list[tuple[int, str]]:
    """The line and name of everything in ``source`` that can run what it reads."""
    tree = ast.parse(source)
    aliases = dict(_aliases(tree))
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += [(node.lineno, name) for name in _imported(node) if name.split(".")[0] in MODULES or name in CALLS]
        elif isinstance(node, ast.Name | ast.Attribute) and _dotted(node, aliases) in CALLS:
            found.append((node.lineno, _dotted(node, aliases)))
        elif isinstance(node, ast.Call):
            found += [(node.lineno, name) for name in _bad_call(node, aliases)]
    return sorted(set(found))


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names] if node.level == 0 else []


def _aliases(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias, name in zip(node.names, _imported(node), strict=False):
                yield (alias.asname, name) if alias.asname else (alias.name, name)


def _dotted(node: ast.AST, aliases: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, aliases)}.{node.attr}"
    return aliases.get(node.id, node.id) if isinstance(node, ast.Name) else "?"


def _bad_call(node: ast.Call, aliases: dict[str, str]) -> Iterator[str]:
    name = _dotted(node.func, aliases)
    for keyword in node.keywords:
        if keyword.arg == "allow_pickle" and not (
            isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        ):
            yield f"{name}(allow_pickle)"
    if name == "numpy.load" and len(node.args) > 2:  # allow_pickle by position
        yield "numpy.load(allow_pickle)"
    if name.rpartition(".")[2] in METHODS:
        yield name
    if name in IMPORTERS and node.args:
        module = node.args[0]
        if isinstance(module, ast.Constant) and str(module.value).split(".")[0] in MODULES:
            yield name


def sources() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def test_s1_no_source_can_run_what_it_reads() -> None:
    assert sources(), "no sources found: the test looks in the wrong place"
    places = [
        f"{path.relative_to(ROOT)}:{line}: {name}" for path in sources() for line, name in forbidden(path.read_text())
    ]
    assert places == []


@pytest.mark.parametrize(
    "sample",
    [
        "import pickle",
        "import pickle as p",
        "from pickle import loads",
        "def f():\n    import dill",
        "import marshal",
        "import shelve",
        "eval('1')",
        "exec(code)",
        "run = eval",
        "import builtins\nbuiltins.eval('1')",
        "import yaml\nyaml.load(text)",
        "import yaml as y\ny.unsafe_load(text)",
        "from yaml import load",
        "import torch\ntorch.load(path)",
        "import torch\ntorch.load(path, weights_only=True)",
        "import torch as t\nt.save(x, path)",
        "from torch import load as read\nread(path)",
        "import torch\ntorch.jit.load(path)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import numpy as np\nnp.load(path, allow_pickle=flag)",
        "import numpy as np\nnp.load(path, None, True)",
        "import numpy as np\nnp.save(path, x, allow_pickle=True)",
        "frame.to_pickle(path)",
        "import pandas as pd\npd.read_pickle(path)",
        "__import__('pickle')",
        "import importlib\nimportlib.import_module('marshal')",
    ],
)
def test_s1_the_check_can_fail(sample: str) -> None:
    assert forbidden(sample)


@pytest.mark.parametrize(
    "sample",
    [
        "model.eval()",
        "import re\nre.compile('x')",
        "import json\njson.load(file)",
        "import yaml\nyaml.safe_load(text)",
        "import numpy as np\nnp.load(path)",
        "import numpy as np\nnp.load(path, allow_pickle=False)",
        "from safetensors.torch import load\nload(data)",
        "from tuckerkg.checkpoint import RunFolder\nRunFolder.open(path).load()",
        "from . import load",
        "import importlib\nimportlib.import_module('tuckerkg.train')",
    ],
)
def test_s1_the_check_lets_harmless_code_through(sample: str) -> None:
    assert forbidden(sample) == []

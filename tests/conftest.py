"""Makes the helpers beside this file importable, and trains the small runs that several files look at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory):
    """A decoder alone on the toy graph; nobody changes it."""
    from graphs import toy_dataset

    from tuckerkg import api
    from tuckerkg.training.callbacks import NullCallback

    overrides = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 20.0, "train.threads": 1, "encoder": "none"}
    return api.train(
        toy_dataset(), out=tmp_path_factory.mktemp("toy") / "run", overrides=overrides, callback=NullCallback()
    )


@pytest.fixture(scope="session")
def path_run(tmp_path_factory):
    """Messages from the question on the toy graph; nobody changes it."""
    from graphs import toy_dataset
    from small_runs import PATHS

    from tuckerkg import api
    from tuckerkg.training.callbacks import NullCallback

    overrides = PATHS | {"train.epochs": 40.0, "train.evaluate_every": 10.0, "train.lr": 0.01, "train.threads": 1}
    return api.train(
        toy_dataset(), out=tmp_path_factory.mktemp("paths") / "run", overrides=overrides, callback=NullCallback()
    )


@pytest.fixture(scope="session")
def served_run(tmp_path_factory):
    """TGCN on the toy graph, with a hostile title; nobody changes it."""
    from dataclasses import replace

    from graphs import toy_dataset
    from services import HOSTILE

    from tuckerkg import api
    from tuckerkg.training.callbacks import NullCallback

    changes = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 5.0, "train.threads": 1}
    data = replace(toy_dataset(), entity_titles={"e007": HOSTILE, "e008": "Seven of Nine"})
    return api.train(data, out=tmp_path_factory.mktemp("served") / "run", overrides=changes, callback=NullCallback())


@pytest.fixture(scope="session")
def service(served_run):
    """``served_run`` in a process of its own; whoever ends it starts another."""
    from services import running

    with running(served_run.path) as found:
        yield found


@pytest.fixture(scope="session")
def client(service):
    from tuckerkg.serve.client import Client

    return Client(service.address)

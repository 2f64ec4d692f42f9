"""Makes the helpers beside this file importable, and trains one small run that several files look at."""

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
    from tuckerkg.training import Silent

    overrides = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 20.0, "train.threads": 1, "encoder": "none"}
    return api.train(toy_dataset(), out=tmp_path_factory.mktemp("toy") / "run", overrides=overrides, observer=Silent())

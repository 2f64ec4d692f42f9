"""The public names, as the README shows them."""

from __future__ import annotations

import tuckerkg
from tuckerkg.training import Silent

SMALL = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 2.0, "train.evaluate_every": 1.0, "train.threads": 1}


def test_every_public_name_exists():
    for name in tuckerkg.__all__:
        assert getattr(tuckerkg, name) is not None
    assert set(tuckerkg.__all__) <= set(dir(tuckerkg))


def test_train_is_callable_whatever_was_used_first():
    assert callable(tuckerkg.load)
    assert callable(tuckerkg.train)


def test_the_three_lines_of_the_readme(tmp_path):
    out = tmp_path / "run"
    run = tuckerkg.train("countries", encoder="tgcn", decoder="tucker", out=out, overrides=SMALL, observer=Silent())
    assert 0 < run.evaluate("test").mrr < 1
    answers = tuckerkg.load(out).predict(head="France", relation="borders", k=10)
    assert len(answers) == 10
    assert run.settings.dataset == "countries"


def test_a_dataset_that_was_read_before_can_be_passed(tmp_path):
    data = tuckerkg.load_dataset("countries")
    run = tuckerkg.train(data, out=tmp_path / "run", encoder="none", overrides=SMALL, observer=Silent())
    assert run.settings.encoder["name"] == "none"


def test_version_agrees_with_the_metadata():
    from importlib import metadata

    assert metadata.version("tuckerkg") == tuckerkg.__version__

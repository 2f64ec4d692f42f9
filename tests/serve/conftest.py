"""What the tests of the page share: one browser, one run that was trained for a few seconds, a service on it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from browsing import Windows, chromium
from services import running

from tuckerkg import api
from tuckerkg.config.toml import load_settings
from tuckerkg.data import load as datasets
from tuckerkg.training.callbacks import NullCallback


@pytest.fixture(scope="session")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def countries_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "countries"
    settings = load_settings("countries-tgcn-tucker", {"train.epochs": 12.0, "train.threads": 1})
    api.resume(api.prepare(datasets.load("countries"), settings, folder), NullCallback())
    subprocess.run([sys.executable, "-m", "tuckerkg", "evaluate", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def countries(countries_run):
    """A service that tests only read from."""
    with running(countries_run) as service:
        yield service


@pytest.fixture
def windows(browser):
    """Opens pages that fail the test by whatever goes wrong in them."""
    found = Windows(browser)
    yield found
    found.close()
    assert found.wrong == []

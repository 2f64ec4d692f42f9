# make demo, make test: each works from a clean clone with nothing but Python 3.11.4 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
export OMP_NUM_THREADS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: help demo serve test check lint types test-peers test-faults test-browser docs results bench wheel clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# PyTorch first and by its pinned version: anything looser may bring gigabytes of GPU libraries. Where pip knows several
# builds, TORCH_INDEX names the index of those for CPUs (README).
$(VENV)/base: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(PIP) --editable .
	@touch $@

$(VENV)/dev: $(VENV)/base
	$(PIP) --editable ".[dev]"
	@touch $@

$(VENV)/peers: $(VENV)/dev
	$(PIP) --editable ".[peers]"
	@touch $@

demo: $(VENV)/base  ## train on the embedded graph and name ten missing facts
	$(BIN)/tuckerkg demo

serve: $(VENV)/base  ## the embedded graph in a browser: trains it first where make demo has not
	$(PIP) --editable ".[serve]"
	@test -d runs/demo || $(BIN)/tuckerkg demo
	$(BIN)/tuckerkg serve runs/demo

test: $(VENV)/dev  ## all tests that need nothing beyond Python packages
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m "not peers and not faults and not browser"

check: lint types test  ## lint, strict typing, tests

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BIN)/mypy

# The W3C's suites of RDF syntax come inside the source package of rdflib, which is not installed.
$(VENV)/w3c: $(VENV)/dev
	$(BIN)/python -m pip download --quiet --no-deps --no-binary rdflib --dest $(VENV)/w3c rdflib==7.6.0
	@touch $@

test-peers: $(VENV)/peers $(VENV)/w3c  ## hold ranks, layers and readers against PyKEEN, PyG and the W3C's suites
	TUCKERKG_W3C=$(VENV)/w3c $(BIN)/python -m pytest -m peers

test-faults: $(VENV)/dev  ## kill, fill disks and fail writes with strace
	@command -v strace >/dev/null || (apt-get update -qq && apt-get install -qq -y strace) >/dev/null
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m faults

test-browser: $(VENV)/dev  ## the page in Chromium, which is installed where it is absent
	$(PIP) --editable ".[browser]"
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
		|| (apt-get update -qq && apt-get install -qq -y chromium) >/dev/null
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m browser

docs: $(VENV)/dev  ## the documentation site, in docs/_build/html
	$(PIP) --editable ".[docs]"
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html
	@echo "open docs/_build/html/index.html"

results: $(VENV)/dev  ## RESULTS.md, its figures and the README's table from results/runs/
	$(BIN)/tuckerkg results --readme README.md

bench: $(VENV)/peers  ## time and memory of every stage beside PyG, PyKEEN, Polars and bare products
	$(BIN)/python -m benchmarks $(BENCH)

wheel: $(VENV)/dev  ## build a wheel and try it in an empty environment
	$(BIN)/python scripts/try_wheel.py

clean:  ## remove the environment and caches
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

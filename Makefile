.PHONY: setup run test test-long test-torch lint bench clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Two workers with one BLAS thread each: threads of both would fight for two cores, ten times slower.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/pytest

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

run: setup
	$(BIN)/forgetless reproduce --out results

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(PYTEST) -m "not long and not torch" -n 2

test-long: setup
	$(PYTEST) -m long -n 2

test-torch: setup
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(PYTEST) -m torch

bench: setup
	$(BIN)/python benchmarks/simulation.py
	$(BIN)/python benchmarks/exact.py
	$(BIN)/python benchmarks/streaming.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/advice.py
	$(BIN)/python benchmarks/auto.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

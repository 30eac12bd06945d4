# `make demo` and `make test` need only Python 3.11+ with pip: the environment is made on first use and kept.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest test-pythons test-wheel coverage mutants fuzz zoo soak check format bench docs reproduce clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.test-installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

$(VENV)/.dev-installed: $(VENV)/.test-installed
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(VENV)/.mutants-installed: $(VENV)/.test-installed
	$(BIN)/python -m pip install --quiet --editable '.[mutants]'
	@touch $@

$(VENV)/.zoo-installed: $(VENV)/.test-installed
	$(BIN)/python -m pip install --quiet --editable '.[zoo]'
	@touch $@

$(VENV)/.demo-installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	@touch $@

$(VENV)/.docs-installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

$(VENV)/.reproduce-installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[cli,plot,data]'
	@touch $@

demo: $(VENV)/.demo-installed  ## a GP map with its uncertainty, and how far it is from the exact GP
	$(BIN)/nearfield demo

# One worker per core, and one thread of BLAS each, so that they do not wait for each other.
test: $(VENV)/.test-installed  ## run the tests
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile

# An environment of its own; pyproject.toml alone says what is oldest.
$(VENV)-oldest/.installed: pyproject.toml tools/oldest.py
	$(PYTHON) -m venv $(VENV)-oldest
	$(PYTHON) tools/oldest.py test dask > $(VENV)-oldest/pins.txt
	$(VENV)-oldest/bin/python -m pip install --quiet --requirement $(VENV)-oldest/pins.txt --editable .
	@touch $@

test-oldest: $(VENV)-oldest/.installed  ## run the tests with the oldest versions supported
	OPENBLAS_NUM_THREADS=1 $(VENV)-oldest/bin/python -m pytest --numprocesses auto --dist loadfile

test-pythons:  ## run the tests with every other Python of this machine
	for version in 3.12 3.13 3.14; do \
	    if python$$version --version >/dev/null 2>&1; \
	    then $(MAKE) test PYTHON=python$$version VENV=$(VENV)-$$version || exit 1; \
	    else echo "python$$version is not here"; fi; done

test-wheel: $(VENV)/.dev-installed  ## build the wheel, install it alone and use it
	$(BIN)/python tools/check_wheel.py

coverage: $(VENV)/.dev-installed  ## run the tests and list the lines that none of them runs; install torch and dask first
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

check: $(VENV)/.dev-installed  ## style, types, and the layers of the folders
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

mutants: $(VENV)/.mutants-installed  ## break the core line by line, and list what no test notices (about 10 minutes)
	rm -rf mutants
	OPENBLAS_NUM_THREADS=1 $(BIN)/mutmut run --max-children 2
	$(BIN)/mutmut results

format: $(VENV)/.dev-installed  ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test-installed  ## every benchmark that needs no other library
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

docs: $(VENV)/.docs-installed  ## the site, into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reproduce: $(VENV)/.reproduce-installed  ## the paper, figure by figure, into reproduction/ (ARGS=--quick for a look)
	$(BIN)/nearfield reproduce --data-dir "$${NEARFIELD_DATA:-}" --out reproduction $(ARGS)

fuzz: $(VENV)/.test-installed  ## the properties with many examples, then altered files by the ten thousand (half an hour)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest tests/properties tests/reliability/test_interrupts.py
	for target in models texts parquet commands; do $(BIN)/python -m fuzz.$$target || exit 1; done

zoo: $(VENV)/.zoo-installed  ## the defaults on a thousand tables of R (ARGS='--sample 40' for two minutes of it)
	$(BIN)/python -m fuzz.zoo $(ARGS)

soak: $(VENV)/.test-installed  ## an hour of random fits: no failure, and no growth in memory
	$(BIN)/python -m fuzz.soak --minutes 60

clean:  ## remove the environment and what the tools leave behind
	rm -rf $(VENV) $(VENV)-* .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache dist site mutants

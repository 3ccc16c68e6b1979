# Two commands need nothing set up before them: `make demo` and `make test`.

PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/.stamps

# Exact versions, for the packages and for what builds them; pip reads one variable or the other, by its age.
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
	$(BIN)/python -m pip install --quiet --quiet --no-input

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test check format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DONE)/core ## train and compare small ensembles on bundled data, in under 3 minutes
	@$(BIN)/irene demo
	@echo "The command irene lies in $(BIN): put it on your path with  . $(BIN)/activate"

test: $(DONE)/dev ## run the tests
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

check: $(DONE)/dev ## check format, lint, types, import direction and public names
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python scripts/check_imports.py
	$(BIN)/pytest tests/test_public_names.py

format: $(DONE)/dev ## format the code and apply the lint fixes that are safe
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove caches and build outputs; keeps .venv, runs and data
	rm -rf build dist site .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up. A stamp lies in the environment it speaks of, so removing .venv starts afresh.

$(DONE)/python:
	@command -v $(PYTHON) >/dev/null || { \
		echo "irene needs Python 3.11 or newer, but there is no $(PYTHON): name one, as in make PYTHON=python3.12 ..."; \
		exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "irene needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version 2>&1):" \
			"name another, as in make PYTHON=python3.12 ..."; \
		exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $(DONE) && touch $@

$(DONE)/core: $(DONE)/python pyproject.toml constraints.txt
	@echo "Installing irene and what it needs (torch is large: the first time takes minutes)"
	@$(PIP) --editable .
	@touch $@

$(DONE)/dev: $(DONE)/python pyproject.toml constraints.txt
	@echo "Installing irene with what its tests and checks need (torch is large: the first time takes minutes)"
	@$(PIP) --editable '.[dev]'
	@touch $(DONE)/core $@

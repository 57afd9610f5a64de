# The targets of this project; `make help` lists them. Everything runs from .venv, which `make setup` builds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DATA ?= data/demo
DAGSTER_HOME := $(CURDIR)/.dagster
export DAGSTER_HOME
PORT ?= 3000

.DEFAULT_GOAL := help
.PHONY: help setup instance demo ui materialize test clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

setup: $(STAMP)  ## build .venv with exactly the versions that were tested

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make setup PYTHON=python3.11"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the tested versions into $(VENV) (once, a minute or two) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(DAGSTER_HOME)/dagster.yaml: dagster.yaml
	@mkdir -p $(DAGSTER_HOME)
	@ln -sf $(CURDIR)/dagster.yaml $@

$(DAGSTER_HOME)/.ready: $(STAMP) $(DAGSTER_HOME)/dagster.yaml
	@$(BIN)/python -m docstokg_assets.instance >/dev/null
	@touch $@

instance: $(DAGSTER_HOME)/.ready  ## make the Dagster instance ready: storage, limits of its pools; again after an upgrade

demo: instance  ## collect three years of papers from the sandbox through Dagster (no network, no keys)
	@$(BIN)/content demo --out $(DATA)

ui: instance  ## open the Dagster UI on what the demo left
	@$(BIN)/content demo --out $(DATA) --ui --port $(PORT)

materialize: instance  ## collect one year from a shell or CI: make materialize YEAR=2024
	@test -n "$(YEAR)" || { echo "Say which year: make materialize YEAR=2024"; exit 2; }
	@$(BIN)/dagster asset materialize --select '*' --partition $(YEAR) -m docstokg_assets.definitions

test: $(STAMP)  ## lint, types, import rules and all tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -n 4

clean:  ## remove the environment and what the demo made
	rm -rf $(VENV) .dagster data

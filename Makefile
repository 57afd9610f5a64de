# The targets of this project; `make help` lists them. Everything runs from .venv, which `make setup` builds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DATA ?= data/demo
PORT ?= 3000
CONFIGURED := $(filter DTKG_% DOCSTOKG_CONTENT_%,$(.VARIABLES))
# Your own configuration goes with your own DAGSTER_HOME, if you have one; the demo keeps to the instance of this folder.
ifneq ($(and $(CONFIGURED),$(filter-out demo,$(MAKECMDGOALS))),)
DAGSTER_HOME ?= $(CURDIR)/.dagster
else
DAGSTER_HOME := $(CURDIR)/.dagster
endif
export DAGSTER_HOME
# A backfill waits for a code server that was killed; without this it fails and cancels its runs.
export DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR := 1

.DEFAULT_GOAL := help
.PHONY: help setup instance demo ui known-year materialize lint check definitions test clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

setup: $(STAMP)  ## build .venv with exactly the versions that were tested

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make setup PYTHON=python3.11"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the tested versions into $(VENV): once, some 320 MB to download, a minute or two ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(DAGSTER_HOME)/dagster.yaml: dagster.yaml
	@mkdir -p $(DAGSTER_HOME)
	@test -e $@ || ln -sf $(CURDIR)/dagster.yaml $@

$(DAGSTER_HOME)/.ready: $(STAMP) $(DAGSTER_HOME)/dagster.yaml
	@$(BIN)/python -m docstokg_assets.defs.instance.first_start >/dev/null
	@touch $@

instance: $(DAGSTER_HOME)/.ready  ## make the Dagster instance ready: storage, limits of its pools; again after an upgrade

demo: instance  ## collect three years of papers from the sandbox through Dagster (no network, no keys)
	@$(BIN)/content demo --out $(DATA)

ui: instance  ## open the Dagster UI and its daemon: on your configuration, or on what the demo left where no DTKG_ variable is set
ifeq ($(CONFIGURED),)
	@$(BIN)/content demo --out $(DATA) --ui --port $(PORT)
else
	@$(BIN)/python -c 'import socket; socket.create_server(("127.0.0.1", $(PORT))).close()' 2>/dev/null || \
	  { echo "Port $(PORT) is taken; choose another one: make ui PORT=$$(($(PORT) + 1))"; exit 2; }
	@echo "Your own configuration ($(CONFIGURED)), instance $(DAGSTER_HOME)"
	@PYTHONWARNINGS=ignore $(BIN)/dagster dev -m docstokg_assets.definitions -h 127.0.0.1 -p $(PORT)
endif

known-year:
	@echo "$(YEAR)" | grep -Eqx '[0-9]{4}' || \
	  { echo "Say which year of publication, with four digits: make materialize YEAR=2024 (not '$(YEAR)')"; exit 2; }

materialize: known-year instance  ## collect one year from a shell or CI: make materialize YEAR=2024
	@PYTHONWARNINGS=ignore bash -o pipefail -c "$(BIN)/dagster asset materialize --select '*' --partition $(YEAR) \
	  -m docstokg_assets.definitions 2>&1 | tee $(DAGSTER_HOME)/materialize.log" || \
	  { sed -nE 's/^dagster\..*(Failure|Error): /content: /p' $(DAGSTER_HOME)/materialize.log | tail -n 1; exit 2; }

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

check: lint  ## before each commit: lint, types, import contract and the fast tests, about a minute
	@$(BIN)/python -m pytest -q -n auto --dist loadfile --fast

definitions: instance
	@PYTHONWARNINGS=ignore $(BIN)/dg check defs
	@PYTHONWARNINGS=ignore $(BIN)/dagster definitions validate -m docstokg_assets.definitions

test: lint definitions  ## everything: `make check`, the Dagster definitions, and all tests
	@$(BIN)/python -m pytest -n 4 --dist loadfile

clean:  ## remove the environment and the demo's data; other data and the run history stay
	rm -rf $(VENV) $(DATA)
	@test ! -d $(DAGSTER_HOME) || echo "Kept: $(DAGSTER_HOME), the history of all Dagster runs."

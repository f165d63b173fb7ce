# What people and CI run. Everything is installed into .venv, with the versions in constraints.txt.
#
#   make run        install, then tune a small workload on this machine
#   make test       install what the tests need on top, then run them all
#   make test-long  the tests with hundreds of trials or kills
#   make cov        the tests of `make test` again, and which lines they reach; takes about twice as long
#   make check      formatting, lint, strict types, import contract, links in the docs, pins, Dockerfile
#   make clean      remove everything that the above made
#
#   PYTHON=python3.12           another interpreter for a new .venv
#   PIP_ARGS="--index-url URL"  more arguments for every pip install
#   RUN_ARGS, TEST_ARGS         more arguments for autotune run and pytest

PYTHON ?= python3
PIP_ARGS ?=
RUN_ARGS ?=
TEST_ARGS ?=

BIN := .venv/bin
# Python compiles what is imported when it is: all that there is would take minutes.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile $(PIP_ARGS) --constraint constraints.txt

# Files stay whole: their tests share what is expensive. tests/conftest.py has their order.
# More processes than cores would make studies too noisy to tell anything apart.
PYTEST := $(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m "not long"

.PHONY: run test test-long cov check lint types clean
.DELETE_ON_ERROR:

run: .venv/installed
	$(BIN)/autotune run --instance local --budget 2m $(RUN_ARGS)

test: .venv/installed-dev
	$(PYTEST) $(TEST_ARGS)

test-long: .venv/installed-dev
	$(BIN)/pytest -m long $(TEST_ARGS)

cov: .venv/installed-dev
	$(PYTEST) --cov --cov-report=term:skip-covered $(TEST_ARGS)

check: lint types

types: .venv/installed-dev
	$(BIN)/mypy
	$(BIN)/mypy scripts benchmarks

lint: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_docs.py
	$(BIN)/python scripts/check_pins.py
	$(BIN)/hadolint --config .hadolint.yaml Dockerfile

clean:
	rm -rf .venv .coverage htmlcov dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# The stamps are older than what they depend on after a change of it, and only then is pip run.
.venv/installed: pyproject.toml constraints.txt | .venv/bin/pip
	@echo "installing into .venv; torch is large, so the first time takes some minutes"
	$(INSTALL) --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(INSTALL) --editable ".[dev]"
	touch $@

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "autotune needs Python 3.11 or later; $(PYTHON) is missing or older." >&2; \
		echo "hint: name another one: make PYTHON=python3.12" >&2; exit 1; }
	@test -d autotune/storage/ || { \
		echo "autotune/storage is a link to ../storage, and this checkout has no links." >&2; \
		echo "hint: git config core.symlinks true && git checkout -- autotune" >&2; exit 1; }
	$(PYTHON) -m venv .venv || { rm -rf .venv; \
		echo "hint: on Debian and Ubuntu, apt install python3-venv" >&2; exit 1; }

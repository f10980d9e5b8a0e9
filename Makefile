# `make demo` and `make test` do all the set-up on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := lmassay-demo
# Tests run side by side, one thread each.
WORKERS ?= 2
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test check docs install install-test clean

demo: install
	@echo "== the card: all four questions, asked of a small real model"
	$(BIN)/lmassay models get smollm2
	$(BIN)/lmassay card --quick --results $(DEMO) -o $(DEMO)/card.html

test: install-test
	@echo "== tests"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: install-test
	@echo "== style and types"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/generate_commands.py --check

docs: install-test
	@echo "== the documents as a site, in build/site"
	$(BIN)/mkdocs build --strict

install: $(VENV)/.core

install-test: $(VENV)/.test

$(VENV)/.core: pyproject.toml constraints.txt
	@echo "== making $(VENV) and installing lmassay into it"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[hf]'
	@touch $@

# The tests use every optional part: numba, typst, sentence encoders, and the METEOR jar inside pycocoevalcap.
$(VENV)/.test: $(VENV)/.core
	@echo "== installing the optional parts and the test tools (the first time takes minutes)"
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps pycocoevalcap==1.2
	@touch $@

clean:
	rm -rf $(VENV) $(DEMO) build .pytest_cache .mypy_cache .ruff_cache

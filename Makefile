# `make demo` and `make test` do all the set-up on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := lmassay-demo
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test check install install-test clean

demo: install
	@echo "== robustness: 7 attacks on 2 small translators, from examples/robustness.yaml"
	$(BIN)/lmassay run examples/robustness.yaml --results $(DEMO)
	@echo "== syntax: agreement in 7 constructions, asked of a small real model, from examples/syntax.yaml"
	$(BIN)/lmassay models get smollm2
	$(BIN)/lmassay run examples/syntax.yaml --results $(DEMO)
	@echo "== bias: questions about people, asked of the same model in every order of their choices, from examples/bias.yaml"
	$(BIN)/lmassay run examples/bias.yaml --results $(DEMO)
	@echo "== few-shot: the same model is shown a few reviews before it is asked, from examples/fewshot.yaml"
	$(BIN)/lmassay run examples/fewshot.yaml --results $(DEMO)
	@echo "== the report"
	$(BIN)/lmassay report --all --results $(DEMO) -o $(DEMO)/report.html

test: install-test
	@echo "== tests"
	$(BIN)/python -m pytest

check: install-test
	@echo "== style and types"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

install: $(VENV)/.core

install-test: $(VENV)/.test

$(VENV)/.core: pyproject.toml constraints.txt
	@echo "== making $(VENV) and installing lmassay into it"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[hf]'
	@touch $@

# The tests use every optional part: numba, matplotlib, sentence encoders, and the METEOR jar inside pycocoevalcap.
$(VENV)/.test: $(VENV)/.core
	@echo "== installing the optional parts and the test tools (the first time takes minutes)"
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps pycocoevalcap==1.2
	@touch $@

clean:
	rm -rf $(VENV) $(DEMO) .pytest_cache .mypy_cache .ruff_cache

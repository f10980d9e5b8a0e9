# `make demo` and `make test` do all the set-up on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := lmassay-demo
# Tests run side by side, one thread each. Tests also wait for servers and processes, so three workers keep two cores busy.
WORKERS ?= 3
# Which tests to run, and any other argument for pytest: make test TESTS='tests/statistics -m "not slow"'
TESTS ?=
# The environment of `make test-lowest`, with the oldest versions that pyproject.toml allows.
LOWEST ?= .venv-lowest
QUIET_INSTALL := -m pip --disable-pip-version-check install --quiet
PIP := $(BIN)/python $(QUIET_INSTALL) --constraint constraints.txt
PYTEST := -m pytest -n $(WORKERS) --dist worksteal

# LOCKED=1: install the packages in requirements-dev.txt, whose digests are verified, as CI does.
LOCKED ?=
SBOM ?= build/lmassay.cdx.json
# MAJOR.MINOR of the package, for the documentation site.
VERSION ?= $(shell sed -n 's/^__version__ = "\([0-9]*\.[0-9]*\).*/\1/p' src/lmassay/__init__.py)
# Arguments: make soak SOAK='--requests 20000 --seed 7'; make fuzz FUZZ='--seconds 60 --seed 7 --only stores'
SOAK ?=
FUZZ ?=

.PHONY: demo test test-lowest check docs docs-version soak fuzz sbom dist install install-test clean

demo: install
	@echo "== the card: all four questions, asked of a small real model"
	$(BIN)/lmassay models get smollm2
	$(BIN)/lmassay card --quick --results $(DEMO) -o $(DEMO)/card.html

test: install-test
	@echo "== tests"
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) $(TESTS)

# With Python 3.11 or 3.12, for which the oldest versions were built.
test-lowest: $(LOWEST)/.test
	@echo "== tests with the oldest versions that pyproject.toml allows"
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python $(PYTEST) $(TESTS)

soak: install-test
	@echo "== 100,000 requests through a server that misbehaves, with two kills and a full disk"
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults.soak $(SOAK)

fuzz: install-test
	@echo "== random damage to everything that lmassay reads"
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzzing $(FUZZ)

sbom: install-test
	@echo "== the software bill of materials, in $(SBOM)"
	$(BIN)/python tools/sbom.py $(SBOM)

check: install-test
	@echo "== style and types"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/generate_commands.py --check
	$(BIN)/python docs/generate_metrics.py --check
	$(BIN)/python docs/generate_datasets.py --check

docs: install-test
	@echo "== the documents as a site, in build/site"
	$(BIN)/mkdocs build --strict

# The version of the package, MAJOR.MINOR, is the name of the folder; the alias `latest` moves with it. Commits to the
# branch gh-pages of this clone; nothing is pushed.
docs-version: install-test
	@echo "== the documents of this version, on the branch gh-pages"
	$(PIP) mike
	$(BIN)/mike deploy --config-file mkdocs-versioned.yml --update-aliases $(VERSION) latest
	$(BIN)/mike set-default --config-file mkdocs-versioned.yml latest

# Needs no other target: the tools get their own environment, and the wheel is tried in an empty one.
dist:
	@echo "== the wheel and the source distribution, in dist"
	rm -rf dist build/release
	$(PYTHON) -m venv build/release
	build/release/bin/python $(QUIET_INSTALL) build twine
	build/release/bin/python -m build --outdir dist
	build/release/bin/python -m twine check --strict dist/*
	$(PYTHON) tools/smoke.py dist/*.whl $(if $(TESTS),--tests dist/*.tar.gz $(TESTS))

install: $(VENV)/.core

install-test: $(VENV)/.test

$(VENV)/.core: pyproject.toml constraints.txt
	@echo "== making $(VENV) and installing lmassay into it"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(if $(LOCKED),$(BIN)/python $(QUIET_INSTALL) --require-hashes --no-deps --requirement requirements-dev.txt)
	$(PIP) --editable '.[hf]'
	@touch $@

# The tests use every optional part: numba, typst, sentence encoders, and the METEOR jar inside pycocoevalcap.
$(VENV)/.test: $(VENV)/.core
	@echo "== installing the optional parts and the test tools (the first time takes minutes)"
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps pycocoevalcap==1.2
	@touch $@

$(LOWEST)/.test: pyproject.toml constraints.txt tools/lowest.py
	@echo "== making $(LOWEST) and installing the oldest versions into it (takes minutes)"
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python tools/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python $(QUIET_INSTALL) --constraint $(LOWEST)/constraints.txt --editable '.[test]'
	$(LOWEST)/bin/python $(QUIET_INSTALL) --no-deps pycocoevalcap==1.2
	@touch $@

clean:
	rm -rf $(VENV) $(LOWEST) $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache

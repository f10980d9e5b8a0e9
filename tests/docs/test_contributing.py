"""What CONTRIBUTING.md tells a contributor to run, open and change is there."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.docs.blocks import blocks_of, page_text
from tests.docs.running import commands
from tests.helpers import ROOT

PAGE = "CONTRIBUTING.md"
TEXT = page_text(PAGE)
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
COMMANDS = [line for block in blocks_of(TEXT, PAGE) if block.language == "sh" for line in commands(block)]
# Modules that a contributor runs and lmassay's own extras do not bring.
MODULES = {"venv", "pip", "build", "twine"}


def test_make_has_the_targets_that_the_page_names():
    named = re.findall(r"`?\bmake ([a-z][\w-]*)", "\n".join([*COMMANDS, *re.findall(r"`make [^`]*`", TEXT)]))
    assert {"install-test", "check", "test", "test-lowest", "docs", "demo"} <= set(named)
    assert set(named) <= TARGETS


def test_the_tests_that_the_page_runs_are_there():
    selected = [word for line in COMMANDS for word in shlex.split(line, comments=True) if word.startswith("TESTS=")]
    paths = [word for value in selected for word in value.removeprefix("TESTS=").split() if word.startswith("tests")]
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path


def test_other_commands_are_of_known_tools():
    for line in COMMANDS:
        words = shlex.split(line, comments=True)
        if words[0] in ("make", "git") or words[0] == ".venv/bin/pre-commit":
            continue
        assert re.fullmatch(r"(\S+/bin/)?python", words[0]), line
        if words[1].startswith("tools/"):
            assert (ROOT / words[1]).is_file(), line
            continue
        assert words[1] == "-m", line
        assert words[2] in MODULES, line


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:evaluations|models|plugins)/[\w./]+)`", TEXT))))
def test_files_of_the_package_are_there(name):
    # NAME stands for any evaluation or component.
    assert list((ROOT / "src" / "lmassay").glob(name.replace("NAME", "*").rstrip("/"))), name


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", TEXT))))
def test_tests_that_are_named_are_there(name):
    assert any(f"def {name}(" in file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))


def test_names_in_the_code_that_the_page_explains_are_there():
    storage = ROOT / "src" / "lmassay" / "storage"
    source = "".join((storage / name).read_text(encoding="utf-8") for name in ("database.py", "store.py"))
    for name in (
        "SCHEMA = ",
        "TABLES = ",
        "ASKED = ",
        "def _open_schema",
        "def requests_and_responses",
        "def spending",
        "user_version",
    ):
        assert name in source, name


def test_every_kind_of_component_links_its_page():
    for page in (ROOT / "docs" / "extending").glob("*.md"):
        if page.stem not in ("index", "data", "package"):
            assert f"(docs/extending/{page.name})" in TEXT, page.name


def test_each_explained_bound_is_the_bound():
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    bounds = re.findall(r"`([\w.-]+>=[\d.]+)`", TEXT)
    assert "scipy>=1.15" in bounds
    for bound in bounds:
        assert f'"{bound}"' in pyproject, bound

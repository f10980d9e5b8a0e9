"""What the head of an example says is what a newcomer types: it names files that are there and commands that exist."""

from __future__ import annotations

import re

import pytest

from lmassay.running.config import load_runs
from tests.helpers import ROOT

EXAMPLES = ROOT / "examples"
FILES = sorted(file for kind in ("*.yaml", "*.py", "*.toml") for file in EXAMPLES.rglob(kind))
# Samples are templates: `lmassay init` fills in what they leave open.
CONFIGURATIONS = [
    file
    for file in FILES
    if "sample" not in file.parts and re.search(r"^task:", file.read_text(encoding="utf-8"), re.MULTILINE)
]


def head(text: str) -> str:
    """The comment or docstring that a file begins with."""
    comment = re.match(r"(?:#.*\n)*(?:\"\"\"[\s\S]*?\"\"\")?", text)
    return comment[0] if comment else ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_the_example_says_what_it_is(file):
    assert len(head(file.read_text(encoding="utf-8"))) > 40


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_the_commands_in_its_head_name_files_that_are_there(file):
    for name in re.findall(r"\bexamples/[\w./-]+\.\w+", head(file.read_text(encoding="utf-8"))):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("file", CONFIGURATIONS, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_a_configuration_says_how_it_is_run_and_is_accepted(file):
    comment = head(file.read_text(encoding="utf-8"))
    assert f"lmassay run examples/{file.relative_to(EXAMPLES).as_posix()}" in comment
    if not file.name.startswith("search_"):  # tests/fewshot/test_fewnlu_search.py expands these thousands of runs
        assert load_runs(file)

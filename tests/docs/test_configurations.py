"""The configurations, data descriptions and Python in the docs are accepted."""

from __future__ import annotations

import ast

import pytest

from tests.docs.blocks import PAGES, blocks_of, page_text

# Blocks of Python that cannot be run as they stand, by page and first line, and why.
SKETCHES = {
    ("docs/clusters.md", "from dask_jobqueue import SLURMCluster"): "needs a Slurm cluster",
    (
        "docs/syntax.md",
        "class MyModel(Model):",
    ): "leaves the probabilities open; `lmassay init language-model` writes a whole one",
}
# All blocks of this page are one program, which tests/docs/test_python.py runs.
PROGRAM_PAGE = "docs/python.md"


@pytest.mark.parametrize("page", PAGES)
def test_the_yaml_in_the_page_is_accepted(page, tmp_path):
    from lmassay.datasets.entry import read_entry
    from lmassay.running.config import load_runs

    for block in blocks_of(page_text(page), page):
        lines = block.text.splitlines()
        if block.language == "yaml" and any(line.startswith("sources:") for line in lines):
            entry = tmp_path / "entry.yaml"
            entry.write_text(block.text, encoding="utf-8")
            assert read_entry(entry).sources, block.where
        elif "file" in block.notes and ".py:" in block.text:
            # It needs a file that a command of the page writes; the page itself is run by test_commands.py.
            continue
        elif block.language == "yaml" and any(line.startswith("task:") for line in lines):
            file = tmp_path / "c.yaml"
            file.write_text(block.text, encoding="utf-8")
            assert load_runs(file), block.where


@pytest.mark.parametrize("page", PAGES)
def test_the_python_in_the_page_is_python(page):
    for block in blocks_of(page_text(page), page):
        if block.language == "python" and ">>> " not in block.text:
            try:
                ast.parse(block.text)
            except SyntaxError as error:
                raise AssertionError(f"{block.where}: {error}") from error


def test_only_sketches_of_python_are_not_run():
    sketches = set()
    for page in PAGES:
        if page == PROGRAM_PAGE:
            continue
        for block in blocks_of(page_text(page), page):
            is_doctest = ">>> " in block.text
            is_checked = not block.notes.keys().isdisjoint({"run", "file", "part"})
            if block.language == "python" and not is_doctest and not is_checked:
                first_line = block.text.partition("\n")[0]
                sketches.add((block.page, first_line))
    assert sketches == set(SKETCHES)

"""Read a page from top to bottom, with everything that its blocks need."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, blocks_of, page_text
from tests.docs.expected import EXPECTED
from tests.docs.running import FIXTURES, LANGUAGES, NEEDS, Reader

# Pages that use a real model for a long time; their tests run before all others.
LONG = [f"docs/{name}.md" for name in ("bias", "card", "fewshot", "interchange", "migrating/fewnlu", "syntax")]
SHORT = [page for page in PAGES if page not in LONG]


def read_page(page: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """Run all blocks that can be run; skip at the end if something was missing."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    reader, missing, ran = Reader(folder), dict[str, str](), True
    for block in blocks_of(page_text(page), page):
        lacking = [reason for need in block.needs if (reason := _lacks(need, reader, request, missing))]
        if block.language in LANGUAGES and "file" not in block.notes:
            ran = not lacking
        if not lacking and (ran or "prints" not in block.notes):
            reader.does(block)
    if missing:
        pytest.skip("; ".join(missing.values()))
    if page in EXPECTED:
        EXPECTED[page].check(page, reader)


def _lacks(need: str, reader: Reader, request: pytest.FixtureRequest, missing: dict[str, str]) -> str:
    """Return why something is missing; otherwise give it to the reader and return an empty text."""
    assert need in NEEDS, f"'{need}' is none of {', '.join(NEEDS)}"
    try:
        if need not in FIXTURES:
            is_installed = shutil.which(need) is not None
            return "" if is_installed else missing.setdefault(need, f"there is no {need}")
        value = request.getfixturevalue(need)
    except pytest.skip.Exception as reason:
        return missing.setdefault(need, str(reason))
    if need == "data_folder":
        reader.variables["DATA"] = value
    if need == "mirror":
        reader.variables |= value
    if need == "server":
        reader.variables["BASE_URL"] = value
    if need == "package":
        reader.variables["PYTHONPATH"] = value
    return ""

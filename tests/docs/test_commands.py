"""Every command of README and docs is run, page by page, and prints what the page says."""

from __future__ import annotations

import shutil

import pytest

from tests.docs.blocks import PAGES, Block, blocks_of, page_text
from tests.docs.expected import EXPECTED
from tests.docs.running import EXEMPT, FIXTURES, LANGUAGES, NEEDS, Reader, commands, left_out

# Pages that are being rewritten.
_NOT_YET = {"docs/fewshot.md"}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.xfail(strict=False)) if page in _NOT_YET else page for page in PAGES],
)
def test_the_commands_of_the_page_run_and_print_what_it_shows(page, tmp_path, request):
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    reader, missing = Reader(tmp_path), {}
    skipped = False
    for block in blocks_of(page_text(page), page):
        if "prints" in block.notes and skipped:
            continue
        lacking = [reason for need in block.needs if (reason := _lacks(need, reader, request, missing))]
        skipped = bool(lacking)
        if not lacking:
            reader.does(block)
    if missing:
        pytest.skip("; ".join(missing.values()))
    if page in EXPECTED:
        EXPECTED[page].check(reader)


def _lacks(need: str, reader: Reader, request: pytest.FixtureRequest, missing: dict[str, str]) -> str:
    """Why something is not at hand; else it is given to the reader."""
    assert need in NEEDS, f"'{need}' is none of {', '.join(NEEDS)}"
    try:
        if need not in FIXTURES:
            found = shutil.which(need)
            return "" if found else missing.setdefault(need, f"there is no {need}")
        value = request.getfixturevalue(need)
    except pytest.skip.Exception as reason:
        return missing.setdefault(need, str(reason))
    if need == "shared":
        reader.variables["SHARED"] = str(value / "data")
    if need == "server":
        reader.variables["BASE_URL"] = value
    if need == "package":
        reader.variables["PYTHONPATH"] = str(value)
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_no_command_of_the_page_is_left_out(page):
    assert left_out(blocks_of(page_text(page), page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_what_the_page_says_was_printed_stands_below_a_block_that_is_run(page):
    above: Block | None = None
    for block in blocks_of(page_text(page), page):
        if "prints" in block.notes:
            assert above is not None, f"{block.where}: nothing was run above"
            assert any(not EXEMPT.match(line) for line in commands(above)), block.where
        elif block.language in LANGUAGES:
            above = block

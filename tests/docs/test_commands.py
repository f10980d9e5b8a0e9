"""Every command of README and docs is run, page by page, and prints what the page says."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import PAGES, Block, blocks_of, page_text
from tests.docs.reading import LONG, SHORT, read_page
from tests.docs.running import EXEMPT, LANGUAGES, commands, left_out


@pytest.mark.parametrize("page", SHORT)
def test_the_commands_of_the_page_run_and_print_what_it_shows(page, tmp_path, request):
    read_page(page, tmp_path, request)


def test_every_page_is_read():
    assert sorted([*SHORT, *LONG]) == sorted(PAGES)


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_no_page_asks_for_a_clone_of_the_repository(page):
    """Files come from the page itself, `lmassay init`, `lmassay data get` or `lmassay models get`."""
    assert not re.search(r"\bexamples/|\$SHARED|git clone", page_text(page))


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

"""The commands of the pages that take longest; the others are in test_commands.py."""

from __future__ import annotations

import pytest

from tests.docs.reading import LONG, read_page

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("page", LONG)
def test_the_commands_of_the_page_run_and_print_what_it_shows(page, tmp_path, request):
    read_page(page, tmp_path, request)

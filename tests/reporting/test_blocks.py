"""The blocks of a report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmassay.reporting.blocks import Note, Section


def test_the_old_name_of_lists_errors_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match="use lists_errors="):
        section = Section([Note("text")], tells_errors=True)
    assert section.lists_errors
    assert replace(section, comparison_note="paired").lists_errors

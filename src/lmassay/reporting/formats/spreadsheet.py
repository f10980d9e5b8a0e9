"""Cells of a CSV file that a spreadsheet may open."""

from __future__ import annotations

import json
from typing import Any

# Spreadsheets run a cell that begins with one of these; a quote in front makes it text.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Any) -> Any:
    """Numbers stay numbers, nothing is empty, lists and mappings are JSON; text is never a formula.

    >>> [cell(value) for value in (-0.5, None, "-0.5 points", {"a": 1})]
    [-0.5, '', "'-0.5 points", '{"a": 1}']
    """
    if value is None or isinstance(value, int | float):
        return "" if value is None else value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA) else text

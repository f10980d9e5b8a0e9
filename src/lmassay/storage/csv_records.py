"""Reads the records of a CSV file whose fields may be longer than the csv module allows by default."""

from __future__ import annotations

import csv
from collections.abc import Iterator


def next_record(reader: Iterator[list[str]], longest_field: int) -> list[str] | None:
    """Return the next record of a table; None at its end. ``longest_field`` is the allowed length in characters."""
    # The limit applies to the whole process, so it is restored before any other code can run.
    previous_limit = csv.field_size_limit(longest_field)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(previous_limit)

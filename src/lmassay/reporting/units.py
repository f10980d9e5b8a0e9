"""What runs score: examples, or repetitions of an experiment, such as the splits of few-shot runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lmassay.types import RunRecord
from lmassay.types.wording import counted

EXAMPLE = "example"


def shared_unit(records: Iterable[RunRecord]) -> str:
    """Return what all these runs score, in the singular; ``example`` if they differ."""
    units = {record.unit for record in records}
    return units.pop() if len(units) == 1 else EXAMPLE


def counted_units(counts: Mapping[str, int]) -> str:
    """Return the number of each unit as a text.

    >>> counted_units({"example": 1200, "split": 4})
    '1,200 examples, 4 splits'
    """
    return ", ".join(counted(number, unit) for unit, number in counts.items())

"""The unit of a run: what it scores, such as examples, or the splits on which a few-shot experiment is repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lmassay.types import RunRecord
from lmassay.types.wording import counted

EXAMPLE = "example"


def shared_unit(records: Iterable[RunRecord]) -> str:
    """Return the unit of all these runs, in the singular; ``example`` if they have different units."""
    units = {record.unit for record in records}
    return units.pop() if len(units) == 1 else EXAMPLE


def counted_units(counts: Mapping[str, int]) -> str:
    """Return the number of each unit as a text.

    >>> counted_units({"example": 1200, "split": 4})
    '1,200 examples, 4 splits'
    """
    return ", ".join(counted(number, unit) for unit, number in counts.items())

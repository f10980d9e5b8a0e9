"""Rules for which figures are worth drawing. A figure that would show too little is replaced by a sentence.

A scatter plot of two points, a line through equal values or a single bar says less than the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from lmassay.reporting.blocks import Block, Figure, Figures, Note

MIN_POINTS = 3
"""A scatter plot is drawn from this number of different points on."""
# Values are rounded to this many decimals, because smaller differences cannot be seen in any figure.
_DECIMALS = 6


def distinct_points(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that a reader can distinguish, in order of appearance.

    >>> distinct_points([(0.1, 0.2), (0.1, 0.2), (0.3, 0.2)])
    [(0.1, 0.2), (0.3, 0.2)]
    """
    distinct: dict[tuple[float, float], None] = {}
    for x, y in points:
        distinct[round(x, _DECIMALS), round(y, _DECIMALS)] = None
    return list(distinct)


def are_equal(values: Iterable[float | None]) -> bool:
    """Return whether all values are the same; True for a single value or none.

    >>> are_equal([0.5, 0.5]), are_equal([0.5, 0.6])
    (True, False)
    """
    distinct = {None if value is None else round(value, _DECIMALS) for value in values}
    return len(distinct) <= 1


def figures_and_notes(items: Sequence[Figure | Note], size: Literal["small", "middle", "wide"]) -> list[Block]:
    """Return the figures side by side, and below them the sentences that replace other figures."""
    figures = [item for item in items if isinstance(item, Figure)]
    blocks: list[Block] = []
    if figures:
        blocks.append(Figures(figures, size))
    blocks += [item for item in items if isinstance(item, Note)]
    return blocks

"""What moved between two runs: of all that a test takes for independent, what changed, and what could have.

Scores that lie between 0 and 1 have an end: an example that the base run has at 0 cannot fall. Where few can move one
way, no difference that way can ever be significant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isclose
from typing import TYPE_CHECKING

from lmassay.statistics.intervals import ABSOLUTE_SLACK, RELATIVE_SLACK, the_same
from lmassay.statistics.table import ScoreTable
from lmassay.types import Combination

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Moves:
    """Numbers of units: all, those that changed, and those that could be lower or higher than in the base run."""

    units: int
    changed: int
    can_fall: int
    can_rise: int


def is_same(before: float | None, after: float | None) -> bool:
    """True if a score is the one it was, but for rounding; no score is the same as none."""
    if before is None or after is None:
        return before is after
    return isclose(before, after, rel_tol=RELATIVE_SLACK, abs_tol=ABSOLUTE_SLACK)


def moves_of_values(names: Sequence[str], before: NDArray[np.float64], after: NDArray[np.float64]) -> Moves:
    """Paired values, each with the name of what it belongs to: itself, or a cluster."""
    import numpy as np

    low, high = _bounds([*before.tolist(), *after.tolist()])

    def count(is_still: NDArray[np.bool_]) -> int:
        return len({name for name, still in zip(names, is_still, strict=True) if not still})

    at_low, at_high = (the_same(before, np.full_like(before, end)) for end in (low, high))
    return Moves(len(set(names)), count(the_same(before, after)), count(at_low), count(at_high))


def moves_of_combination(base: ScoreTable, new: ScoreTable, combination: Combination, cluster: str | None) -> Moves:
    """The clusters of examples that are compared: without error, with a score in a column in one run at least."""
    label_of = _labels(base, new, combination.each or cluster)
    units: set[str] = set()
    changed: set[str] = set()
    lower: set[str] = set()
    higher: set[str] = set()
    complete = set(label_of.values())
    for column, weight in combination.terms.items():
        before, after = (
            {i: value for i, value in table.by_id(column).items() if i in label_of} for table in (base, new)
        )
        low, high = _column_bounds(combination, weight, [*before.values(), *after.values()])
        falls, rises = (lower, higher) if weight > 0 else (higher, lower)
        for i in before.keys() | after.keys():
            value, label = before.get(i), label_of[i]
            units.add(label)
            if not is_same(value, after.get(i)):
                changed.add(label)
            if not is_same(value, low):
                falls.add(label)
            if not is_same(value, high):
                rises.add(label)
        complete &= {label_of[i] for i in before} & {label_of[i] for i in after}
    if combination.each is not None:
        # A label counts as one value, which it has only where both runs have all that it is put together from.
        units, changed, lower, higher = (found & complete for found in (units, changed, lower, higher))
    return Moves(len(units), len(changed), len(lower), len(higher))


def _labels(base: ScoreTable, new: ScoreTable, group: str | None) -> dict[str, str]:
    """The examples that both runs have and neither has in error, with what each belongs to."""
    failed = {i for table in (base, new) for i, bad in zip(table.ids, table.in_error(), strict=True) if bad}
    shared = set(new.ids) - failed
    labels = base.groups.get(group, base.ids) if group else base.ids
    return {i: label for i, label in zip(base.ids, labels, strict=True) if i in shared}


def _column_bounds(combination: Combination, weight: float, values: Sequence[float]) -> Bounds:
    """One column lies between what its combination does; of several only the scores themselves can tell."""
    if len(combination.terms) > 1:
        return _bounds(values)
    ends = [(end - combination.constant) / weight for end in combination.bounds]
    return min(ends), max(ends)


def _bounds(values: Sequence[float]) -> Bounds:
    return (0.0, 1.0) if all(0 <= value <= 1 for value in values) else (-inf, inf)

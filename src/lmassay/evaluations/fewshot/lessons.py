"""An accuracy after lessons: uncertain by what was shown in each, and by what it was tested on."""

from __future__ import annotations

from dataclasses import replace
from math import hypot

from lmassay.reporting.variants import overall
from lmassay.statistics.intervals import rate_interval
from lmassay.storage.store import RunRecord, Store
from lmassay.types import Result

# The metric that is a share of the tests; of others the spread over splits is all that is known.
ACCURACY = "acc"
_FEWEST_SPLITS = 2


def lesson_result(store: Store, record: RunRecord, metric: str) -> Result | None:
    """The run's result; of an accuracy with an interval that holds for other tests, too.

    All splits share their tests, so that their spread, which the run's own interval is made of, says nothing of them.
    The two uncertainties are independent and add up as the sides of a right angle do.
    """
    result, tests = overall(record, metric), tests_of(store, record)
    if result is None or result.value is None or metric != ACCURACY or result.n < _FEWEST_SPLITS or not tests:
        return result
    value = result.value
    # Splits that all came to one value have no interval: it does not depend on what was shown.
    over_splits = (value, value) if result.low is None or result.high is None else (result.low, result.high)
    over_tests = rate_interval(value, tests, record.settings)
    low, high = (hypot(value - splits, value - one) for splits, one in zip(over_splits, over_tests, strict=True))
    return replace(result, low=max(value - low, 0.0), high=min(value + high, 1.0))


def tests_of(store: Store, record: RunRecord) -> int:
    """How many examples every split was tested on; 0 if that was not written down."""
    counts = {row.score.details.get("n_test") for row in store.rows(record.id) if row.score is not None}
    found = counts.pop() if len(counts) == 1 else None
    return found if isinstance(found, int) else 0

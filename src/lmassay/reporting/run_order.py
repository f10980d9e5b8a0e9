"""The order of runs in a list, and the one result that the list shows for each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmassay.errors import UserError, did_you_mean
from lmassay.types import Result, RunRecord, find_metric

SORT_KEYS: dict[str, Callable[[RunRecord], str]] = {
    # The store returns runs in the order in which they were recorded. Sorting by a constant keeps this order.
    "created": lambda record: "",
    "label": lambda record: record.label.lower(),
    "model": lambda record: record.model.lower(),
    "task": lambda record: record.task.lower(),
}


def sorted_runs(records: Sequence[RunRecord], order: str) -> list[RunRecord]:
    """Return runs sorted by a key of ``SORT_KEYS``, or by a metric; runs that tie keep the order in which they came."""
    if order in SORT_KEYS:
        return sorted(records, key=SORT_KEYS[order])
    metrics: dict[str, None] = {}
    for record in records:
        metrics |= dict.fromkeys(result.metric for result in record.results)
    if order not in metrics and records:
        hint = did_you_mean(order, [*SORT_KEYS, *metrics])
        raise UserError(f"--sort: no listed run has the metric '{order}'{hint}")
    return sorted(records, key=lambda record: _rank(record, order))


def _rank(record: RunRecord, metric: str) -> tuple[bool, float]:
    """Return a key that sorts the best run first, and runs without a value last."""
    result = record.result(metric)
    if result is None or result.value is None:
        return True, 0.0
    declaration = find_metric(metric, record.provenance.metrics)
    # A metric that nobody declared counts as better when it is higher, which is also the default of a declaration.
    better = "higher" if declaration is None else declaration.better
    if better == "zero":
        return False, abs(result.value)
    if better == "lower":
        return False, result.value
    return False, -result.value


def main_result(record: RunRecord) -> Result | None:
    """Return the result of the first headline metric that the run has; if it has none of them, its first result."""
    for metric in record.design.headline:
        result = record.result(metric)
        if result is not None:
            return result
    if record.results:
        return record.results[0]
    return None

"""Numbers, intervals and p-values as text, and notes on how many examples or labels they are based on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from lmassay.errors import did_you_mean
from lmassay.statistics.observations import FEW_LABELS, counted_labels, label_in_plural
from lmassay.types import OVERALL, Result, RunRecord
from lmassay.types.wording import counted

_NEGATIVE = re.compile(r"(?<![\w.-])-(?=\d)")
# The beginning of ``Result.method`` if there is no interval; the reason follows.
_NO_INTERVAL = "none: "
_MAX_NAMED_REASONS = 4
_MAX_NAMED_GROUPS = 4


def number_text(value: float | None, digits: int = 4) -> str:
    """Return a number with a fixed number of decimals, or ``no data``."""
    if value is None:
        return "no data"
    # The format option "z" prints a rounded negative zero as 0.
    return f"{value:z.{digits}f}"


def score_text(value: float) -> str:
    """Return the score of an example: a whole number without decimals, any other number with four.

    >>> score_text(1.0), score_text(0.6379382), score_text(-0.00001)
    ('1', '0.6379', '0.0000')
    """
    return f"{value:z.0f}" if value == round(value) else number_text(value)


def value_text(result: Result, digits: int = 4) -> str:
    """Return the value of a result; without a value, ``no data`` and the number of scored examples."""
    if result.value is None:
        return f"no data (n = {result.n})"
    return number_text(result.value, digits)


def interval_text(result: Result, digits: int = 4) -> str:
    """Return the interval of a result, or ``n/a`` and the reason why it has none."""
    if result.low is not None and result.high is not None:
        return f"[{number_text(result.low, digits)}, {number_text(result.high, digits)}]"
    reason = no_interval_reason(result)
    if reason:
        return f"n/a ({reason})"
    return "n/a"


def short_text(result: Result, between: str = " ") -> str:
    """Return value and interval for one cell of a table, with three decimals; ``between`` separates them."""
    if result.value is None:
        return f"no data{between}(n = {result.n})"
    if result.low is None or result.high is None:
        # A bare number would look more certain than one with an interval.
        return f"{result.value:z.3f}{between}[n/a]"
    return f"{result.value:z.3f}{between}[{result.low:z.3f}, {result.high:z.3f}]"


def no_interval_reason(result: Result) -> str:
    """Return the reason why a result has no interval.

    It is empty for a result with an interval, and for results of early versions, which did not record the reason.
    """
    if not result.method.startswith(_NO_INTERVAL):
        return ""
    return result.method.removeprefix(_NO_INTERVAL)


def no_interval_notes(results: Iterable[Result]) -> list[str]:
    """Return notes to print below a table: which metrics have no value or no interval, and why.

    >>> no_interval_notes([Result("accuracy", "overall", 0.5, None, None, 1, method="none: one value only")])
    ['[n/a] No interval for accuracy: one value only.']
    """
    without_value: dict[str, dict[str, None]] = {}
    without_interval: dict[str, dict[str, None]] = {}
    for result in results:
        reason = no_interval_reason(result)
        if not reason:
            continue
        metrics_by_reason = without_value if result.value is None else without_interval
        metrics_by_reason.setdefault(reason, {})[result.metric] = None
    notes = []
    for reason, metrics in without_value.items():
        notes.append(f"[no data] No {', '.join(metrics)}: {reason}.")
    for reason, metrics in without_interval.items():
        notes.append(f"[n/a] No interval for {', '.join(metrics)}: {reason}.")
    return notes


def minus(text: str) -> str:
    """Write negative numbers in a text with true minus signs, for pages and papers.

    Terminals and files keep the hyphen, so that programs can parse the numbers.

    >>> minus("-0.25 [-0.5, 0.0], 2026-11-17")
    '−0.25 [−0.5, 0.0], 2026-11-17'
    """
    return _NEGATIVE.sub("−", text)


def clusters_text(result: Result) -> str:
    """Return how many clusters a number is based on, such as ``10 nouns``; empty if examples are independent."""
    return ", ".join(counted_labels(count, name) for name, count in result.clusters.items())


def counted_unit(record: RunRecord, metric: str) -> str:
    """Return what n counts for a metric, in the singular: ``row``, or else the unit of the run, such as ``example``.

    A metric with a column of weights may count several rows per example, such as sentences with the same context. If
    each example has only one row, rows and examples are the same, and the unit is returned.
    """
    weights = record.design.weights
    result = record.result(metric)
    if result is None or metric not in weights:
        return record.unit
    for other in record.results:
        if other.group == OVERALL and other.metric not in weights and _total(other) != _total(result):
            return "row"
    return record.unit


def _total(result: Result) -> int:
    return result.n + result.n_error + result.n_unscored


def unscored_text(reasons: Sequence[tuple[str, int]], unit: str = "") -> str:
    """Return how many examples have no score, by reason; empty if there are none.

    ``reasons`` are (reason, number of examples). ``unit`` is what is counted, in the singular; it is left out if empty.

    >>> unscored_text([("no answer: too_long", 10), ("no answer: empty", 2)], "example")
    '12 examples (10 × no answer: too_long, 2 × no answer: empty)'
    """
    if not reasons:
        return ""
    total = sum(number for _, number in reasons)
    named = [f"{number:,} × {reason}" for reason, number in reasons[:_MAX_NAMED_REASONS]]
    if len(reasons) > _MAX_NAMED_REASONS:
        others = sum(number for _, number in reasons[_MAX_NAMED_REASONS:])
        named.append(f"{others:,} for other reasons")
    total_text = counted(total, unit) if unit else f"{total:,}"
    return f"{total_text} ({', '.join(named)})"


def p_text(p: float | None) -> str:
    """Return a p-value with four decimals, or ``< 0.0001``."""
    if p is None:
        return "n/a"
    if p < 0.0001:
        return "< 0.0001"
    return f"{p:.4f}"


def p_statement(p: float | None) -> str:
    """Return a p-value for use in a sentence; ``p n/a`` without a p-value.

    >>> p_statement(0.0312), p_statement(0.00001)
    ('p = 0.0312', 'p < 0.0001')
    """
    text = p_text(p)
    return f"p = {text}" if text[0].isdigit() else f"p {text}"


def missing_metric_notes(record: RunRecord) -> list[str]:
    """Return a note for each main metric that the task declares but no example has, which is usually a typo."""
    metrics = list(dict.fromkeys(result.metric for result in record.results))
    if not metrics:
        return []
    notes = []
    for metric in record.design.headline:
        if metric not in metrics:
            notes.append(
                f"{record.label}: the task declares the metric '{metric}', but no example has such a score"
                f"{did_you_mean(metric, metrics)}"
            )
    return notes


def few_label_notes(record: RunRecord, titles: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return a note for each metric that is based on few labels, such as TSE on two verb pairs, in any group.

    ``titles`` maps metrics to the names that readers see; a metric that is not in it keeps its own name.
    """
    notes = []
    for metric, label_name in record.design.crossed.items():
        few_counts: dict[str, int] = {}
        for result in record.results:
            # A part of a group, such as the plural sentences of a construction, has no more labels than the group.
            is_nested = "," in result.group
            if result.metric != metric or result.value is None or is_nested:
                continue
            count = result.clusters.get(label_name, FEW_LABELS)
            if count < FEW_LABELS:
                few_counts[result.group] = count
        if few_counts:
            plural = label_in_plural(label_name)
            notes.append(
                f"{titles.get(metric, metric)} rests on {_few_labels_text(few_counts, label_name)}: fewer than "
                f"{FEW_LABELS} say little about other {plural}, so the interval is wide, or there is none"
            )
    return notes


def _few_labels_text(few_counts: Mapping[str, int], label_name: str) -> str:
    """Describe few labels, such as ``2 verb pairs only`` or ``few verb pairs (Across a PP 2, Simple 5)``."""
    if OVERALL in few_counts:
        return f"{counted_labels(few_counts[OVERALL], label_name)} only"
    # The smallest first, because only the first few are named.
    ordered = sorted(few_counts.items(), key=lambda item: item[1])
    groups = [f"{group.partition('=')[2] or group} {count}" for group, count in ordered]
    named = ", ".join(groups[:_MAX_NAMED_GROUPS])
    if len(groups) > _MAX_NAMED_GROUPS:
        named += f" and {counted(len(groups) - _MAX_NAMED_GROUPS, 'more group')}"
    return f"few {label_in_plural(label_name)} ({named})"

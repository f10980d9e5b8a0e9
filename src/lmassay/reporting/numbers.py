"""Numbers, intervals and p-values as text, and the notes that explain what they rest on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from lmassay.statistics.observations import FEW_LABELS, counted_labels, label_in_plural
from lmassay.types import OVERALL, Result, RunRecord
from lmassay.types.wording import counted

_NEGATIVE = re.compile(r"(?<![\w.-])-(?=\d)")
# The beginning of ``Result.method`` if there is no interval; the reason follows.
_NO_INTERVAL = "none: "
_MAX_NAMED_REASONS = 4
_MAX_NAMED_GROUPS = 4


def number_text(value: float | None, digits: int = 4) -> str:
    """A number with a fixed number of decimals, or ``no data``."""
    if value is None:
        return "no data"
    # The format option "z" prints a rounded negative zero as 0.
    return f"{value:z.{digits}f}"


def score_text(value: float) -> str:
    """The score of an example: a whole number as it is, others with four decimals.

    >>> score_text(1.0), score_text(0.6379382), score_text(-0.00001)
    ('1', '0.6379', '0.0000')
    """
    return f"{value:z.0f}" if value == round(value) else number_text(value)


def value_text(result: Result, digits: int = 4) -> str:
    """The value of a result; without a value, the number of examples it would rest on."""
    if result.value is None:
        return f"no data (n = {result.n})"
    return number_text(result.value, digits)


def interval_text(result: Result, digits: int = 4) -> str:
    """The interval of a result, or why it has none."""
    if result.low is not None and result.high is not None:
        return f"[{number_text(result.low, digits)}, {number_text(result.high, digits)}]"
    reason = no_interval_reason(result)
    if reason:
        return f"n/a ({reason})"
    return "n/a"


def short_text(result: Result, between: str = " ") -> str:
    """Value and interval for one table cell, with three decimals."""
    if result.value is None:
        return f"no data{between}(n = {result.n})"
    if result.low is None or result.high is None:
        # A bare number would look more certain than one with an interval.
        return f"{result.value:z.3f}{between}[n/a]"
    return f"{result.value:z.3f}{between}[{result.low:z.3f}, {result.high:z.3f}]"


def no_interval_reason(result: Result) -> str:
    """Why a result has no interval.

    Empty for a result with an interval, and for results of early versions, which did not record the reason.
    """
    if not result.method.startswith(_NO_INTERVAL):
        return ""
    return result.method.removeprefix(_NO_INTERVAL)


def no_interval_notes(results: Iterable[Result]) -> list[str]:
    """Notes to print below a table: which metrics have no value or no interval, and why.

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
    """Numbers with true minus signs, for pages and papers; terminals and files keep the hyphen, which can be parsed.

    >>> minus("-0.25 [-0.5, 0.0], 2026-11-17")
    '−0.25 [−0.5, 0.0], 2026-11-17'
    """
    return _NEGATIVE.sub("−", text)


def clusters_text(result: Result) -> str:
    """How many clusters a number rests on, such as ``10 nouns, 2 verb pairs``; empty for independent examples."""
    return ", ".join(counted_labels(count, name) for name, count in result.clusters.items())


def counted_unit(record: RunRecord, metric: str) -> str:
    """What the counts of a metric are of, in the singular: ``row`` if it counts the rows of examples, else the unit.

    A metric with a column of weights may count several rows per example, such as sentences with the same context. If
    each example has one row, the counts of all metrics are of examples.
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
    """How many examples have no score, by reason; empty if all have one. ``unit`` is the singular of what is counted.

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
    """A p-value with four decimals; a smaller one is not printed as 0."""
    if p is None:
        return "n/a"
    if p < 0.0001:
        return "< 0.0001"
    return f"{p:.4f}"


def p_statement(p: float | None) -> str:
    """A p-value inside a sentence.

    >>> p_statement(0.0312), p_statement(0.00001)
    ('p = 0.0312', 'p < 0.0001')
    """
    text = p_text(p)
    return f"p = {text}" if text[0].isdigit() else f"p {text}"


def few_label_notes(record: RunRecord, titles: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """A note for each metric that rests on few labels, such as TSE on two verb pairs, overall or in some group.

    ``titles`` maps metrics to the names that readers see; a metric that is not in it keeps its own name.
    """
    notes = []
    for metric, label_name in record.design.crossed.items():
        few_counts: dict[str, int] = {}
        for result in record.results:
            # Parts of parts, such as the plural sentences of a construction, have no more labels than the whole.
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
    """Such as ``2 verb pairs only`` or ``few verb pairs (Across a PP 2, Simple 5)``."""
    if OVERALL in few_counts:
        return f"{counted_labels(few_counts[OVERALL], label_name)} only"
    # The smallest first, because only the first few are named.
    ordered = sorted(few_counts.items(), key=lambda item: item[1])
    groups = [f"{group.partition('=')[2] or group} {count}" for group, count in ordered]
    named = ", ".join(groups[:_MAX_NAMED_GROUPS])
    if len(groups) > _MAX_NAMED_GROUPS:
        named += f" and {counted(len(groups) - _MAX_NAMED_GROUPS, 'more group')}"
    return f"few {label_in_plural(label_name)} ({named})"

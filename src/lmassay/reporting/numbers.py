"""How numbers look to a reader."""

from __future__ import annotations

from collections.abc import Iterable

from lmassay.statistics.observations import counted_labels
from lmassay.types import Result


def number_text(value: float | None, digits: int = 4) -> str:
    return "no data" if value is None else f"{value:z.{digits}f}"


def value_text(result: Result, digits: int = 4) -> str:
    """The value, or that there is none and on how many it would rest."""
    return f"no data (n = {result.n})" if result.value is None else number_text(result.value, digits)


def interval_text(result: Result, digits: int = 4) -> str:
    """The interval, or why there is none."""
    if result.low is None or result.high is None:
        reason = no_interval_reason(result)
        return f"n/a ({reason})" if reason else "n/a"
    return f"[{number_text(result.low, digits)}, {number_text(result.high, digits)}]"


def short_text(result: Result, between: str = " ") -> str:
    """Value and interval in one cell, three digits."""
    if result.value is None:
        return value_text(result)
    if result.low is None or result.high is None:
        # A bare number would look more certain than one with an interval.
        return f"{result.value:z.3f}{between}[n/a]"
    return f"{result.value:z.3f}{between}[{result.low:z.3f}, {result.high:z.3f}]"


def no_interval_reason(result: Result) -> str:
    """Why a number has no interval; empty where it has one, or where an earlier version did not record the reason."""
    prefix, _, reason = result.method.partition("none: ")
    return reason if not prefix else ""


def no_interval_notes(results: Iterable[Result]) -> list[str]:
    """Sentences for below a table: which metrics have no interval, and why.

    >>> no_interval_notes([Result("accuracy", "overall", 0.5, None, None, 1, method="none: one value only")])
    ['[n/a] No interval for accuracy: one value only.']
    """
    metrics: dict[str, dict[str, None]] = {}
    for result in results:
        reason = no_interval_reason(result)
        if reason and result.value is not None:
            metrics.setdefault(reason, {})[result.metric] = None
    return [f"[n/a] No interval for {', '.join(names)}: {reason}." for reason, names in metrics.items()]


def clusters_text(result: Result) -> str:
    """How many clusters a number rests on, such as ``10 nouns, 2 verb pairs``; empty for independent examples."""
    return ", ".join(counted_labels(count, name) for name, count in result.clusters.items())


def p_text(p: float | None) -> str:
    """A p-value; a tiny one is not shown as 0."""
    if p is None:
        return "n/a"
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"

"""Declarations of metrics."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Better = Literal["higher", "lower", "zero"]
"""Which values of a metric are better."""


def is_detail(metric: str) -> bool:
    """Whether the name of a result is that of a detail, which short tables and lists leave out.

    Details are statistics of a metric (such as its standard deviation), parts of it, and the points of a curve.

    >>> [name for name in ("ew", "ew@top0.5", "d_tgt.std") if is_detail(name)]
    ['ew@top0.5', 'd_tgt.std']
    """
    return "." in metric or "@" in metric


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric, which tables, comparisons, gates, exports and pages use.

    >>> Metric("word_error_rate", "words that are wrong", better="lower", bounds=(0, 1)).better
    'lower'
    """

    name: str
    """The name in results, options and files."""
    title: str = ""
    """A few words that describe the metric; the name if left out."""
    better: Better = "higher"
    """Which values are better: ``higher``, ``lower``, or ``zero`` if deviations to both sides are bad."""
    bounds: tuple[float | None, float | None] | None = None
    """The smallest and largest possible value. None or infinity means that there is no limit on this side."""
    chance: float | None = None
    """The expected value of guessing."""
    meaning: str = ""
    """One sentence for readers who do not know the metric."""
    verdict: bool = False
    """Whether the score of every example is a verdict: right (1) or wrong (0), with no values in between."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"Metric {self.name!r}: name must be a text that is not empty")
        if self.better not in ("higher", "lower", "zero"):
            raise ValueError(f"Metric {self.name!r}: better must be 'higher', 'lower' or 'zero', not {self.better!r}")
        object.__setattr__(self, "bounds", _checked_bounds(self))
        _check_chance(self)

    @property
    def display_title(self) -> str:
        """The title, or the name of a metric without a title."""
        return self.title or self.name

    @property
    def range(self) -> tuple[float, float] | None:
        """The bounds as two numbers; None if there is no limit on one of the sides."""
        low, high = self.bounds or (None, None)
        if low is None or high is None:
            return None
        return (low, high)


def _checked_bounds(metric: Metric) -> tuple[float | None, float | None] | None:
    """Check the bounds, and replace infinity by None and a list by a tuple: JSON has neither infinity nor tuples."""
    if metric.bounds is None:
        return None
    message = f"Metric {metric.name!r}: bounds must be two numbers, the smaller first, not {metric.bounds!r}"
    if not isinstance(metric.bounds, tuple | list) or len(metric.bounds) != 2:
        raise ValueError(message)
    ends: list[float | None] = []
    for end, unlimited in zip(metric.bounds, (-math.inf, math.inf), strict=True):
        if end is None or end == unlimited:
            ends.append(None)
        elif _is_finite_number(end):
            ends.append(float(end))
        else:
            raise ValueError(message)
    low, high = ends
    if low is not None and high is not None and low >= high:
        raise ValueError(message)
    if low is None and high is None:
        return None
    return (low, high)


def _check_chance(metric: Metric) -> None:
    if metric.chance is None:
        return
    if not _is_finite_number(metric.chance):
        raise ValueError(f"Metric {metric.name!r}: chance must be a number, not {metric.chance!r}")
    low, high = metric.bounds or (None, None)
    is_below = low is not None and metric.chance < low
    is_above = high is not None and metric.chance > high
    if is_below or is_above:
        raise ValueError(f"Metric {metric.name!r}: chance must be within the bounds {(low, high)}, not {metric.chance}")


def _is_finite_number(value: object) -> bool:
    # In Python, True and False are numbers.
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def find_metric(name: str, declared: Iterable[Metric]) -> Metric | None:
    """Return the declaration of a metric among several; None if it is not declared.

    A point of a curve (``ew@top0.5``) and a statistic of a metric (``d_tgt.std``) have the declaration of the metric to
    which they belong, except that they are not verdicts on single examples.
    """
    by_name = {metric.name: metric for metric in declared}
    if name in by_name:
        return by_name[name]
    base = name.partition("@")[0].partition(".")[0]
    if base in by_name:
        return dataclasses.replace(by_name[base], name=name, title="", verdict=False)
    return None


def metric_as_dict(metric: Metric) -> dict[str, Any]:
    """Return the fields that differ from their defaults. With all fields, a hundred metrics would take much space."""
    data: dict[str, Any] = {}
    for declared in dataclasses.fields(metric):
        value = getattr(metric, declared.name)
        if value != declared.default:
            data[declared.name] = value
    return data


def metric_from_dict(data: Mapping[str, Any]) -> Metric:
    """Read a metric's declaration. Early versions did not check bounds and chance, so wrong ones are dropped."""
    try:
        return Metric(**data)
    except ValueError:
        name = str(data["name"]) or "unnamed"
        return Metric(**{**data, "name": name, "bounds": None, "chance": None})

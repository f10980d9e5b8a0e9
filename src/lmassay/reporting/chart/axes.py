"""Axes: numbers on a linear or logarithmic scale, or categories.

An axis has a range and proposes sets of ticks. The layout decides where the axis lies on the drawing, and chooses the
largest set of ticks whose labels do not touch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

_MAX_TICKS = 6
_MAX_DECADES = 8
_NICE_STEPS = (1, 2, 5)
# Beyond these limits, the labels of ticks use powers of ten. For linear axes:
_MAX_PLAIN = 1e6
_SMALLEST_PLAIN_STEP = 1e-4
# For logarithmic axes. The margins keep 0.001 and 10,000 within the limits in spite of rounding.
_SMALLEST_PLAIN_POWER, _LARGEST_PLAIN_POWER = 0.9e-3, 1.1e4
_SMALLEST_POSITIVE = 1e-300
"""Smaller powers of ten are inexact in floating point, or 0."""
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Tick:
    """A value on an axis, and its label."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class LinearAxis:
    """Numbers from ``low`` to ``high``. Values beyond the ends are drawn at the ends.

    - ``ticks``: these ticks instead of round numbers
    - ``whole``: ticks on whole numbers only; ``signed``: a plus before positive ones
    - ``grid``: a line across the panel at each tick; without it, the axis itself is drawn
    - ``ends``: what the two directions of the axis mean, such as "← worse" and "better →"
    """

    title: str = ""
    low: float = 0.0
    high: float = 1.0
    ticks: Sequence[float] = ()
    whole: bool = False
    signed: bool = False
    grid: bool = True
    ends: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        is_finite = math.isfinite(self.low) and math.isfinite(self.high)
        if not is_finite or not self.low < self.high:
            raise ValueError(f"an axis cannot reach from {self.low} to {self.high}")

    @classmethod
    def around(
        cls,
        title: str,
        values: Iterable[float],
        *,
        within: tuple[float, float] | None = None,
        room: float = 0.06,
        least_room: float = 0.0,
        signed: bool = False,
        whole: bool = False,
    ) -> LinearAxis:
        """Return an axis that covers all values, with a margin at both ends but not beyond ``within``.

        The margin is the fraction ``room`` of the range of the values, and at least ``least_room`` (in units of the
        axis). If all values are equal and ``least_room`` is 0, it is a tenth of the value, or 1 if the value is 0.

        >>> axis = LinearAxis.around("score", [61.0, 74.0], within=(0.0, 100.0))
        >>> round(axis.low, 2), round(axis.high, 2)
        (60.22, 74.78)
        """
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            finite = [0.0, 1.0]
        low = min(finite)
        high = max(finite)
        margin = max((high - low) * room, least_room)
        if low == high and not margin:
            margin = abs(low) * 0.1 or 1.0
        low = low - margin
        high = high + margin
        if within is not None:
            low = max(low, within[0])
            high = min(high, within[1])
        if not low < high:
            # All values lie outside ``within``.
            low, high = within or (0.0, 1.0)
        return cls(title, low, high, signed=signed, whole=whole)

    def fraction(self, value: float) -> float:
        """Return where a value lies between the ends: 0 at the lower one, 1 at the upper one."""
        clamped = min(max(value, self.low), self.high)
        # The ends are halved first, because the difference between two very large numbers can overflow.
        return (clamped / 2 - self.low / 2) / (self.high / 2 - self.low / 2)

    def tick_choices(self) -> Iterator[list[Tick]]:
        """Yield sets of ticks from many to few; the layout takes the first whose labels fit."""
        if self.ticks:
            yield from _thinned(self.ticks, self._fixed_labels())
            return
        # Computed with halves, as in `fraction`, so that it cannot overflow.
        half_span = self.high / 2 - self.low / 2
        step = _nice_step(2 * (half_span / _MAX_TICKS))
        if self.whole:
            step = max(step, 1.0)
        while True:
            ticks = list(self._ticks_by(step))
            yield ticks
            if len(ticks) < 2:
                return
            step = _nice_step(step * 1.5)

    def _ticks_by(self, step: float) -> Iterator[Tick]:
        """Yield a tick at each multiple of ``step`` on the axis."""
        largest = max(abs(self.low), abs(self.high))
        # A tolerance, because 3 * 0.1 is slightly more than 0.3 in floating point.
        tolerance = 1e-6 * (self.high / 2 - self.low / 2)
        # One tick below the axis may be generated; rounding must not lose the first one on it.
        first = math.floor(self.low / step)
        for count in range(first, first + 2 * _MAX_TICKS):
            value = count * step
            if self.low - tolerance <= value <= self.high + tolerance:
                yield Tick(value, number_label(value, step, largest, signed=self.signed))

    def _fixed_labels(self) -> list[str]:
        """Return the labels of the ticks that the caller chose, with as many decimals as the finest of them needs."""
        decimals = max(_decimals(abs(value)) for value in self.ticks)
        largest = max(abs(value) for value in self.ticks)
        step = 10.0**-decimals
        return [number_label(value, step, largest, signed=self.signed) for value in self.ticks]


@dataclass(frozen=True, slots=True)
class LogAxis:
    """Positive numbers on a logarithmic scale. Values beyond the ends are drawn at the ends, zero at the lower one."""

    title: str = ""
    low: float = 1e-3
    high: float = 1.0
    grid: bool = True
    ends: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf:
            raise ValueError(f"a logarithmic axis cannot reach from {self.low} to {self.high}")

    @classmethod
    def around(cls, title: str, values: Iterable[float]) -> LogAxis:
        """Return an axis that covers all positive values and ends at powers of ten.

        >>> axis = LogAxis.around("cut-off", [0.002, 0.5, 0.0])
        >>> axis.low, axis.high
        (0.001, 1.0)
        """
        positive = [value for value in values if _SMALLEST_POSITIVE < value < math.inf]
        if not positive:
            return cls(title)
        # A tolerance, because the computed logarithm of 0.001 is not exactly -3.
        lowest = math.floor(math.log10(min(positive)) + 1e-9)
        highest = math.ceil(math.log10(max(positive)) - 1e-9)
        if lowest == highest:
            lowest -= 1
        return cls(title, 10.0**lowest, 10.0**highest)

    def fraction(self, value: float) -> float:
        """Return where a value lies between the ends: 0 at the lower one, 1 at the upper one."""
        clamped = min(max(value, self.low), self.high)
        # Differences of logarithms, because the ratio of the ends can overflow.
        low = math.log(self.low)
        high = math.log(self.high)
        return (math.log(clamped) - low) / (high - low)

    def tick_choices(self) -> Iterator[list[Tick]]:
        """Yield sets of ticks from many to few; the layout takes the first whose labels fit."""
        lowest, highest = self._decades()
        decades = highest - lowest
        if decades < 1:
            yield from self._within_a_decade()
            return
        if decades == 1:
            yield self._ticks(lowest - 1, highest, multiples=_NICE_STEPS)
        step = max(1, math.ceil(decades / _MAX_DECADES))
        while step <= 2 * decades:
            yield self._ticks(lowest, highest, every=step)
            step += 1
        yield []

    def _decades(self) -> tuple[int, int]:
        """Return the first and the last power of ten on the axis."""
        # A tolerance, because the computed logarithm of 0.001 is not exactly -3.
        first = math.ceil(math.log10(self.low) - 1e-9)
        last = math.floor(math.log10(self.high) + 1e-9)
        return first, last

    def _ticks(self, lowest: int, highest: int, *, every: int = 1, multiples: Sequence[int] = (1,)) -> list[Tick]:
        ticks = []
        # Short numbers are easier to read than powers of ten.
        is_plain = self.low >= _SMALLEST_PLAIN_POWER and self.high <= _LARGEST_PLAIN_POWER
        for power in range(lowest, highest + 1):
            # Only multiples of the step, so that axes with the same step have the same ticks.
            if power % every:
                continue
            for multiple in multiples:
                value = multiple * 10.0**power
                is_on_axis = self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)
                if not is_on_axis:
                    continue
                label = f"{value:g}" if is_plain else power_label(multiple, power)
                ticks.append(Tick(value, label))
        return ticks

    def _within_a_decade(self) -> Iterator[list[Tick]]:
        """Yield the ticks of a linear axis, because fewer than two powers of ten lie on this one."""
        yield from LinearAxis("", self.low, self.high).tick_choices()


@dataclass(frozen=True, slots=True)
class Category:
    """One category of an axis, such as a model.

    If a category has marks of several series, each series can have its own lane: a strip parallel to the others, so
    that the marks do not overlap.

    - ``note``: on a y axis, a short text at the right end of the line with the label
    - ``lanes``: the number of lanes
    - ``kind``: a ``strong`` category has a bold label and a gap before it; a ``heading`` is a label without marks
    """

    label: str
    note: str = ""
    lanes: int = 1
    kind: Literal["plain", "strong", "heading"] = "plain"


@dataclass(frozen=True, slots=True)
class CategoryAxis:
    """An axis of categories in their order; the n-th one has the coordinate n, counted from 0.

    - ``labels``: on a y axis, whether labels are printed ``above`` their marks, which leaves the plot the full width,
      or ``beside`` them
    - ``lane``: the width of a lane (on a y axis, its height) in units of the drawing
    - ``stretch``: on an x axis, whether lanes grow to fill the width

    >>> axis = CategoryAxis([Category("test", lanes=2)])
    >>> axis.lane_position(0, 0), axis.lane_position(0, 1)
    (-0.25, 0.25)
    """

    categories: Sequence[Category]
    title: str = ""
    labels: Literal["above", "beside"] = "above"
    lane: float = 15.0
    stretch: bool = True

    def lane_position(self, category: int, lane: int) -> float:
        """Return the coordinate of the middle of a lane."""
        lanes = self.categories[category].lanes
        return category - 0.5 + (lane + 0.5) / lanes


NumericAxis = LinearAxis | LogAxis
Axis = LinearAxis | LogAxis | CategoryAxis


def number_label(value: float, step: float, largest: float, *, signed: bool = False) -> str:
    """Return the label of a tick on a linear axis.

    ``step`` is the distance between ticks, and ``largest`` is the largest absolute value on the axis.

    >>> number_label(0.30000000000000004, 0.1, 1), number_label(-20, 10, 20), number_label(0.5, 0.5, 1, signed=True)
    ('0.3', '−20', '+0.5')
    >>> number_label(2e7, 1e7, 5e7), number_label(0.0, 0.1, 1.0)
    ('2×10⁷', '0')
    """
    if abs(value) < step / 2:
        return "0"
    is_plain = largest < _MAX_PLAIN and step >= _SMALLEST_PLAIN_STEP
    if is_plain:
        magnitude = f"{abs(value):.{_decimals(step)}f}"
    else:
        magnitude = _scientific(abs(value))
    if value < 0:
        return f"−{magnitude}"
    if signed:
        return f"+{magnitude}"
    return magnitude


def power_label(multiple: int, power: int) -> str:
    """Return the label of a tick on a logarithmic axis: ``multiple`` times ten to the ``power``.

    >>> power_label(1, -6), power_label(1, 0), power_label(2, 5)
    ('10⁻⁶', '1', '2×10⁵')
    """
    if power == 0:
        return str(multiple)
    base = f"10{str(power).translate(_SUPERSCRIPTS)}"
    if multiple == 1:
        return base
    return f"{multiple}×{base}"


def _scientific(value: float) -> str:
    """Return a number in scientific notation (``2×10⁷``), or as a plain number if it has few digits."""
    written = f"{value:.4g}"
    mantissa, letter, exponent = written.partition("e")
    if not letter:
        return written
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    if mantissa == "1":
        return power
    return f"{mantissa}×{power}"


def _nice_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-300)))
    for step in (*_NICE_STEPS, 10):
        # A tolerance, because `least` may be a round number with a rounding error.
        if step * power >= least * (1 - 1e-9):
            return step * power
    return 10 * power


def _decimals(step: float) -> int:
    """Return how many decimals are needed to write multiples of ``step``."""
    decimals = 0
    while decimals < 12 and abs(round(step, decimals) - step) > abs(step) * 1e-6:
        decimals += 1
    return decimals


def _thinned(values: Sequence[float], labels: Sequence[str]) -> Iterator[list[Tick]]:
    """Yield all ticks, then smaller sets at equal steps from the first to the last, then only the first, then none."""
    ticks = [Tick(value, label) for value, label in zip(values, labels, strict=True)]
    for every in range(1, len(ticks) + 1):
        # Other steps would leave out the last tick, and with it the end of the axis.
        if (len(ticks) - 1) % every == 0 or every == len(ticks):
            yield ticks[::every]
    yield []

"""Figures of the bias section: accuracy and bias side by side, a row a category; arrows between two; prompts as dots.

What a colour says, a position says, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lmassay.reporting.chart import (
    Arrow,
    Bar,
    Category,
    CategoryAxis,
    Chart,
    Dot,
    Group,
    Interval,
    Label,
    LinearAxis,
    Mark,
    Panel,
    PanelNote,
    Stroke,
)

NO_DATA = "no data (n = 0)"
_LIMITS = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
_ACCURACY_SHARE, _BIAS_SHARE = 5.0, 7.0
_BAR = 9.0
_LANE = 14.0
_LANE_WITH_PROMPTS = 20.0
_PROMPT_LENGTH = 5.0


@dataclass(frozen=True, slots=True)
class PlottedValue:
    """A value with its interval, those of single prompts, and how far from zero it could be.

    ``title`` is shown on pointing at it, or written where there is no value.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    prompts: Sequence[float] = ()
    bound: tuple[float, float] | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class BarRow:
    """A label with its two values. A row without values is a heading."""

    label: str
    accuracy: PlottedValue | None = None
    bias: PlottedValue | None = None

    @property
    def is_heading(self) -> bool:
        return self.accuracy is None and self.bias is None


@dataclass(frozen=True, slots=True)
class ArrowRow:
    """A label with accuracy and bias before and after. A row without values is a heading."""

    label: str
    accuracy: tuple[PlottedValue, PlottedValue] | None = None
    bias: tuple[PlottedValue, PlottedValue] | None = None

    @property
    def is_heading(self) -> bool:
        return self.accuracy is None and self.bias is None


@dataclass(frozen=True, slots=True)
class Strip:
    """The values of single prompts, each with its title, and what sums them up."""

    label: str
    values: Sequence[tuple[str, float]]
    summary: str


@dataclass(frozen=True, slots=True)
class _PlottedMark:
    """The marks of a value, and the text beside them."""

    mark: Mark
    note: str = ""


def limit_of(estimates: Sequence[PlottedValue]) -> float:
    """Half the width of a scale around zero: as little as holds all values, intervals and bounds."""
    largest = 0.0
    for estimate in estimates:
        ends = [estimate.value, estimate.low, estimate.high, *estimate.prompts]
        if estimate.bound is not None:
            ends.append(estimate.bound[0])
        for end in ends:
            largest = max(largest, abs(end or 0.0))
    return next((limit for limit in _LIMITS if largest <= limit), 1.0)


def bar_chart(rows: Sequence[BarRow], heads: tuple[str, str], limit: float, description: str) -> Chart:
    """Accuracy to the left, bias to the right with the room that its bound leaves shaded.

    ``heads`` are what the figure is about, and what its bias is called.
    """
    has_prompts = any(value is not None and value.prompts for row in rows for value in (row.accuracy, row.bias))
    axis = _categories(rows, _LANE_WITH_PROMPTS if has_prompts else _LANE)
    accuracies: list[_PlottedMark | None] = []
    biases: list[_PlottedMark | None] = []
    for number, row in enumerate(rows):
        accuracies.append(None if row.accuracy is None else _accuracy_bar(row.accuracy, number))
        biases.append(None if row.bias is None else _bias_bar(row.bias, number, limit))
    return _side_by_side(axis, accuracies, biases, heads, limit, description)


def arrow_chart(rows: Sequence[ArrowRow], heads: tuple[str, str], limit: float, description: str) -> Chart:
    """From a hollow dot (before) to an arrowhead (after)."""
    axis = _categories(rows, _LANE)
    accuracies: list[_PlottedMark | None] = []
    biases: list[_PlottedMark | None] = []
    for number, row in enumerate(rows):
        accuracies.append(None if row.accuracy is None else _arrow(*row.accuracy, number, 0.0))
        biases.append(None if row.bias is None else _arrow(*row.bias, number, -limit))
    return _side_by_side(axis, accuracies, biases, heads, limit, description)


def strip_chart(strips: Sequence[Strip], low: float, title: str, description: str) -> Chart:
    """A row of dots for each series, with their range and their mean; ``low`` is 0, or the lower end around zero."""
    axis = CategoryAxis([Category(strip.label, note=strip.summary) for strip in strips])
    marks = [_strip(strip, number) for number, strip in enumerate(strips) if strip.values]
    x = LinearAxis(low=low, high=1.0 if low == 0 else -low)
    return Chart(description, [Panel(y=axis, x=x, marks=marks)], title=title)


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign; a zero has none.

    >>> signed(0.25), signed(-0.25), signed(-0.0001)
    ('+0.250', '−0.250', '0.000')
    """
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else text[1:]


# --- two panels -------------------------------------------------------------------------------------------------------


def _categories(rows: Sequence[BarRow] | Sequence[ArrowRow], lane: float) -> CategoryAxis:
    categories = [Category(row.label, kind="heading" if row.is_heading else "plain") for row in rows]
    return CategoryAxis(categories, lane=lane)


def _side_by_side(
    axis: CategoryAxis,
    accuracies: Sequence[_PlottedMark | None],
    biases: Sequence[_PlottedMark | None],
    heads: tuple[str, str],
    limit: float,
    description: str,
) -> Chart:
    title, bias_title = heads
    around_zero = LinearAxis(
        low=-limit,
        high=limit,
        ticks=(-limit, -limit / 2, 0.0, limit / 2, limit),
        ends=("← counter", "stereotype →"),
    )
    accuracy = Panel(
        y=axis,
        x=LinearAxis(),
        marks=[drawn.mark for drawn in accuracies if drawn is not None],
        notes=_notes(accuracies),
        title="accuracy",
        share=_ACCURACY_SHARE,
    )
    bias = Panel(
        y=axis,
        x=around_zero,
        marks=[drawn.mark for drawn in biases if drawn is not None],
        notes=_notes(biases),
        title=bias_title,
        share=_BIAS_SHARE,
    )
    return Chart(description, [accuracy, bias], columns=2, title=title)


def _notes(column: Sequence[_PlottedMark | None]) -> list[PanelNote]:
    return [PanelNote(row, drawn.note) for row, drawn in enumerate(column) if drawn is not None and drawn.note]


# --- the marks of a row -----------------------------------------------------------------------------------------------


def _accuracy_bar(estimate: PlottedValue, row: int) -> _PlottedMark:
    if estimate.value is None:
        return _no_value(estimate, row, 0.0)
    bar = Bar(0.0, estimate.value, row, thickness=_BAR, style="share")
    return _PlottedMark(_with_prompts([bar, *_interval(estimate, row)], estimate, row), f"{estimate.value:.3f}")


def _bias_bar(estimate: PlottedValue, row: int, limit: float) -> _PlottedMark:
    if estimate.value is None:
        return _no_value(estimate, row, -limit)
    marks: list[Mark] = []
    for style, end in zip(("band", "reach"), estimate.bound or (), strict=False):
        marks.append(Bar(-end, end, row, thickness=_BAR + 2, style=style))
    style = "toward" if estimate.value > 0 else "against"
    marks.append(Bar(0.0, estimate.value, row, thickness=_BAR, style=style))
    marks += _interval(_within_bound(estimate), row)
    return _PlottedMark(_with_prompts(marks, estimate, row), signed(estimate.value))


def _within_bound(estimate: PlottedValue) -> PlottedValue:
    """What the accuracy leaves no room for cannot be, whatever an interval made of few templates says."""
    if estimate.value is None or estimate.bound is None or estimate.low is None or estimate.high is None:
        return estimate
    most = max(estimate.bound[1], abs(estimate.value))
    return replace(estimate, low=max(estimate.low, -most), high=min(estimate.high, most))


def _interval(estimate: PlottedValue, row: int) -> list[Mark]:
    """The interval across the bar."""
    if estimate.low is None or estimate.high is None:
        return []
    return [Interval(estimate.low, estimate.high, row, style="interval", caps=True)]


def _with_prompts(marks: Sequence[Mark], estimate: PlottedValue, row: int) -> Group:
    """Single prompts are strokes below the bar, which moves up to make room for them."""
    if not estimate.prompts:
        return Group(marks, series=0, title=estimate.title)
    bar_and_strokes: list[Mark] = [Group(marks, shift=(0.0, -_PROMPT_LENGTH / 2))]
    top_of_strokes = _BAR / 2 - _PROMPT_LENGTH / 2 + 1
    for value in estimate.prompts:
        bar_and_strokes.append(
            Stroke(value, row, above=-top_of_strokes, below=top_of_strokes + _PROMPT_LENGTH, style="prompt")
        )
    return Group(bar_and_strokes, series=0, title=estimate.title)


def _arrow(before: PlottedValue, after: PlottedValue, row: int, left: float) -> _PlottedMark:
    if before.value is None or after.value is None:
        return _no_value(after, row, left)
    change = signed(100 * (after.value - before.value), 1)
    return _PlottedMark(Group([Arrow(before.value, after.value, row)], series=0, title=after.title), change)


def _no_value(estimate: PlottedValue, row: int, left: float) -> _PlottedMark:
    return _PlottedMark(Label(left, row, estimate.title or NO_DATA))


def _strip(strip: Strip, row: int) -> Group:
    values = [value for _, value in strip.values]
    marks: list[Mark] = [Interval(min(values), max(values), row, style="spread pale")]
    for title, value in strip.values:
        marks.append(Dot(value, row, style="full light", radius=4, title=title))
    marks.append(Stroke(sum(values) / len(values), row))
    return Group(marks, series=0)

"""Charts of the bias section: accuracy next to bias with a row per category, as bars or as arrows; and prompts as dots.

Everything that a colour shows is also shown by a position, so the charts can be read without colour.
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
# The axis of bias ends at one of these values, the smallest that fits, so that figures are easy to compare.
_LIMITS = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
# Relative widths of the two panels.
_ACCURACY_SHARE, _BIAS_SHARE = 5.0, 7.0
# Heights in pixels.
_BAR = 9.0
_LANE = 14.0
_LANE_WITH_PROMPTS = 20.0
_PROMPT_LENGTH = 5.0


@dataclass(frozen=True, slots=True)
class PlottedValue:
    """A value with its interval, the values of single prompts, and its bounds.

    ``bound`` says how far from zero a bias can be: at the measured accuracy, and at any accuracy within its interval.
    ``title`` is shown as a tooltip, or as text in place of a missing value.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    prompts: Sequence[float] = ()
    bound: tuple[float, float] | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class BarRow:
    """A row of a bar chart: a label with its accuracy and bias. A row without values is a heading."""

    label: str
    accuracy: PlottedValue | None = None
    bias: PlottedValue | None = None

    @property
    def is_heading(self) -> bool:
        """Whether the row is a heading above others."""
        return self.accuracy is None and self.bias is None


@dataclass(frozen=True, slots=True)
class ArrowRow:
    """A row of an arrow chart: a label with (before, after) of accuracy and bias. Without values, it is a heading."""

    label: str
    accuracy: tuple[PlottedValue, PlottedValue] | None = None
    bias: tuple[PlottedValue, PlottedValue] | None = None

    @property
    def is_heading(self) -> bool:
        """Whether the row is a heading above others."""
        return self.accuracy is None and self.bias is None


@dataclass(frozen=True, slots=True)
class Strip:
    """A row of a strip chart: the values of single prompts, each with its tooltip, and a text that summarizes them."""

    label: str
    values: Sequence[tuple[str, float]]
    summary: str


@dataclass(frozen=True, slots=True)
class _PlottedMark:
    """What is drawn for a value, and the text that is shown to the right of the panel."""

    mark: Mark
    note: str = ""


def limit_of(values: Sequence[PlottedValue]) -> float:
    """Return the end of an axis around zero on which all values, intervals and bounds at the measured accuracy fit."""
    largest = 0.0
    for plotted in values:
        ends = [plotted.value, plotted.low, plotted.high, *plotted.prompts]
        if plotted.bound is not None:
            ends.append(plotted.bound[0])
        for end in ends:
            largest = max(largest, abs(end or 0.0))
    for limit in _LIMITS:
        if largest <= limit:
            return limit
    return _LIMITS[-1]


def bar_chart(rows: Sequence[BarRow], titles: tuple[str, str], limit: float, description: str) -> Chart:
    """Draw bars: accuracy on the left, bias on the right, with the area within its bound shaded.

    ``titles`` are the title of the chart and the name of the bias score. The axis of bias ends at ``limit``.
    """
    # Prompts are drawn as ticks below a bar. If any row has them, all rows of the chart are made higher.
    lane = _LANE
    for row in rows:
        for plotted in (row.accuracy, row.bias):
            if plotted is not None and plotted.prompts:
                lane = _LANE_WITH_PROMPTS
    axis = _categories(rows, lane)
    accuracies: list[_PlottedMark | None] = []
    biases: list[_PlottedMark | None] = []
    for number, row in enumerate(rows):
        accuracies.append(None if row.accuracy is None else _accuracy_bar(row.accuracy, number))
        biases.append(None if row.bias is None else _bias_bar(row.bias, number, limit))
    return _side_by_side(axis, accuracies, biases, titles, limit, description)


def arrow_chart(rows: Sequence[ArrowRow], titles: tuple[str, str], limit: float, description: str) -> Chart:
    """Draw arrows from a hollow dot (before) to an arrowhead (after); the parameters are those of `bar_chart`."""
    axis = _categories(rows, _LANE)
    accuracies: list[_PlottedMark | None] = []
    biases: list[_PlottedMark | None] = []
    for number, row in enumerate(rows):
        accuracies.append(None if row.accuracy is None else _arrow(*row.accuracy, number, 0.0))
        biases.append(None if row.bias is None else _arrow(*row.bias, number, -limit))
    return _side_by_side(axis, accuracies, biases, titles, limit, description)


def strip_chart(strips: Sequence[Strip], low: float, title: str, description: str) -> Chart:
    """Draw a row of dots per strip, with range and mean; ``low`` is 0, or the lower end of an axis around zero."""
    axis = CategoryAxis([Category(strip.label, note=strip.summary) for strip in strips])
    marks = [_strip(strip, number) for number, strip in enumerate(strips) if strip.values]
    x = LinearAxis(low=low, high=1.0 if low == 0 else -low)
    return Chart(description, [Panel(y=axis, x=x, marks=marks)], title=title)


def signed(value: float, digits: int = 3) -> str:
    """Return a number with its sign; zero has none.

    >>> signed(0.25), signed(-0.25), signed(-0.0001)
    ('+0.250', '−0.250', '0.000')
    """
    text = f"{value:+.{digits}f}"
    if float(text) == 0:
        return text[1:]
    # A real minus sign, which is as wide as the plus.
    return text.replace("-", "−")


# --- two panels -------------------------------------------------------------------------------------------------------


def _categories(rows: Sequence[BarRow] | Sequence[ArrowRow], lane: float) -> CategoryAxis:
    categories = []
    for row in rows:
        if row.is_heading:
            categories.append(Category(row.label, kind="heading"))
        else:
            categories.append(Category(row.label, kind="plain"))
    return CategoryAxis(categories, lane=lane)


def _side_by_side(
    axis: CategoryAxis,
    accuracies: Sequence[_PlottedMark | None],
    biases: Sequence[_PlottedMark | None],
    titles: tuple[str, str],
    limit: float,
    description: str,
) -> Chart:
    title, bias_title = titles
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
    notes = []
    for row, drawn in enumerate(column):
        if drawn is not None and drawn.note:
            notes.append(PanelNote(row, drawn.note))
    return notes


# --- the marks of a row -----------------------------------------------------------------------------------------------


def _accuracy_bar(plotted: PlottedValue, row: int) -> _PlottedMark:
    if plotted.value is None:
        return _no_value(plotted, row, 0.0)
    bar = Bar(0.0, plotted.value, row, thickness=_BAR, style="share")
    marks: list[Mark] = [bar, *_interval(plotted, row)]
    return _PlottedMark(_with_prompts(marks, plotted, row), f"{plotted.value:.3f}")


def _bias_bar(plotted: PlottedValue, row: int, limit: float) -> _PlottedMark:
    if plotted.value is None:
        return _no_value(plotted, row, -limit)
    marks: list[Mark] = []
    # The values that are possible: a dark area for the measured accuracy, a light one for those within its interval.
    for style, end in zip(("band", "reach"), plotted.bound or (), strict=False):
        marks.append(Bar(-end, end, row, thickness=_BAR + 2, style=style))
    style = "toward" if plotted.value > 0 else "against"
    marks.append(Bar(0.0, plotted.value, row, thickness=_BAR, style=style))
    marks += _interval(_within_bound(plotted), row)
    return _PlottedMark(_with_prompts(marks, plotted, row), signed(plotted.value))


def _within_bound(plotted: PlottedValue) -> PlottedValue:
    """Cut off the interval at the bound: with few templates, it may contain values that the accuracy rules out."""
    if plotted.value is None or plotted.bound is None or plotted.low is None or plotted.high is None:
        return plotted
    limit = max(plotted.bound[1], abs(plotted.value))
    return replace(plotted, low=max(plotted.low, -limit), high=min(plotted.high, limit))


def _interval(plotted: PlottedValue, row: int) -> list[Mark]:
    """Return the line across the bar."""
    if plotted.low is None or plotted.high is None:
        return []
    return [Interval(plotted.low, plotted.high, row, style="interval", caps=True)]


def _with_prompts(marks: Sequence[Mark], plotted: PlottedValue, row: int) -> Group:
    """Add the values of single prompts as ticks below the bar; the bar moves up to make room for them."""
    if not plotted.prompts:
        return Group(marks, series=0, title=plotted.title)
    bar_and_strokes: list[Mark] = [Group(marks, shift=(0.0, -_PROMPT_LENGTH / 2))]
    top_of_strokes = _BAR / 2 - _PROMPT_LENGTH / 2 + 1
    for value in plotted.prompts:
        bar_and_strokes.append(
            Stroke(value, row, above=-top_of_strokes, below=top_of_strokes + _PROMPT_LENGTH, style="prompt")
        )
    return Group(bar_and_strokes, series=0, title=plotted.title)


def _arrow(before: PlottedValue, after: PlottedValue, row: int, left: float) -> _PlottedMark:
    if before.value is None or after.value is None:
        return _no_value(after, row, left)
    change = signed(100 * (after.value - before.value), 1)
    arrow = Arrow(before.value, after.value, row)
    return _PlottedMark(Group([arrow], series=0, title=after.title), change)


def _no_value(plotted: PlottedValue, row: int, left: float) -> _PlottedMark:
    return _PlottedMark(Label(left, row, plotted.title or NO_DATA))


def _strip(strip: Strip, row: int) -> Group:
    values = [value for _, value in strip.values]
    marks: list[Mark] = [Interval(min(values), max(values), row, style="spread pale")]
    for title, value in strip.values:
        marks.append(Dot(value, row, style="full light", radius=4, title=title))
    marks.append(Stroke(sum(values) / len(values), row))
    return Group(marks, series=0)

"""A gauge: one number with its interval on a scale that ends at 1."""

from __future__ import annotations

from lmassay.reporting.chart import Category, CategoryAxis, Chart, Dot, Interval, LinearAxis, Mark, Panel, Rule


def gauge(
    description: str,
    value: float | None,
    interval: tuple[float | None, float | None],
    *,
    axis: tuple[float, float] = (0.0, 1.0),
    reference: float | None = None,
) -> Chart:
    """The value with its interval, and a dotted line at the reference, such as chance.

    >>> gauge("accuracy 0.75", 0.75, (0.6, 0.85), reference=0.5).svg().count("<line")
    6
    """
    marks: list[Mark] = []
    if reference is not None:
        marks.append(Rule(reference))
    low, high = interval
    if low is not None and high is not None:
        marks.append(Interval(low, high, 0, style="whisker"))
    if value is not None:
        marks.append(Dot(value, 0, style="value", radius=4.5))
    start, end = axis
    scale = LinearAxis(low=start, high=end, ticks=(start, (start + end) / 2, end), grid=False)
    # One row without a label.
    row = CategoryAxis([Category("")], lane=18)
    return Chart(description, [Panel(y=row, x=scale, marks=marks)], width=250)

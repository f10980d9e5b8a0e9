"""EW and MW over the cut-off, and beside them what is left to count there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from lmassay.evaluations.syntax.report.cutoffs import (
    CutoffCurve,
    CutoffPoint,
    bottom_axis,
    curve_key,
    cutoff_panel,
    series_style,
)
from lmassay.evaluations.syntax.report.runs import System
from lmassay.reporting.blocks import Block, Figure, Figures, Folded, Note, in_short
from lmassay.reporting.chart import MOST_SERIES, Chart, LinearAxis
from lmassay.reporting.numbers import interval_text, number_text

FEW_CONTEXTS = 10
_SCORES = (("ew", "EW"), ("mw", "MW"))
_REST = (("mass", "mass counted"), ("invalid", "invalid contexts"))
_HOW_TO_READ = (
    "EW and MW over the cut-off. Top (solid, upper axis): only verbs within the most probable part of the model's "
    "distribution count, from a tenth of it to all. Bottom (dashed, lower axis, logarithmic): only verbs within the "
    f"least probable part. To the right, more counts. Faint marks rest on fewer than {FEW_CONTEXTS} contexts."
)
_CAPTIONS = {
    "ew": "{of}: EW.",
    "mw": "{of}: MW.",
    "mass": "{of}: probability of the verbs within the cut-off.",
    "invalid": "{of}: share of the contexts with no verb within the cut-off; EW and MW are means over the others.",
}
_Line = tuple[str, System, str]
"""The name of a line, and the system and construction whose values it shows."""


def blocks(names: Sequence[str], members: Sequence[System]) -> list[Block]:
    """A line for each construction; where there is only one, a line for each system."""
    if not any(run.cutoffs for system in members for run in system.runs):
        return []
    lines: list[tuple[str, list[_Line]]]
    if len(names) == 1:
        lines = [(names[0], [(system.title, system, names[0]) for system in members])]
    else:
        lines = [(system.title, [(construction, system, construction) for construction in names]) for system in members]
    found: list[Block] = []
    for of, wanted in lines:
        present = [line for line in wanted if _points(line, "ew")]
        if not present:
            continue
        rest = Folded(f"{of}: probability counted, invalid contexts", [_figures(of, present, _REST)])
        drawn: list[Block] = [_figures(of, present, _SCORES), rest]
        found += [Folded(f"EW and MW over the cut-off: {of}", drawn)] if found else [Note(_HOW_TO_READ), *drawn]
    without = [s.title for s in members if not any(_points(("", s, c), "ew") for c in s.constructions)]
    if without:
        text = "No curves, for the model does not rank its whole vocabulary or no context has a score"
        found.append(Note(f"{text}: {', '.join(without)}."))
    return found


def _figures(of: str, lines: Sequence[_Line], metrics: Sequence[tuple[str, str]]) -> Figures:
    figures = []
    for panel in _panels(lines):
        for metric, title in metrics:
            what = f"{title} over the cut-off, {of}"
            # Where there are several panels, each is told by its first line.
            what += f", {in_short([name for name, _, _ in panel])}" if len(panel) < len(lines) else ""
            drawn = [_curve(line, metric, number) for number, line in enumerate(panel)]
            figures.append(Figure(curve_chart(drawn, title, what).svg(), _CAPTIONS[metric].format(of=of)))
    return Figures(figures, "middle")


def _panels(lines: Sequence[_Line]) -> Iterator[Sequence[_Line]]:
    """As few figures as can be read, about equally full."""
    number = math.ceil(len(lines) / MOST_SERIES)
    size = math.ceil(len(lines) / number)
    return (lines[start : start + size] for start in range(0, len(lines), size))


def curve_chart(curves: Sequence[CutoffCurve], y_title: str, description: str) -> Chart:
    """At most ``MOST_SERIES`` curves over the unit square, their names in rows below."""
    if len(curves) > MOST_SERIES:
        raise ValueError(f"{len(curves)} curves in one figure; readers can tell {MOST_SERIES} apart")
    panel = cutoff_panel(
        curves,
        y=LinearAxis(y_title),
        top=LinearAxis("top cut-off (solid, ○)"),
        bottom=bottom_axis("bottom cut-off (dashed, ×)", curves),
    )
    return Chart(description, [panel], legend=[curve_key(curve) for curve in curves], width=396)


def _curve(line: _Line, metric: str, number: int) -> CutoffCurve:
    name, _, _ = line
    return CutoffCurve(name, _points(line, metric), series_style(number))


def _points(line: _Line, metric: str) -> list[CutoffPoint]:
    name, system, construction = line
    run = system.run_on(construction)
    points: list[CutoffPoint] = []
    if run is None:
        return points
    for side, cutoff in run.cutoffs:
        result = system.result(f"{metric}@{side}{cutoff:g}", construction)
        if result is None or result.value is None:
            continue
        value = f"{number_text(result.value, 3)} {interval_text(result, 3)}, n {result.n}"
        faint = metric in dict(_SCORES) and result.n < FEW_CONTEXTS
        points.append(CutoffPoint(side, cutoff, result.value, f"{name}, {side} {cutoff:g}: {value}", faint))
    return points

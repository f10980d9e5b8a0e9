"""EW and MW over the cut-off, and beside them what is left to count there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from lmassay.evaluations.syntax.report.runs import System
from lmassay.reporting import curves
from lmassay.reporting.blocks import Block, Figure, Figures, Folded, Note, in_short
from lmassay.reporting.numbers import interval_text, number_text
from lmassay.reporting.svg import MOST_SERIES

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
        present = [line for line in wanted if _curve(line, "ew").points]
        if not present:
            continue
        rest = Folded(f"{of}: probability counted, invalid contexts", [_figures(of, present, _REST)])
        drawn: list[Block] = [_figures(of, present, _SCORES), rest]
        found += [Folded(f"EW and MW over the cut-off: {of}", drawn)] if found else [Note(_HOW_TO_READ), *drawn]
    without = [s.title for s in members if not any(_curve(("", s, c), "ew").points for c in s.constructions)]
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
            drawing = curves.drawing([_curve(line, metric) for line in panel], title, what)
            figures.append(Figure(drawing, _CAPTIONS[metric].format(of=of)))
    return Figures(figures, "middle")


def _panels(lines: Sequence[_Line]) -> Iterator[Sequence[_Line]]:
    """As few figures as can be read, about equally full."""
    number = math.ceil(len(lines) / MOST_SERIES)
    size = math.ceil(len(lines) / number)
    return (lines[start : start + size] for start in range(0, len(lines), size))


def _curve(line: _Line, metric: str) -> curves.Curve:
    name, system, construction = line
    run = system.run_on(construction)
    points = []
    for side, cutoff in run.cutoffs if run is not None else ():
        result = system.result(f"{metric}@{side}{cutoff:g}", construction)
        if result is None or result.value is None:
            continue
        told = f"{number_text(result.value, 3)} {interval_text(result, 3)}, n {result.n}"
        faint = metric in dict(_SCORES) and result.n < FEW_CONTEXTS
        points.append(curves.At(side, cutoff, result.value, f"{name}, {side} {cutoff:g}: {told}", faint))
    return curves.Curve(name, points)

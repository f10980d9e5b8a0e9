"""EW and MW (see :mod:`lmassay.evaluations.syntax.metrics`) as functions of the cut-off.

Two further figures are folded below them: the total probability of the verbs within the cut-off, and the share of
invalid contexts, which have no verb within the cut-off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lmassay.evaluations.syntax.report.cutoffs import (
    CutoffCurve,
    CutoffPoint,
    bottom_axis,
    curve_key,
    cutoff_panel,
    series_style,
)
from lmassay.evaluations.syntax.report.runs import System
from lmassay.reporting.blocks import Block, Figure, Folded, Note, in_short
from lmassay.reporting.chart import MAX_SERIES, Chart, LinearAxis
from lmassay.reporting.figure_rules import are_equal, figures_and_notes
from lmassay.reporting.numbers import interval_text, number_text

FEW_CONTEXTS = 10
_SCORES = (("ew", "EW"), ("mw", "MW"))
_COVERAGE = (("mass", "mass counted"), ("invalid", "invalid contexts"))
_HOW_TO_READ = (
    "EW and MW as functions of the cut-off, which is a total probability. Top (solid, upper axis): a verb counts only "
    "if it is among the model's most probable tokens, whose probabilities add up to the cut-off. Bottom (dashed, lower "
    "axis, logarithmic): a verb counts only if it is among the least probable tokens, whose probabilities add up to "
    f"the cut-off. Further right, more verbs count. Faint marks are based on fewer than {FEW_CONTEXTS} contexts."
)
_CAPTIONS = {
    "ew": "{subject}: EW.",
    "mw": "{subject}: MW.",
    "mass": "{subject}: total probability of the verbs within the cut-off.",
    "invalid": "{subject}: share of the contexts with no verb within the cut-off; EW and MW are means over the rest.",
}


@dataclass(frozen=True, slots=True)
class _CurveSource:
    """The name of a curve, and the system and construction whose values it shows."""

    name: str
    system: System
    construction: str

    def points(self, metric: str) -> list[CutoffPoint]:
        """Return the values of a metric at all cut-offs that have one."""
        run = self.system.run_on(self.construction)
        points: list[CutoffPoint] = []
        if run is None:
            return points
        for side, cutoff in run.cutoffs:
            result = self.system.result(f"{metric}@{side}{cutoff:g}", self.construction)
            if result is None or result.value is None:
                continue
            value = f"{number_text(result.value, 3)} {interval_text(result, 3)}, n = {result.n}"
            title = f"{self.name}, {side} {cutoff:g}: {value}"
            is_faint = metric in dict(_SCORES) and result.n < FEW_CONTEXTS
            points.append(CutoffPoint(side, cutoff, result.value, title, is_faint))
        return points


def blocks(constructions: Sequence[str], systems: Sequence[System]) -> list[Block]:
    """Return figures with one curve per construction, or with one per system if there is only one construction."""
    if not any(run.cutoffs for system in systems for run in system.runs):
        return []
    sources_by_subject: list[tuple[str, list[_CurveSource]]] = []
    if len(constructions) == 1:
        (construction,) = constructions
        sources = [_CurveSource(system.title, system, construction) for system in systems]
        sources_by_subject.append((construction, sources))
    else:
        for system in systems:
            sources = [_CurveSource(construction, system, construction) for construction in constructions]
            sources_by_subject.append((system.title, sources))
    curve_blocks: list[Block] = []
    for subject, sources in sources_by_subject:
        measured_sources = [source for source in sources if source.points("ew")]
        if not measured_sources:
            continue
        coverage = _figures(subject, measured_sources, _COVERAGE)
        figures: list[Block] = [
            *_figures(subject, measured_sources, _SCORES),
            Folded(f"{subject}: probability counted, invalid contexts", coverage),
        ]
        # The first subject is shown with an explanation, the others are folded.
        if curve_blocks:
            curve_blocks.append(Folded(f"EW and MW as functions of the cut-off: {subject}", figures))
        else:
            curve_blocks += [Note(_HOW_TO_READ, explains_figures=True), *figures]
    without_curves = [system.title for system in systems if not _has_curves(system)]
    if without_curves:
        curve_blocks.append(
            Note(
                "No curves, because the model does not rank its whole vocabulary or no context has a score: "
                f"{', '.join(without_curves)}."
            )
        )
    return curve_blocks


def _has_curves(system: System) -> bool:
    return any(_CurveSource("", system, construction).points("ew") for construction in system.constructions)


def _figures(subject: str, sources: Sequence[_CurveSource], metrics: Sequence[tuple[str, str]]) -> list[Block]:
    """A figure for each metric and panel; a note instead if all its curves have the same value at all cut-offs."""
    figures: list[Figure | Note] = []
    for panel in _panels(sources):
        for metric, title in metrics:
            description = f"{title} over the cut-off, {subject}"
            if len(panel) < len(sources):
                # With several panels, each is described by its curves.
                description += f", {in_short([source.name for source in panel])}"
            curves = []
            for number, source in enumerate(panel):
                curves.append(CutoffCurve(source.name, source.points(metric), series_style(number)))
            caption = _CAPTIONS[metric].format(subject=subject)
            values = [point.value for curve in curves for point in curve.points]
            if values and are_equal(values):
                figures.append(Note(f"{caption} The value is {number_text(values[0], 3)} at every cut-off."))
                continue
            figures.append(Figure.of(curve_chart(curves, title, description), caption))
    return figures_and_notes(figures, "middle")


def _panels(sources: Sequence[_CurveSource]) -> Iterator[Sequence[_CurveSource]]:
    """Divide the curves evenly among as few panels as possible, with at most ``MAX_SERIES`` each, to be readable."""
    panel_count = math.ceil(len(sources) / MAX_SERIES)
    size = math.ceil(len(sources) / panel_count)
    for start in range(0, len(sources), size):
        yield sources[start : start + size]


def curve_chart(curves: Sequence[CutoffCurve], y_title: str, description: str) -> Chart:
    """Draw up to ``MAX_SERIES`` curves, with a legend below; values and top cut-offs are from 0 to 1."""
    if len(curves) > MAX_SERIES:
        raise ValueError(f"{len(curves)} curves in one figure; readers can distinguish {MAX_SERIES}")
    panel = cutoff_panel(
        curves,
        y=LinearAxis(y_title),
        top=LinearAxis("top cut-off (solid, ○)"),
        bottom=bottom_axis("bottom cut-off (dashed, ×)", curves),
    )
    return Chart(description, [panel], legend=[curve_key(curve) for curve in curves], width=396)

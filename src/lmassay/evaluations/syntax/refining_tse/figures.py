"""Draw the figures of Newman et al. (2021): scores, counted probability and invalid contexts at each cut-off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmassay.evaluations.syntax.refining_tse.config import Voting
from lmassay.evaluations.syntax.refining_tse.results import (
    TEMPLATES,
    Curve,
    ExperimentCurves,
    FolderResults,
    model_title,
    template_title,
)
from lmassay.evaluations.syntax.report.cutoffs import CurveStyle, CutoffCurve, CutoffPoint, Side, cutoff_panel
from lmassay.reporting.blocks import Figure
from lmassay.reporting.chart import Chart, Dot, Group, Interval, LegendEntry, LinearAxis, LogAxis, Mark, Marker, Panel
from lmassay.reporting.figure_files import FigureFile, FigureFormat
from lmassay.reporting.figure_files import write_figures as write_figure_files
from lmassay.reporting.figure_style import standalone

# The published sets have the colours of Paul Tol's "muted" palette, which readers with any kind of colour vision can
# distinguish, and black for BLiMP, the only set that is not from Marvin & Linzen. The user's own sets have his "bright"
# palette. Both are classes of templates/figures.css, with the colours of templates/theme.css.
_OWN_COLOUR_COUNT = 7
# Markers that the ten sets of the paper do not have. Colours and markers both change from one set to the next. Because
# 7 and 8 have no common divisor, the first 56 sets all look different.
_OWN_MARKERS: tuple[Marker, ...] = (
    "triangle",
    "diamond",
    "triangle-down",
    "square",
    "star",
    "pentagon",
    "triangle-left",
    "triangle-right",
)
# The figures of single models show only these sets, unless none of them has results; those of the supplement show all.
_MAIN_TEMPLATES = ("ML_simple_agrmt", "ML_obj", "ML_obj_rel_no_comp_across", "blimp")
_VOTINGS: tuple[Voting, Voting] = ("ew", "mw")
_COLUMN_WIDTH = 400.0
_PANEL_HEIGHT = 220.0


@dataclass(frozen=True, slots=True)
class Quantity:
    """What the panels of a figure show as a function of the cut-off; the axis of a share ends at 1."""

    values: Callable[[Curve], Sequence[float]]
    label: str
    title: str = ""
    is_share: bool = True


_SCORE = Quantity(lambda curve: curve.scores, "Score")
_COUNTED = Quantity(lambda curve: curve.counted, "Probability", "Probability of the verbs that count", is_share=False)
_INVALID = Quantity(lambda curve: curve.invalid, "Share of contexts", "Contexts in which no lemma is within the cutoff")


@dataclass(frozen=True, slots=True)
class ExperimentsPanel:
    """A panel: the experiments of a model under a metric."""

    title: str
    model: str
    voting: Voting


def write_figures(results: FolderResults, folder: Path, formats: Sequence[FigureFormat] = ("png",)) -> list[Path]:
    """Draw all figures, and return their files in the order in which they were written."""
    files = []
    for name, chart in charts(results):
        drawing = standalone(chart.svg())
        files.append(FigureFile(name, Figure.of(chart, ""), drawing))
    return write_figure_files(files, folder, formats)


def charts(results: FolderResults) -> Iterator[tuple[str, Chart]]:
    """Yield all figures with the names of their files: one per model and metric, then those of the supplement."""
    grid = _panel_grid(results)
    present = [panel for panel in grid if panel is not None]
    if not present:
        return
    for panel in present:
        templates = [name for name in results.templates if (panel.model, name, panel.voting) in results.experiments]
        main_templates = [name for name in templates if name in _MAIN_TEMPLATES]
        # If none of the main sets was evaluated, the figure shows the others.
        yield f"{panel.model}-{panel.voting}", _chart(results, [panel], main_templates or templates, _SCORE)
    yield "supp_top-bottom-scores", _chart(results, grid, results.templates, _SCORE)
    one_each = _one_for_each_model(present)
    yield "supp_probcounted", _chart(results, one_each, results.templates, _COUNTED)
    yield "supp_invalid-pcnt", _chart(results, one_each, results.templates, _INVALID)


def curve_style(name: str, results: FolderResults) -> CurveStyle:
    """Return how the curves of a set of templates are drawn; it is the same in all figures."""
    if name in TEMPLATES:
        return CurveStyle(f"muted{list(TEMPLATES).index(name)}")
    own = [other for other in results.templates if other not in TEMPLATES]
    number = own.index(name)
    marker = _OWN_MARKERS[number % len(_OWN_MARKERS)]
    return CurveStyle(f"bright{number % _OWN_COLOUR_COUNT}", top=marker, bottom=marker)


def _panel_grid(results: FolderResults) -> list[ExperimentsPanel | None]:
    """Return a row of panels per model and a column per metric; None where a model lacks a metric that others have."""
    measured = {(model, voting) for model, _, voting in results.experiments}
    measured_votings = {voting for _, voting in measured}
    votings = [voting for voting in _VOTINGS if voting in measured_votings]
    grid: list[ExperimentsPanel | None] = []
    for model in results.models:
        if not any((model, voting) in measured for voting in votings):
            continue
        for voting in votings:
            panel = None
            if (model, voting) in measured:
                panel = ExperimentsPanel(f"{model_title(model)} ({voting.upper()})", model, voting)
            grid.append(panel)
    return grid


def _one_for_each_model(panels: Sequence[ExperimentsPanel]) -> list[ExperimentsPanel]:
    """Return one panel per model. EW and MW count the same lemmas, so their panels would show the same curves."""
    first: dict[str, ExperimentsPanel] = {}
    for panel in panels:
        first.setdefault(panel.model, ExperimentsPanel(model_title(panel.model), panel.model, panel.voting))
    return list(first.values())


def _chart(
    results: FolderResults, grid: Sequence[ExperimentsPanel | None], templates: Sequence[str], quantity: Quantity
) -> Chart:
    """Return panels in up to two columns, with a legend of all templates below them."""
    columns = min(2, len(grid))
    curves_by_panel: list[list[CutoffCurve]] = []
    all_curves: list[CutoffCurve] = []
    for cell in grid:
        curves: list[CutoffCurve] = []
        if cell is not None:
            curves = _curves(results, cell, templates, quantity)
        curves_by_panel.append(curves)
        all_curves += curves
    y = _y_axis(quantity, all_curves)
    panels: list[Panel | None] = []
    titles = []
    for cell, curves in zip(grid, curves_by_panel, strict=True):
        if cell is None:
            panels.append(None)
            continue
        titles.append(cell.title)
        panels.append(
            cutoff_panel(
                curves,
                y=y,
                top=LinearAxis("Top cutoff"),
                bottom=_bottom_axis(results),
                title=cell.title,
                height=_PANEL_HEIGHT,
            )
        )
    return Chart(
        f"{quantity.title or quantity.label} as a function of the cutoff: {', '.join(titles)}",
        panels,
        columns=columns,
        title=quantity.title,
        legend=_legend(results, templates),
        legend_lines=None,
        width=_COLUMN_WIDTH * columns,
    )


def _curves(
    results: FolderResults, panel: ExperimentsPanel, templates: Sequence[str], quantity: Quantity
) -> list[CutoffCurve]:
    curves = []
    for name in templates:
        experiment = results.experiments.get((panel.model, name, panel.voting))
        if experiment is not None:
            style = curve_style(name, results)
            curves.append(CutoffCurve(template_title(name), _points(experiment, quantity), style))
    return curves


def _points(experiment: ExperimentCurves, quantity: Quantity) -> list[CutoffPoint]:
    points = []
    sides: tuple[tuple[Side, Curve], ...] = (("top", experiment.top), ("bottom", experiment.bottom))
    for side, curve in sides:
        # A folder of the original may lack the last values of a curve.
        for cutoff, value in zip(curve.cutoffs, quantity.values(curve), strict=False):
            points.append(CutoffPoint(side, cutoff, value))
    return points


def _y_axis(quantity: Quantity, curves: Sequence[CutoffCurve]) -> LinearAxis:
    if quantity.is_share:
        return LinearAxis(quantity.label)
    values = [0.0]
    for curve in curves:
        values += [point.value for point in curve.points]
    return LinearAxis.around(quantity.label, values, within=(0.0, 1.0))


def _bottom_axis(results: FolderResults) -> LogAxis:
    """Return one axis for all panels, so that they can be compared even if a panel has few scores at the bottom."""
    cutoffs = [1.0]
    for experiment in results.experiments.values():
        cutoffs += experiment.bottom.cutoffs
    return LogAxis.around("Bottom cutoff", cutoffs)


def _legend(results: FolderResults, templates: Sequence[str]) -> list[LegendEntry]:
    entries = []
    for name in templates:
        style = curve_style(name, results)
        dot = Dot(0.5, 0.5, style.top, radius=4)
        entries.append(LegendEntry(template_title(name), [Group([dot], style=style.colour)]))
    solid: list[Mark] = [Interval(0.0, 1.0, 0.5, style="curve")]
    dashed: list[Mark] = [Interval(0.0, 1.0, 0.5, style="curve dashed")]
    if all(name in TEMPLATES for name in templates):
        # The published sets share their marks; others have their own mark, shown next to their names.
        solid.append(Dot(0.5, 0.5, radius=3))
        dashed.append(Dot(0.5, 0.5, "cross", radius=3))
    entries.append(LegendEntry("Top cutoffs", [Group(solid, style="neutral")]))
    entries.append(LegendEntry("Bottom cutoffs", [Group(dashed, style="neutral")]))
    return entries

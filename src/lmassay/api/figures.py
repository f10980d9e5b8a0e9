"""Figures of runs, which a notebook shows and which can be saved as files."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from lmassay.api import display
from lmassay.errors import UserError, did_you_mean
from lmassay.plugins.evaluations import metric_of
from lmassay.reporting.blocks import Figure
from lmassay.reporting.chart import Category, CategoryAxis, Chart, Dot, Interval, LinearAxis, Mark, Panel, ReferenceLine
from lmassay.reporting.figure_files import (
    FIGURE_FORMATS,
    TextForm,
    figure_files,
    figure_writer,
    too_wide_message,
    write_figure,
)
from lmassay.reporting.figure_style import Drawing, FigureStyle, page_style_sheet, standalone
from lmassay.reporting.numbers import interval_text, short_text, value_text
from lmassay.reporting.paper import PaperLayout, is_too_wide, paper_drawing, parse_width
from lmassay.reporting.run_labels import run_titles
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Result, RunRecord
from lmassay.types.metrics import is_detail

# More rows would not be readable in a notebook.
_MAX_ROWS = 40
# In CSS pixels.
_WIDTH = 560.0


@dataclass(frozen=True, slots=True, repr=False)
class RunFigure:
    """A figure. A notebook shows it, and ``save`` writes it to a file."""

    title: str
    """What the figure shows."""
    drawing: Drawing
    """The figure as an SVG document."""
    figure: Figure
    """The same figure as a part of a report. It can be laid out again for another width."""
    is_empty: bool = False
    """Whether there is nothing to draw."""

    @property
    def svg(self) -> str:
        """The figure as the text of an SVG file."""
        return self.drawing.text

    def save(
        self,
        path: str | Path,
        width: str | float | None = None,
        style: FigureStyle = "colour",
        text: TextForm | None = None,
    ) -> Path:
        """Write the figure to a file that ends in .svg, .png or .pdf, and return its path.

        - ``width``: ``one-column`` (84 mm), ``two-column`` (178 mm), a length such as ``"6.3in"``, or millimetres. The
          figure is laid out for it, with text of at least 7 pt. By default, it is as large as in a notebook.
        - ``style``: ``colour`` or ``grey``
        - ``text``: in SVG files, texts become ``outlines``, which look the same everywhere (the default if ``width`` is
          given), or stay ``text``

        PNG, PDF and outlines need ``pip install 'lmassay[figures]'``; without it, texts in SVG files stay texts.

        >>> run.plot().save("figure.pdf", width="one-column")  # doctest: +SKIP
        """
        if style not in ("colour", "grey"):
            raise UserError(f"style: '{style}' is not a style; write colour or grey")
        file = Path(path)
        drawing = self.drawing
        layout = None
        if width is not None:
            layout = PaperLayout(parse_width(width), style)
            drawing = paper_drawing(self.figure, layout)
        elif style != "colour":
            drawing = standalone(self.figure.drawing, self.figure.caption, page_style_sheet(style))
        for figure_format in FIGURE_FORMATS:
            if file.suffix.lower() == f".{figure_format}":
                text_form = text or ("text" if layout is None else "outlines")
                writer = figure_writer([drawing], [figure_format], text_form, _warn_of_writer)
                write_figure(drawing, file, figure_format, writer, text_form)
                if layout is not None and is_too_wide(drawing, layout):
                    warnings.warn(too_wide_message(file.name, drawing, layout), stacklevel=2)
                return file
        raise UserError(f"{file} does not end in .svg, .png or .pdf; add one of these endings")

    def html(self) -> Markup:
        """Return the figure as an image for a page. It has its own white background."""
        content = base64.b64encode(self.svg.encode("utf-8", "replace")).decode("ascii")
        return display.image(f"data:image/svg+xml;base64,{content}", self.title)

    def __repr__(self) -> str:
        return f"<Figure: {self.title}>"

    def _repr_html_(self) -> str:
        return display.page(self.html())


def _warn_of_writer(message: str) -> None:
    """Issue a warning of ``figure_writer`` for the line of the user's program that calls ``RunFigure.save``."""
    # The callers are, in this order: figure_writer, save, and the user's program.
    warnings.warn(message, stacklevel=4)


def results_figure(record: RunRecord, metric: str | None) -> RunFigure:
    """Return a figure of the main results of a run, or of one metric in all groups."""
    rows: list[tuple[str, Result]] = []
    if metric is None:
        for result in _on_one_scale(_main_results_with_value(record)):
            rows.append((result.metric, result))
        return _figure(record.title, "", rows)
    _require_metric(record, metric)
    for result in record.results:
        if result.metric == metric:
            rows.append((result.group, result))
    return _figure(f"{metric}: {record.title}", metric, rows, metric_of(record, metric).chance)


def runs_figure(records: Sequence[RunRecord], metric: str | None) -> RunFigure:
    """Return a figure of one metric of several runs; by default, the first main metric of the first run with results.

    Runs without the metric are left out. If no run has it, raise a UserError.
    """
    if metric is None:
        for record in records:
            results = _main_results_with_value(record)
            if results:
                metric = results[0].metric
                break
    rows: list[tuple[str, Result]] = []
    for record, title in zip(records, run_titles(records), strict=True):
        result = None if metric is None else record.result(metric)
        if result is not None:
            rows.append((title, result))
    if metric is not None and not rows:
        for record in records:
            _require_metric(record, metric)
    chance = None
    if metric is not None and records:
        chance = metric_of(records[0], metric).chance
    return _figure(f"{metric} of {display.count(len(rows), 'run')}", metric or "", rows, chance)


def report_figures(folder: Path, records: Sequence[RunRecord]) -> list[RunFigure]:
    """Return the figures of the report about runs."""
    from lmassay.reporting.formats.content import chapters

    with Store(folder, for_display=True) as store:
        files = figure_files(chapters(store, records))
    return [RunFigure(file.drawing.title, file.drawing, file.figure) for file in files]


def interval_chart(
    title: str,
    axis: LinearAxis,
    rows: Sequence[tuple[str, float, float | None, float | None, str]],
    reference: float | None = None,
) -> RunFigure:
    """Return a figure with a dot and an interval in each row.

    A row is (label, value, low, high, text), where the text appears when the pointer is over the dot. ``reference`` is
    the position of a vertical line.
    """
    marks: list[Mark] = []
    if reference is not None:
        marks.append(ReferenceLine(reference))
    for number, (_, value, low, high, text) in enumerate(rows):
        if low is not None and high is not None:
            marks.append(Interval(low, high, at=number, style="whisker", title=text))
        marks.append(Dot(value, number, style="value", title=text))
    # An axis needs at least one category, even if there is nothing to draw.
    categories = [Category(label) for label, *_ in rows] or [Category("no data")]
    panel = Panel(y=CategoryAxis(categories), x=axis, marks=marks)
    chart = Chart(title, [panel], title=title, width=_WIDTH)
    figure = Figure.of(chart, title)
    return RunFigure(title, standalone(figure.drawing, title), figure, is_empty=not rows)


def _figure(
    title: str, axis_title: str, results: Sequence[tuple[str, Result]], chance: float | None = None
) -> RunFigure:
    """Return a figure of results with their labels; ``chance`` is what guessing would score."""
    rows = []
    values: list[float] = []
    for label, result in results[:_MAX_ROWS]:
        if result.value is None:
            continue
        text = f"{label}: {value_text(result)} {interval_text(result)}, n = {result.n:,}"
        rows.append((f"{label}  {short_text(result)}", result.value, result.low, result.high, text))
        values += [value for value in (result.value, result.low, result.high) if value is not None]
    reference = None
    if chance is not None and values:
        # The axis includes the chance level, so that a reader sees how far above it the numbers are.
        reference = chance
        values.append(chance)
    axis = LinearAxis.around(axis_title, values)
    return interval_chart(title, axis, rows, reference)


def main_results(record: RunRecord) -> list[Result]:
    """Return the overall results of the headline metrics; of all metrics if the task declares no headline."""
    overall = {result.metric: result for result in record.results if result.group == OVERALL}
    names = [metric for metric in record.design.headline if metric in overall]
    if not names:
        names = [metric for metric in overall if not is_detail(metric)]
    return [overall[name] for name in names]


def _main_results_with_value(record: RunRecord) -> list[Result]:
    return [result for result in main_results(record) if result.value is not None]


def _on_one_scale(results: Sequence[Result]) -> list[Result]:
    """Return the results that fit on one axis: all rates, or only the first result if it is not a rate.

    Values from -1 to 1 are taken for rates.
    """
    rates = [result for result in results if abs(result.value or 0.0) <= 1]
    # The first main metric is the most important one, so it is shown in any case.
    if results and results[0] in rates:
        return rates
    return list(results[:1])


def _require_metric(record: RunRecord, metric: str) -> None:
    metrics = list(dict.fromkeys(result.metric for result in record.results))
    if metric not in metrics:
        raise UserError(f"{record.id} has no metric '{metric}'{did_you_mean(metric, metrics)}")

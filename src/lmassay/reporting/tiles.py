"""The overview on top of a report: each question with its number, what it means and what it does not."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup

from lmassay.contracts import Evaluation
from lmassay.plugins.evaluations import evaluations
from lmassay.reporting.blocks import Block, Body, Cell, Note, Table, TableRow, Tile, TileEntry, Tiles, name
from lmassay.reporting.chart import Category, CategoryAxis, Chart, Dot, Interval, LinearAxis, Mark, Panel, ReferenceLine
from lmassay.reporting.comparison_data import DIRECTION_TEXTS
from lmassay.reporting.comparison_data import interval_text as difference_interval
from lmassay.reporting.headline import (
    Headline,
    ModelDifference,
    Reasons,
    differences_to_first_model,
    evaluations_without_result,
    headlines,
    inapplicable_evaluations,
    one_per_metric,
)
from lmassay.reporting.numbers import interval_text, p_text, value_text
from lmassay.statistics.comparability import marks
from lmassay.storage.store import Store
from lmassay.types import RunRecord

_DIGITS = 3


def overview_blocks(store: Store, records: Sequence[RunRecord]) -> list[Block]:
    """For the page: one tile a question; differences between models below."""
    found, missing = headlines(store, records), inapplicable_evaluations(records)
    failed = evaluations_without_result(records, found)
    # Models stand in the order in which they were asked, whatever came of it.
    order = list(dict.fromkeys([*(record.model for record in records), *missing]))
    tiles: list[Tile] = []
    for evaluation in evaluations():
        tiles += _tiles(evaluation, found, missing, failed, order)
    blocks = [*_mark_notes(records, found), *_differences(store, found), *_unfinished(found)]
    return [Tiles(tiles), *blocks] if tiles else blocks


def overview_table(store: Store, records: Sequence[RunRecord]) -> list[Block]:
    """The same in a table, for formats that have no tiles."""
    found, missing = headlines(store, records), inapplicable_evaluations(records)
    questions = {evaluation.name: evaluation.question for evaluation in evaluations()}
    rows = [
        (
            headline.evaluation.name,
            [
                name(headline.question, headline.shown_title),
                Cell(headline.model_name, kind="text"),
                Cell(value_text(headline.result, _DIGITS)),
                Cell(interval_text(headline.result, _DIGITS)),
                Cell(_scope(headline), headline.beside, kind="text"),
            ],
        )
        for headline in found
    ]
    for what, lacking in (("not applicable", missing), ("no result", evaluations_without_result(records, found))):
        for model, reasons in lacking.items():
            for evaluation, reason in reasons.items():
                blank = [Cell(model, kind="text"), Cell(what), Cell(""), Cell(reason, kind="text")]
                rows.append((evaluation, [name(questions.get(evaluation, evaluation)), *blank]))
    if not rows:
        return []
    order = list(questions)
    lines = [TableRow(cells) for _, cells in sorted(rows, key=lambda row: order.index(row[0]))]
    heads = [Cell("question", kind="text"), Cell("model", kind="text"), Cell("value"), Cell(interval_header(found))]
    table = Table("", [[*heads, Cell("of", kind="text")]], [Body(lines)])
    notes = [Note(f"{h.shown_title}: {h.explanation}") for h in one_per_metric(found)]
    return [table, *notes, *_mark_notes(records, found), *_differences(store, found), *_unfinished(found)]


def interval_header(found: Sequence[Headline]) -> str:
    """What the intervals promise, where all promise the same."""
    levels = {record.settings.confidence for headline in found for record in headline.records}
    return f"{100 * next(iter(levels)):g} % interval" if len(levels) == 1 else "interval"


def anchor(task: str) -> str:
    """Where on the page a task's section begins."""
    return "evaluation-" + re.sub(r"\W+", "-", task)


def _tiles(
    evaluation: Evaluation, found: Sequence[Headline], missing: Reasons, failed: Reasons, order: Sequence[str]
) -> list[Tile]:
    """One tile for each number that an evaluation puts first: usually one."""
    name = evaluation.name
    own = [headline for headline in found if headline.evaluation.name == name]
    without: list[tuple[str, TileEntry]] = []
    for what, reasons in (("n/a", missing), ("no result", failed)):
        for model, why in reasons.items():
            if name in why:
                without.append((model, TileEntry(model, what, reason=why[name])))
    if not own:
        title = "no result" if any(name in why for why in failed.values()) else "not applicable"
        lines = [line for _, line in without]
        return [Tile(evaluation.question, title, lines, "", "", "")] if lines else []
    tiles = []
    for first in one_per_metric(own):
        alike = [headline for headline in own if headline.metric == first.metric]
        tiles.append(
            Tile(
                question=first.question,
                title=f"{first.shown_title}; {DIRECTION_TEXTS[first.better]}",
                lines=_in_order([*((headline.model, _line(headline)) for headline in alike), *without], order),
                meaning=first.shown_meaning,
                limits=first.limits,
                anchor=anchor(first.records[0].task),
            )
        )
    return tiles


def _in_order(lines: Sequence[tuple[str, TileEntry]], models: Sequence[str]) -> list[TileEntry]:
    """The lines with their models, in the order of the models."""
    return [line for _, line in sorted(lines, key=lambda pair: models.index(pair[0]))]


def _mark_notes(records: Sequence[RunRecord], found: Sequence[Headline]) -> list[Block]:
    """What the marks mean that stand in the overview."""
    shown = {record.id for headline in found for record in headline.records}
    needed = marks(records)
    used = {mark for run, mark in needed.of_run.items() if run in shown}
    return [Note(note) for note, of_note in needed.notes.items() if not used.isdisjoint(of_note)]


def _line(headline: Headline) -> TileEntry:
    result = headline.result
    number = (value_text(result, _DIGITS), interval_text(result, _DIGITS))
    return TileEntry(headline.model_name, *number, _scope(headline), headline.beside, drawing=_drawing(headline))


def _scope(headline: Headline) -> str:
    left = [(headline.result.n_error, "in error"), (headline.result.n_unscored, "unscored")]
    return ", ".join([headline.scope, *(f"{count:,} {what}" for count, what in left if count)])


def _drawing(headline: Headline) -> Markup:
    """The value with its interval on the scale of the number; a mark where chance or even-handedness lies."""
    result = headline.result
    best_is_zero = headline.better == "zero"
    chart = gauge(
        f"{headline.shown_title}: {headline.model_name} {value_text(result, _DIGITS)}",
        result.value,
        (result.low, result.high),
        axis=_axis(headline),
        reference=0.0 if best_is_zero else headline.about.chance,
    )
    return chart.svg()


def _axis(headline: Headline) -> tuple[float, float]:
    """What the number can be; of a metric without bounds, what it and its interval are."""
    metric = headline.about
    if metric.range is not None:
        return metric.range
    result = headline.result
    ends = metric.bounds or (0.0, 1.0)
    values = [value for value in (result.value, result.low, result.high, *ends) if value is not None]
    low, high = min(values), max(values)
    return (low, high) if low < high else (low, low + 1.0)


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
        marks.append(ReferenceLine(reference))
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


def _differences(store: Store, found: Sequence[Headline]) -> list[Block]:
    pairs = differences_to_first_model(store, found)
    if not pairs:
        return []
    heads = ("difference", "interval", "p", "p (FDR)", "n")
    head = [Cell("number", kind="text"), Cell("model", kind="text"), Cell("against", kind="text"), *map(Cell, heads)]
    caption = (
        "Models side by side on what both were asked; interval and two-sided p from the same paired t-test, FDR: "
        f"adjusted for {len(pairs)} rows (false discovery rate, Benjamini and Hochberg). n: what was scored, of the "
        "model with fewer. An interval that includes 0 shows no difference."
    )
    notes = dict.fromkeys(pair.new.comparison_note for pair in pairs if pair.new.comparison_note)
    caption = " ".join([caption, *notes])
    return [Table(caption, [head], [Body([TableRow(_difference(pair)) for pair in pairs])])]


def _difference(pair: ModelDifference) -> list[Cell]:
    row = pair.row
    texts = (
        f"{row.difference:+z.3f}",
        difference_interval(row, "+", _DIGITS),
        p_text(row.p),
        p_text(row.p_adjusted),
        f"{row.n:,}",
    )
    models = (Cell(pair.new.model_name, kind="text"), Cell(pair.base.model_name, kind="text"))
    return [name(pair.title), *models, *map(Cell, texts)]


def _unfinished(found: Sequence[Headline]) -> list[Block]:
    told = [f"{text} ({headline.model_name})" for headline in found for text in headline.unfinished]
    return [Note(f"Not complete, so these numbers rest on a part of the examples: {'; '.join(told)}.")] if told else []

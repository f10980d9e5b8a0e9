"""The headline numbers of a card or a report, with their meaning and their limits: as tiles, or as a table.

On a card, the tiles are at the top of the page, one per research question. On other pages, each is at the beginning of
its section, one per headline metric. Formats without tiles show the same content as a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from lmassay.contracts import Evaluation
from lmassay.plugins.evaluations import evaluations, metric_of
from lmassay.reporting.blocks import (
    Block,
    Body,
    Cell,
    Note,
    ReferenceList,
    Table,
    TableRow,
    Tile,
    TileEntry,
    header_row,
    name,
    text_cell,
)
from lmassay.reporting.chart import Category, CategoryAxis, Chart, Dot, Interval, LinearAxis, Mark, Panel, ReferenceLine
from lmassay.reporting.comparison_data import DIRECTION_TEXTS, adjustment_text
from lmassay.reporting.comparison_data import interval_text as difference_interval
from lmassay.reporting.headline import (
    Headline,
    Reasons,
    ReferenceRow,
    ReferenceTable,
    differences_to_first_model,
    evaluations_without_result,
    headlines,
    inapplicable_evaluations,
    model_order,
    one_per_metric,
    with_missing_models,
)
from lmassay.reporting.numbers import interval_text, p_text, value_text
from lmassay.statistics.comparability import marks
from lmassay.storage.store import Store
from lmassay.types import Better, RunRecord
from lmassay.types.wording import NO_MODEL, model_name

_DIGITS = 3


def overview_tiles(
    store: Store, records: Sequence[RunRecord], *, names_unfinished: bool
) -> tuple[list[Tile], list[Block]]:
    """Return the overview for the page: the tiles, and the blocks below them, such as differences between models.

    ``names_unfinished`` adds a note that names the incomplete runs.
    """
    shown_headlines = headlines(store, records)
    inapplicable = inapplicable_evaluations(records)
    failed = evaluations_without_result(records, shown_headlines)
    # On every tile, models are in the same order, with or without a result.
    order = model_order(records)
    tiles: list[Tile] = []
    for evaluation in evaluations():
        tiles += _tiles(evaluation, shown_headlines, inapplicable, failed, order)
    below = _blocks_below(store, records, shown_headlines)
    if names_unfinished:
        below += _unfinished_note(shown_headlines)
    return tiles, below


def overview_table(store: Store, records: Sequence[RunRecord]) -> list[Block]:
    """Return the overview for formats without tiles: the same content as a table."""
    shown_headlines = headlines(store, records)
    questions = {evaluation.name: evaluation.question for evaluation in evaluations()}
    rows_with_number: dict[str, list[tuple[str, TableRow]]] = {}
    rows_without_number: dict[str, list[tuple[str, TableRow]]] = {}
    for headline in shown_headlines:
        cells = [
            name(headline.question, headline.shown_title),
            text_cell(headline.shown_model),
            Cell(value_text(headline.result, _DIGITS)),
            Cell(interval_text(headline.result, _DIGITS)),
            text_cell(_scope(headline), *headline.details),
        ]
        rows_with_number.setdefault(headline.evaluation.name, []).append((headline.model, TableRow(cells)))
    failed = evaluations_without_result(records, shown_headlines)
    for state, reasons_by_model in (("not applicable", inapplicable_evaluations(records)), ("no result", failed)):
        for model, reasons in reasons_by_model.items():
            for evaluation, reason in reasons.items():
                question = questions.get(evaluation, evaluation)
                cells = [name(question), text_cell(model_name(model)), Cell(state), Cell(""), text_cell(reason)]
                rows_without_number.setdefault(evaluation, []).append((model, TableRow(cells)))
    order = model_order(records)
    rows: list[TableRow] = []
    # The rows of an evaluation stay together, whether they have a number or not. Rows of an evaluation whose package is
    # no longer installed come last.
    for evaluation in dict.fromkeys([*questions, *rows_without_number]):
        with_number = rows_with_number.get(evaluation, [])
        without_number = rows_without_number.get(evaluation, [])
        rows += [row for _, row in with_missing_models(with_number, without_number, order)]
    if not rows:
        return []
    header = [*header_row(["question", "model"], ["value", interval_header(shown_headlines)]), text_cell("based on")]
    blocks: list[Block] = [Table("", [header], [Body(rows)])]
    for headline in one_per_metric(shown_headlines):
        text = f"{headline.shown_title}: {headline.explanation}"
        if _is_on_card(headline) and headline.distinguishable_text:
            text += f" {headline.distinguishable_text}"
        blocks.append(Note(text))
    blocks += _reference_tables(shown_headlines)
    blocks += _blocks_below(store, records, shown_headlines)
    blocks += _unfinished_note(shown_headlines)
    return blocks


def _reference_tables(shown_headlines: Sequence[Headline]) -> list[Block]:
    """Return a table for each list of reference numbers."""
    blocks: list[Block] = []
    for first in one_per_metric(shown_headlines):
        same_metric = []
        for headline in shown_headlines:
            if (headline.evaluation.name, headline.metric) == (first.evaluation.name, first.metric):
                same_metric.append(headline)
        for references in reference_lists(same_metric):
            rows = [TableRow([name(label), Cell(value)]) for label, value, _ in references.rows]
            caption = f"Compare: {references.title}."
            if references.sources:
                caption += f" Sources: {references.sources}."
            blocks.append(Table(caption, [header_row([""], ["value"])], [Body(rows)]))
    return blocks


def interval_header(shown_headlines: Sequence[Headline]) -> str:
    """Return the header of a column of intervals, with the confidence level if it is the same for all runs."""
    levels: set[float] = set()
    for headline in shown_headlines:
        levels.update(record.settings.confidence for record in headline.records)
    if len(levels) == 1:
        return f"{100 * levels.pop():g} % interval"
    return "interval"


def anchor(task: str) -> str:
    """Return the HTML id of a task's section on the page, which tiles link to."""
    return "evaluation-" + re.sub(r"\W+", "-", task)


def _tiles(
    evaluation: Evaluation,
    shown_headlines: Sequence[Headline],
    inapplicable: Reasons,
    failed: Reasons,
    order: Sequence[str],
) -> list[Tile]:
    """Return a tile for each headline metric of an evaluation; most evaluations have only one.

    ``inapplicable`` and ``failed`` are the reasons why models have no number; ``order`` is the order of the models.
    """
    headlines_of_evaluation = [headline for headline in shown_headlines if headline.evaluation.name == evaluation.name]
    # Models without a number get an entry that says why: the evaluation does not apply to them, or their runs failed.
    inapplicable_entries = _entries_with_reason(evaluation, "n/a", inapplicable)
    failed_entries = _entries_with_reason(evaluation, "no result", failed)
    entries_without_number = inapplicable_entries + failed_entries
    entries_without_number.sort(key=lambda model_entry: order.index(model_entry[0]))
    if not headlines_of_evaluation:
        if not entries_without_number:
            # The evaluation was not part of these runs at all.
            return []
        title = "no result" if failed_entries else "not applicable"
        reasons_only = [entry for _, entry in entries_without_number]
        return [Tile(evaluation.question, title, reasons_only, meaning="", limits="", anchor="")]
    is_card = all(_is_on_card(headline) for headline in headlines_of_evaluation)
    tiles: list[Tile] = []
    for first in one_per_metric(headlines_of_evaluation):
        same_metric = [headline for headline in headlines_of_evaluation if headline.metric == first.metric]
        is_only = len(same_metric) == 1 and not entries_without_number
        model_entries = [(headline.model, _entry(headline, is_only=is_only)) for headline in same_metric]
        # On a card, the tiles of further metrics are shown inside the first tile, which already lists these models.
        if not tiles or not is_card:
            model_entries += entries_without_number
        model_entries.sort(key=lambda model_entry: order.index(model_entry[0]))
        distinguishable = ""
        if is_card:
            distinguishable = first.distinguishable_text
        tile = Tile(
            question=first.question,
            title=f"{first.shown_title}; {DIRECTION_TEXTS[first.better]}",
            entries=[entry for _, entry in model_entries],
            meaning=first.shown_meaning,
            limits=first.limits,
            anchor=anchor(first.records[0].task),
            references=reference_lists(same_metric),
            distinguishable=distinguishable,
        )
        tiles.append(tile)
    if len(tiles) > 1 and is_card:
        # A card has one tile for each question, however many numbers answer it.
        return [replace(tiles[0], further=tiles[1:])]
    return tiles


def _is_on_card(headline: Headline) -> bool:
    return all(record.provenance.card is not None for record in headline.records)


def _entries_with_reason(evaluation: Evaluation, state: str, reasons: Reasons) -> list[tuple[str, TileEntry]]:
    """Return the models that have no number in this evaluation, each with an entry that says why."""
    entries = []
    for model, reason_by_evaluation in reasons.items():
        if evaluation.name in reason_by_evaluation:
            reason = reason_by_evaluation[evaluation.name]
            entries.append((model, TileEntry(model_name(model), state, reason=reason)))
    return entries


def reference_lists(shown_headlines: Sequence[Headline]) -> list[ReferenceList]:
    """Rank these models among the reference numbers, best first. All headlines must have the same metric."""
    tables: dict[str, list[tuple[Headline, ReferenceTable]]] = {}
    for headline in shown_headlines:
        for table in headline.references:
            tables.setdefault(table.title, []).append((headline, table))
    lists: list[ReferenceList] = []
    for title, members in tables.items():
        rows: list[tuple[float, str, bool]] = []
        for headline, table in members:
            own_result = table.own or headline.result
            if own_result.value is not None:
                rows.append((own_result.value, headline.shown_model, True))
        first_headline, first_table = members[0]
        better = first_headline.better
        if first_table.own is not None:
            # The table lists another metric than the headline's.
            better = metric_of(first_headline.records[0], first_table.own.metric).better
        # The tables of all models contain the same published rows; each is shown once.
        published: dict[str, ReferenceRow] = {}
        for _, table in members:
            for row in table.rows:
                published[row.label] = row
        labels_by_source: dict[str, list[str]] = {}
        for row in published.values():
            rows.append((row.value, row.label, False))
            if not row.source:
                continue
            source = row.source
            if row.n is not None:
                source += f", n = {row.n:,}"
            labels_by_source.setdefault(source, []).append(row.label)
        rows.sort(key=lambda row: _rank(row[0], better))
        notes = []
        for source, labels in labels_by_source.items():
            notes.append(f"{', '.join(labels)}: {source}")
        shown_rows = [(label, f"{value:.2f}", is_own) for value, label, is_own in rows]
        lists.append(ReferenceList(title, shown_rows, "; ".join(notes)))
    return _with_sources_once(lists)


def _with_sources_once(lists: Sequence[ReferenceList]) -> list[ReferenceList]:
    """Keep the sources only on the last of several consecutive lists that have the same sources."""
    with_sources_once: list[ReferenceList] = []
    for index, references in enumerate(lists):
        following = lists[index + 1].sources if index + 1 < len(lists) else ""
        if references.sources == following:
            references = replace(references, sources="")
        with_sources_once.append(references)
    return with_sources_once


def _rank(value: float, better: Better) -> float:
    """Return a sort key that is smaller for better values."""
    if better == "zero":
        return abs(value)
    return -value if better == "higher" else value


def _entry(headline: Headline, *, is_only: bool) -> TileEntry:
    """Return the entry of a model on a tile. Runs without a model have an unnamed entry if it is the only one."""
    is_nameless = is_only and headline.shown_model == model_name(NO_MODEL)
    return TileEntry(
        "" if is_nameless else headline.shown_model,
        value=value_text(headline.result, _DIGITS),
        interval=interval_text(headline.result, _DIGITS),
        scope=_scope(headline),
        details=headline.details,
        drawing=_drawing(headline),
    )


def _scope(headline: Headline) -> str:
    """Return what the number was computed from, and how many examples were left out."""
    parts = [headline.scope]
    if headline.result.n_error:
        parts.append(f"{headline.result.n_error:,} with errors")
    if headline.result.n_unscored:
        parts.append(f"{headline.result.n_unscored:,} unscored")
    return ", ".join(parts)


# --- the small chart of a tile ----------------------------------------------------------------------------------------


def _drawing(headline: Headline) -> Markup:
    """Draw the value with its interval on the metric's range; a dotted line marks chance, or zero if it is best."""
    result = headline.result
    reference = 0.0 if headline.better == "zero" else headline.declared_metric.chance
    chart = gauge(
        f"{headline.shown_title}: {headline.shown_model} {value_text(result, _DIGITS)}",
        result.value,
        (result.low, result.high),
        axis=_axis_range(headline),
        reference=reference,
    )
    return chart.svg()


def _axis_range(headline: Headline) -> tuple[float, float]:
    """Return the low and the high end of the axis: the bounds that the metric declares, if it has two.

    Otherwise, the axis covers the value, the interval, and 0 to 1 (or the only bound).
    """
    metric = headline.declared_metric
    if metric.range is not None:
        return metric.range
    result = headline.result
    # A bound is None if the metric has no limit on that side.
    candidates = [result.value, result.low, result.high, *(metric.bounds or (0.0, 1.0))]
    values = [value for value in candidates if value is not None]
    low = min(values)
    high = max(values)
    if low == high:
        return low, low + 1.0
    return low, high


def gauge(
    description: str,
    value: float | None,
    interval: tuple[float | None, float | None],
    *,
    axis: tuple[float, float] = (0.0, 1.0),
    reference: float | None = None,
) -> Chart:
    """Return a small chart of a value with its interval, and a dotted line at ``reference``, such as chance.

    The lines in this example are the axis, three ticks, the interval and the reference:

    >>> gauge("accuracy 0.75", 0.75, (0.6, 0.85), reference=0.5).svg().count("<line")
    6
    """
    chart_marks: list[Mark] = []
    if reference is not None:
        chart_marks.append(ReferenceLine(reference))
    low, high = interval
    if low is not None and high is not None:
        chart_marks.append(Interval(low, high, 0, style="whisker"))
    if value is not None:
        chart_marks.append(Dot(value, 0, style="value", radius=4.5))
    start, end = axis
    # Three ticks, at both ends and in the middle, are enough for a chart of this size.
    x_axis = LinearAxis(low=start, high=end, ticks=(start, (start + end) / 2, end), grid=False)
    # One row without a label.
    row = CategoryAxis([Category("")], lane=18)
    return Chart(description, [Panel(y=row, x=x_axis, marks=chart_marks)], width=250)


# --- below the tiles --------------------------------------------------------------------------------------------------


def _blocks_below(store: Store, records: Sequence[RunRecord], shown_headlines: Sequence[Headline]) -> list[Block]:
    return [
        *_mark_notes(records, shown_headlines),
        *_distinguishable_note(shown_headlines),
        *_difference_table(store, shown_headlines),
    ]


DISTINGUISHABLE_NOTE = (
    "How far two models must differ to be distinguished: a two-sided test at the confidence level of the intervals "
    "detects such a difference with 80 % power. This assumes that the second model's interval is as wide and that the "
    "answers of the two models are independent. Models that agree on many examples can be distinguished at a smaller "
    "difference."
)


def _distinguishable_note(shown_headlines: Sequence[Headline]) -> list[Block]:
    if any(_is_on_card(headline) and headline.distinguishable_text for headline in shown_headlines):
        return [Note(DISTINGUISHABLE_NOTE)]
    return []


def _mark_notes(records: Sequence[RunRecord], shown_headlines: Sequence[Headline]) -> list[Block]:
    """Return notes with the meaning of those marks, such as [a], that appear in the overview."""
    run_marks = marks(records)
    used_marks: set[str] = set()
    for headline in shown_headlines:
        for record in headline.records:
            if record.id in run_marks.of_run:
                used_marks.add(run_marks.of_run[record.id])
    notes: list[Block] = []
    for note, marks_of_note in run_marks.notes.items():
        if not used_marks.isdisjoint(marks_of_note):
            notes.append(Note(note))
    return notes


def _difference_table(store: Store, shown_headlines: Sequence[Headline]) -> list[Block]:
    """Return a table that compares each further model with the first one."""
    differences = differences_to_first_model(store, shown_headlines)
    if not differences:
        return []
    adjustment = adjustment_text(difference.comparison for difference in differences)
    rows = []
    notes: dict[str, None] = {}
    for difference in differences:
        row = difference.comparison
        cells = [
            name(difference.title),
            text_cell(difference.new.shown_model),
            text_cell(difference.base.shown_model),
            Cell(f"{row.difference:+z.3f}"),
            Cell(difference_interval(row, "+", _DIGITS)),
            Cell(p_text(row.p)),
            Cell(f"{row.n:,}"),
        ]
        if adjustment:
            # Before n, as in the header.
            cells.insert(-1, Cell(p_text(row.p_adjusted)))
        rows.append(TableRow(cells))
        for headline in (difference.base, difference.new):
            if headline.comparison_note:
                notes[headline.comparison_note] = None
    number_headers = ["difference", "interval", "p", "n"]
    adjustment_sentence = ""
    if adjustment:
        number_headers.insert(-1, "p (FDR)")
        adjustment_sentence = f" FDR: {adjustment}."
    header = header_row(["metric", "model", "compared with"], number_headers)
    caption = (
        "Models are compared on the examples with a score for both; interval and two-sided p come from a paired t-test."
        f"{adjustment_sentence} n: number of pairs. If the interval includes 0, the difference is not significant."
    )
    return [Table(" ".join([caption, *notes]), [header], [Body(rows)])]


def _unfinished_note(shown_headlines: Sequence[Headline]) -> list[Block]:
    """Return a note that names the incomplete runs; nothing if all are complete."""
    messages = []
    for headline in shown_headlines:
        messages += [f"{message} ({headline.shown_model})" for message in headline.unfinished_messages]
    if not messages:
        return []
    listed = "; ".join(messages)
    return [Note(f"Some runs are incomplete, and their numbers cover only a part of the examples: {listed}.")]

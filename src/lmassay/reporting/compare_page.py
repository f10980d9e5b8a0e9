"""One self-contained page of runs compared with base runs: the differences, and the examples whose scores changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

import lmassay
from lmassay.reporting.blocks import (
    Block,
    Body,
    Cell,
    Figure,
    Figures,
    Folded,
    Note,
    Table,
    TableRow,
    count,
    header_row,
    name,
    text_cell,
)
from lmassay.reporting.browser import BrowserRow, browser
from lmassay.reporting.changed_examples import (
    ChangedExamples,
    changed_group_rows,
    choose_changes,
    read_changed_examples,
)
from lmassay.reporting.chart import Category, CategoryAxis, Chart, Dot, Group, Interval, LinearAxis, Mark, Panel
from lmassay.reporting.comparison_data import DIRECTION_TEXTS, ComparedRun, RunComparison, interval_text
from lmassay.reporting.comparison_tables import ranking_table
from lmassay.reporting.example_choice import MAX_ROWS
from lmassay.reporting.html_document import document, environment
from lmassay.reporting.numbers import number_text, p_statement, p_text, score_text
from lmassay.reporting.units import shared_unit
from lmassay.statistics.comparison import Comparison
from lmassay.statistics.flips import Change
from lmassay.statistics.gate import GateVerdict, unpaired_text
from lmassay.storage.provenance import rerun_command
from lmassay.types import RunRecord
from lmassay.types.wording import counted, enumerated

_MAX_LISTED_CHANGES = 10
_CHANGED_ANCHOR = "examples-that-changed"
# Longer answers are cut in the list of changes; the example browser shows them in full.
_MAX_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class _PageSection:
    """A section of the page; if it ``folds``, it is closed until readers open it."""

    heading: str
    blocks: Sequence[Block]
    folds: bool = False

    @property
    def anchor(self) -> str:
        return self.heading.lower().replace(" ", "-")


def render(comparison: RunComparison) -> str:
    """Render the page as an HTML document."""
    new_titles = enumerated([run.title for run in comparison.others])
    base_titles = enumerated([run.title for run in comparison.bases])
    summary = f"{new_titles} against {base_titles}"
    # Read only once, because both the list of changes and the example browser show these rows.
    changed = []
    for base, new in comparison.pairs:
        changed.append(_read_changed(comparison, base, new))
    sections = []
    if comparison.verdict:
        sections.append(_PageSection("Verdict", _verdict_blocks(comparison.verdict, comparison)))
    sections.append(_PageSection("What is compared", _run_blocks(comparison)))
    sections.append(_PageSection("Differences", _difference_blocks(comparison)))
    sections.append(_PageSection("Changed scores", _flip_blocks(comparison, changed), folds=True))
    reproduced: list[tuple[RunRecord, str]] = []
    for run in (*comparison.bases, *comparison.others):
        record = run.side.record
        reproduced.append((record, rerun_command(record, run.store.folder)))
    unit = shared_unit(run.side.record for run in (*comparison.bases, *comparison.others))
    heading = f"{unit.capitalize()}s that changed"
    examples = browser(
        _changed_rows(comparison, changed),
        unit=unit,
        heading=heading,
        anchor=_CHANGED_ANCHOR,
        total=_count_changed(comparison),
    )
    links = [(section.anchor, section.heading) for section in sections]
    if examples:
        links.append((_CHANGED_ANCHOR, heading))
    links.append(("provenance", "Provenance"))
    body = (
        environment()
        .get_template("compare.html")
        .render(
            summary=summary,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            version=lmassay.__version__,
            links=links,
            sections=sections,
            browser=examples,
            reproduced=reproduced,
        )
    )
    title = f"lmassay compare: {summary}"
    return document(title, Markup(body), sections=True, browser=bool(examples))  # noqa: S704 - the template escaped it


def _read_changed(comparison: RunComparison, base: ComparedRun, new: ComparedRun) -> ChangedExamples:
    """Read the rows of all examples that the page shows as changed between two runs."""
    paired_by_example = [flips for flips in comparison.flips_of(new) if flips.paired_by == "example"]
    # The list of flips shows the first changes, the example browser as many as it can.
    listed: list[Change] = []
    for flips in paired_by_example:
        listed += flips.first(_MAX_LISTED_CHANGES)
    return read_changed_examples(base, new, [*listed, *choose_changes(paired_by_example, MAX_ROWS)])


def _count_changed(comparison: RunComparison) -> int | None:
    """Return how many examples changed; None if runs are paired by something other than examples."""
    total = 0
    for run in comparison.others:
        changed_ids: set[str] = set()
        for flips in comparison.flips_of(run):
            if flips.paired_by != "example":
                return None
            changed_ids.update(flips.changes.ids)
        total += len(changed_ids)
    return total


def _changed_rows(comparison: RunComparison, changed: Sequence[ChangedExamples]) -> Iterator[BrowserRow]:
    for (base, new), changed_examples in zip(comparison.pairs, changed, strict=True):
        all_flips = comparison.flips_of(new)
        paired_by_group = [flips for flips in all_flips if flips.paired_by != "example"]
        if paired_by_group:
            yield from changed_group_rows(base, new, paired_by_group)
        else:
            yield from changed_examples.merged(all_flips)


# --- sections ---------------------------------------------------------------------------------------------------------


def _verdict_blocks(verdict: GateVerdict, comparison: RunComparison) -> list[Block]:
    """Return the verdict of the gate, how it was reached, and the verdict on each condition."""
    blocks: list[Block] = [Note(f"The gate says: {verdict.state}.")]
    if verdict.refused:
        blocks.append(Note(f"It cannot judge: {verdict.refused}."))
    # These sentences are written for the terminal, where they begin with a small letter.
    for text in verdict.how():
        blocks.append(Note(f"{text[0].upper()}{text[1:]}."))
    rows = []
    for check in verdict.checks:
        run_title = [comparison.title(check.row.new)] if len(comparison.others) > 1 else []
        rows.append(
            TableRow(
                [
                    text_cell(check.condition.reading),
                    name(str(check.condition), *run_title),
                    text_cell(check.state),
                    text_cell(check.why),
                ]
            )
        )
    header = header_row(["option", "condition", "verdict", "why"])
    blocks.append(Table("", [header], [Body(rows)]))
    return blocks


def _run_blocks(comparison: RunComparison) -> list[Block]:
    """Return a table of the compared runs, and the warnings about the comparison."""
    runs = [("base", run) for run in comparison.bases]
    runs += [("new", run) for run in comparison.others]
    rows = []
    for role, run in runs:
        record = run.side.record
        counts = run.store.count(record.id)
        rows.append(
            TableRow(
                [
                    name(run.title, record.id),
                    text_cell(role),
                    text_cell(record.task, record.label),
                    text_cell(record.model_cell),
                    text_cell(record.status, record.note),
                    count(counts["scored"]),
                    count(counts["unscored"]),
                    count(counts["error"]),
                ]
            )
        )
    header = header_row(["run", "role", "task", "model", "status"], ["scored", "unscored", "errors"])
    blocks: list[Block] = [Table("", [header], [Body(rows)])]
    if comparison.part:
        blocks.append(Note(f"Only examples with {comparison.part} are compared."))
    for caveat in comparison.caveats:
        blocks.append(Note(f"Note: {caveat}."))
    return blocks


def _difference_blocks(comparison: RunComparison) -> list[Block]:
    """Return the differences between the means of base and new runs, as a table and as figures."""
    has_several_runs = len(comparison.others) > 1
    adjustment = comparison.adjustment
    rows = []
    for row in comparison.rows:
        cells = [name(row.metric)]
        if row.better != "higher":
            # Readers expect that higher is better, so the direction is named only where it is not.
            cells = [name(row.metric, DIRECTION_TEXTS[row.better])]
        if has_several_runs:
            cells.append(text_cell(comparison.title(row.new)))
        cells.append(Cell(number_text(row.base_mean)))
        cells.append(Cell(number_text(row.new_mean)))
        cells.append(Cell(f"{row.difference:+z.4f}", [interval_text(row, "+")]))
        relative = "n/a"
        if row.relative is not None:
            relative = f"{row.relative:+z.1%}"
        cells.append(Cell(relative))
        cells.append(Cell(p_text(row.p)))
        if adjustment:
            cells.append(Cell(p_text(row.p_adjusted)))
        cells.append(Cell(f"{row.n:,}", _pair_notes(row)))
        rows.append(TableRow(cells))
    text_headers = ["metric"]
    number_headers = [
        "base mean",
        "new mean",
        f"difference, {100 * comparison.confidence:g} % interval",
        "relative",
        "p",
    ]
    unit = shared_unit(run.side.record for run in (*comparison.bases, *comparison.others))
    caption = (
        f"New minus base, on the {unit}s that both runs scored; {comparison.pairing}. Interval and two-sided p from "
        "the same paired t-test."
    )
    if has_several_runs:
        text_headers.append("run")
    if adjustment:
        number_headers.append("p (FDR)")
        caption += f" FDR: {adjustment}."
    number_headers.append("pairs")
    # A metric such as a perplexity would squeeze all others on a shared axis.
    figures = [_difference_figure(comparison, rows_of_figure) for rows_of_figure in on_one_scale(comparison.rows)]
    return [
        Table(caption, [header_row(text_headers, number_headers)], [Body(rows)]),
        Figures(figures, "middle"),
        *ranking_table(comparison.standings, comparison.title, comparison.alpha),
    ]


def _pair_notes(row: Comparison) -> list[str]:
    """Return the small print of a number of pairs: its clusters, and examples that only one of the runs scored."""
    notes = []
    # Without clusters, every pair is an independent unit, so both numbers are equal.
    if row.units != row.n:
        notes.append(counted(row.units, "cluster"))
    unpaired = unpaired_text(row)
    if unpaired:
        notes.append(unpaired)
    return notes


def _difference_figure(comparison: RunComparison, rows: Sequence[Comparison]) -> Figure:
    """Return a figure of differences that fit on one axis."""
    has_several_runs = len(comparison.others) > 1
    higher_run = "the new run" if has_several_runs else comparison.others[0].title
    chart_rows = []
    for row in rows:
        label = row.metric
        if has_several_runs:
            label = f"{row.metric} · {comparison.title(row.new)}"
        p = comparison.p(row)
        is_significant = p is not None and p < comparison.alpha
        chart_rows.append(DifferenceRow(label, row, is_significant))
    metrics = {row.metric for row in rows}
    subject = "metrics" if len(metrics) > 1 else rows[0].metric
    # Several p-values are adjusted for their number (false discovery rate).
    p_name = "p (FDR)" if comparison.adjustment else "p"
    caption = (
        f"Differences with their {100 * comparison.confidence:g} % intervals. Filled dots: {p_name} below "
        f"{comparison.alpha:g}; hollow dots: not. Right of the line, {higher_run} is higher."
    )
    chart = difference_chart(chart_rows, f"difference from {comparison.base_title}", f"Differences in {subject}")
    return Figure.of(chart, caption)


def _flip_blocks(comparison: RunComparison, changed: Sequence[ChangedExamples]) -> list[Block]:
    """Return how many scores of examples fell, rose or stayed the same, and the first changes."""
    if not comparison.flips:
        return [Note("The runs have no score that can be compared example by example.")]
    has_several_runs = len(comparison.others) > 1
    rows = []
    for flips in comparison.flips:
        unchanged_notes = []
        fallen_notes = []
        risen_notes = []
        if flips.is_rate:
            unchanged_notes.append(f"both 1: {flips.both_one:,}, both 0: {flips.both_zero:,}")
            fallen_notes.append("1 → 0")
            risen_notes.append("0 → 1")
        left_out_notes = []
        if flips.left_out.total:
            # "3 (2 with errors, 1 unscored)": the total is in the cell already.
            left_out_notes.append(flips.left_out.text().partition(" (")[2].rstrip(")"))
        scale = "0 or 1" if flips.is_rate else "graded"
        cells = [name(flips.metric, scale)]
        if has_several_runs:
            cells.append(text_cell(comparison.title(flips.new)))
        cells.append(count(flips.n))
        cells.append(Cell(f"{len(flips.fallen):,}", fallen_notes))
        cells.append(Cell(f"{len(flips.risen):,}", risen_notes))
        cells.append(Cell(f"{flips.n - len(flips.changes):,}", unchanged_notes))
        cells.append(Cell(f"{flips.left_out.total:,}", left_out_notes))
        rows.append(TableRow(cells))
    text_headers = ["score", "run"] if has_several_runs else ["score"]
    header = header_row(text_headers, ["compared", "fell", "rose", "unchanged", "left out"])
    units = shared_unit(run.side.record for run in (*comparison.bases, *comparison.others)) + "s"
    caption = (
        f"Fell and rose: {units} with a lower or a higher score in the new run. Left out: {units} with errors or "
        "without a score in either run; they never count as changed."
    )
    return [Table(caption, [header], [Body(rows)]), *_listed_changes(comparison, changed)]


def _listed_changes(comparison: RunComparison, changed: Sequence[ChangedExamples]) -> list[Block]:
    """Return the first changes of each score as tables, which can be read in print and without JavaScript."""
    blocks: list[Block] = []
    for run, changed_examples in zip(comparison.others, changed, strict=True):
        answers = changed_examples.answers()
        for flips in comparison.flips_of(run):
            listed = flips.first(_MAX_LISTED_CHANGES)
            if not listed:
                continue
            summary = f"{flips.metric}: "
            if len(comparison.others) > 1:
                summary = f"{flips.metric}, {run.title}: "
            if len(listed) < len(flips.changes):
                which = "first" if flips.is_rate else "largest"
                summary += f"the {which} {len(listed)} of "
            summary += f"{len(flips.changes):,} that changed"
            blocks.append(Folded(summary, [_changes_table(listed, answers)]))
    return blocks


def _changes_table(changes: Sequence[Change], answers: Mapping[str, tuple[str, str]]) -> Table:
    rows = []
    for change in changes:
        base_answer, new_answer = answers.get(change.id, ("", ""))
        cells = [
            name(change.id),
            Cell(score_text(change.before)),
            Cell(score_text(change.after)),
            text_cell(_clipped(base_answer)),
            text_cell(_clipped(new_answer)),
        ]
        rows.append(TableRow(cells))
    header = [text_cell("id"), Cell("score, base"), Cell("score, new"), text_cell("text, base"), text_cell("text, new")]
    return Table("", [header], [Body(rows)])


def _clipped(text: str) -> str:
    if len(text) <= _MAX_CHARACTERS:
        return text
    return f"{text[: _MAX_CHARACTERS - 1]}…"


# --- the figure: each difference as a dot with its interval, on an axis that contains zero ----------------------------


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A difference with its label. It is drawn as a full dot if it is significant, otherwise as a hollow dot."""

    label: str
    comparison: Comparison
    is_significant: bool


def on_one_scale(rows: Sequence[Comparison]) -> list[list[Comparison]]:
    """Distribute rows over figures: metrics between -1 and 1 share one figure, each other metric has its own."""
    large_metrics: set[str] = set()
    for row in rows:
        if max(abs(row.base_mean), abs(row.new_mean)) > 1:
            large_metrics.add(row.metric)
    figures: dict[str, list[Comparison]] = {}
    for row in rows:
        figure = row.metric if row.metric in large_metrics else ""
        figures.setdefault(figure, []).append(row)
    return list(figures.values())


def difference_chart(rows: Sequence[DifferenceRow], x_title: str, description: str) -> Chart:
    """Return a chart with one row per difference, on an axis that contains zero and all intervals."""
    values = [0.0]
    marks: list[Mark] = []
    for position, row in enumerate(rows):
        marks.append(_difference_mark(row, position))
        comparison = row.comparison
        for value in (comparison.difference, comparison.low, comparison.high):
            if value is not None:
                values.append(value)
    axis = LinearAxis.around(x_title, values, signed=True)
    categories = CategoryAxis([Category(row.label) for row in rows])
    return Chart(description, [Panel(y=categories, x=axis, marks=marks)], width=380)


def _difference_mark(row: DifferenceRow, position: int) -> Group:
    """Return the dot and the interval of a difference, with their tooltip."""
    comparison = row.comparison
    title = f"{row.label}: {comparison.difference:+z.4f}"
    marks: list[Mark] = []
    if comparison.low is not None and comparison.high is not None:
        title += f" [{comparison.low:+z.4f}, {comparison.high:+z.4f}]"
        marks.append(Interval(comparison.low, comparison.high, position))
    title += f", {p_statement(comparison.p)}, n = {comparison.n}"
    # Full and hollow dots, unlike colours, can also be distinguished in black-and-white print.
    style = "full" if row.is_significant else "hollow"
    marks.append(Dot(comparison.difference, position, style=style, radius=4.5))
    return Group(marks, series=0, title=title)

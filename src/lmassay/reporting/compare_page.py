"""One self-contained page of runs against a base run: differences, flips, and the examples behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

import lmassay
from lmassay.reporting.blocks import Block, Body, Cell, Figure, Figures, Folded, Note, Table, TableRow, count, name
from lmassay.reporting.browser import BrowserRow, browser
from lmassay.reporting.changed_examples import ChangedExamples, changed_group_rows, read_changed_examples
from lmassay.reporting.chart import Category, CategoryAxis, Chart, Dot, Group, Interval, LinearAxis, Mark, Panel
from lmassay.reporting.comparison_data import DIRECTION_TEXTS, ComparedRun, RunComparison, interval_text
from lmassay.reporting.comparison_tables import ranking_table
from lmassay.reporting.html_document import document, environment
from lmassay.reporting.numbers import number_text, p_text
from lmassay.statistics.comparison import Comparison
from lmassay.statistics.flips import Change, Flips
from lmassay.statistics.gate import Verdict, unpaired_text
from lmassay.storage.provenance import rerun_command

_MOST_LISTED = 10
_MOST_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class _Section:
    heading: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        return self.heading.lower().replace(" ", "-")


def render(found: RunComparison) -> str:
    """The page as text."""
    names = ", ".join(source.title for source in found.others)
    told = f"{names} against {', '.join(source.title for source in found.bases)}"
    both = [_read(found, base, source) for base, source in found.pairs]
    sections = [
        *([_Section("Verdict", _verdict(found.verdict, found))] if found.verdict else []),
        _Section("What is compared", _runs(found)),
        _Section("Differences", _differences(found)),
        _Section("Flips", _flips(found, both)),
    ]
    changed = (row for pair, read in zip(found.pairs, both, strict=True) for row in _changed(found, *pair, read))
    reproduced = [
        (source.side.record, rerun_command(source.side.record.id, source.store.folder))
        for source in (*found.bases, *found.others)
    ]
    body = (
        environment()
        .get_template("compare.html")
        .render(
            told=told,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            version=lmassay.__version__,
            sections=sections,
            browser=browser(changed, heading="Examples that changed"),
            reproduced=reproduced,
        )
    )
    return document(f"lmassay compare: {told}", Markup(body), browser=True)  # noqa: S704 - the template escaped it


def _read(found: RunComparison, base: ComparedRun, source: ComparedRun) -> ChangedExamples:
    listed = (change for flips in found.flips_of(source) if flips.paired_by == "example" for change in flips.changes)
    return read_changed_examples(base, source, listed)


def _changed(found: RunComparison, base: ComparedRun, source: ComparedRun, read: ChangedExamples) -> list[BrowserRow]:
    flips = found.flips_of(source)
    by_pair = [one for one in flips if one.paired_by != "example"]
    return changed_group_rows(base, source, by_pair) if by_pair else read.merged(flips)


# --- sections ---------------------------------------------------------------------------------------------------------


def _verdict(verdict: Verdict, found: RunComparison) -> list[Block]:
    lines = [
        TableRow(
            [
                Cell(check.condition.reading, kind="text"),
                name(str(check.condition), *([found.title(check.row.new)] if len(found.others) > 1 else [])),
                Cell(check.state, kind="text"),
                Cell(check.why, kind="text"),
            ]
        )
        for check in verdict.checks
    ]
    head = [Cell(title, kind="text") for title in ("option", "condition", "verdict", "why")]
    notes = [Note(f"The gate says: {verdict.state}.")]
    if verdict.refused:
        notes.append(Note(f"It cannot judge: {verdict.refused}."))
    for text in verdict.how():
        notes.append(Note(f"{text[0].upper()}{text[1:]}."))
    return [*notes, Table("", [head], [Body(lines)])]


def _runs(found: RunComparison) -> list[Block]:
    lines = []
    for role, source in (*(("base", run) for run in found.bases), *(("new", run) for run in found.others)):
        record, counts = source.side.record, source.store.count(source.side.record.id)
        lines.append(
            TableRow(
                [
                    name(source.title, record.id),
                    Cell(role, kind="text"),
                    Cell(record.task, [record.label], kind="text"),
                    Cell(record.model, kind="text"),
                    Cell(record.status, [record.note] if record.note else [], kind="text"),
                    *(count(counts[state]) for state in ("scored", "unscored", "error")),
                ]
            )
        )
    texts, numbers = ("run", "role", "task", "model", "status"), ("scored", "unscored", "errors")
    head = [*(Cell(title, kind="text") for title in texts), *map(Cell, numbers)]
    part = [Note(f"Only examples with {found.part} are compared.")] if found.part else []
    return [Table("", [head], [Body(lines)]), *part, *(Note(f"Mind: {text}.") for text in found.caveats)]


def _differences(found: RunComparison) -> list[Block]:
    several, tests = len(found.others) > 1, len(found.rows) > 1
    lines = []
    for row in found.rows:
        cells = [
            name(row.metric, *_best(row)),
            *([Cell(found.title(row.new), kind="text")] if several else []),
            Cell(number_text(row.base_mean)),
            Cell(number_text(row.new_mean)),
            Cell(f"{row.difference:+z.4f}", [interval_text(row, "+")]),
            Cell("n/a" if row.relative is None else f"{row.relative:+z.1%}"),
            Cell(p_text(row.p)),
            *([Cell(p_text(row.p_adjusted))] if tests else []),
            Cell(f"{row.n:,}", _pair_notes(row)),
        ]
        lines.append(TableRow(cells))
    texts = ["metric", *(["run"] if several else [])]
    numbers = ["base mean", "new mean", f"difference, {100 * found.confidence:g} % interval", "relative", "p"]
    numbers += ["p (FDR)"] if tests else []
    head = [*(Cell(title, kind="text") for title in texts), *map(Cell, [*numbers, "pairs"])]
    rows = len(found.rows)
    adjusted = f" FDR: adjusted for {rows} rows (false discovery rate, Benjamini and Hochberg)." if tests else ""
    caption = (
        f"New less base, on the examples that both runs scored; {found.manner}. Interval and two-sided p from the same "
        f"paired t-test.{adjusted}"
    )
    return [
        Table(caption, [head], [Body(lines)]),
        Figures([_figure(found, part) for part in on_one_scale(found.rows)], "middle"),
        *ranking_table(found.standings, found.title, found.alpha),
    ]


def _pair_notes(row: Comparison) -> list[str]:
    notes = [f"{row.units:,} clusters"] if row.units != row.n else []
    unpaired = unpaired_text(row)
    return [*notes, unpaired] if unpaired else notes


def _best(row: Comparison) -> list[str]:
    """Said where a rise is not good news."""
    return [DIRECTION_TEXTS[row.better]] if row.better != "higher" else []


def _figure(found: RunComparison, rows: Sequence[Comparison]) -> Figure:
    several = len(found.others) > 1
    drawn = []
    for row in rows:
        p = found.p(row)
        label = f"{row.metric} · {found.title(row.new)}" if several else row.metric
        drawn.append(DifferenceRow(label, row, p is not None and p < found.alpha))
    what = "metrics" if len({row.metric for row in rows}) > 1 else rows[0].metric
    tests = " (FDR)" if len(found.rows) > 1 else ""
    caption = (
        f"Differences with their {100 * found.confidence:g} % intervals; full: p{tests} below {found.alpha:g}, hollow: "
        f"not. Right of the line, {found.others[0].title if not several else 'the new run'} is higher."
    )
    chart = difference_chart(drawn, f"difference to {found.base_title}", f"Differences in {what}")
    return Figure(chart.svg(), caption)


def _flips(found: RunComparison, both: Sequence[ChangedExamples]) -> list[Block]:
    if not found.flips:
        return [Note("No score of an example can be followed from one run to the other.")]
    several = len(found.others) > 1
    lines = []
    for flips in found.flips:
        same = [f"both 1: {flips.both_one:,}, both 0: {flips.both_zero:,}"] if flips.is_rate else []
        out = flips.left_out
        lines.append(
            TableRow(
                [
                    name(flips.metric, "0 or 1" if flips.is_rate else "graded"),
                    *([Cell(found.title(flips.new), kind="text")] if several else []),
                    count(flips.n),
                    Cell(f"{len(flips.fallen):,}", ["1 → 0"] if flips.is_rate else []),
                    Cell(f"{len(flips.risen):,}", ["0 → 1"] if flips.is_rate else []),
                    Cell(f"{flips.n - len(flips.changes):,}", same),
                    Cell(f"{out.total:,}", [out.told().partition(" (")[2].rstrip(")")] if out.total else []),
                ]
            )
        )
    texts = ["score", *(["run"] if several else [])]
    numbers = ("compared", "fell", "rose", "unchanged", "left out")
    head = [*(Cell(title, kind="text") for title in texts), *map(Cell, numbers)]
    caption = (
        "Examples whose score is another one in the new run. Those in error or without a score in either run are left "
        "out, never counted as flips."
    )
    return [Table(caption, [head], [Body(lines)]), *_listed(found, both)]


def _listed(found: RunComparison, both: Sequence[ChangedExamples]) -> list[Block]:
    """The first of each, to read without a script and in print."""
    blocks: list[Block] = []
    for source, read in zip(found.others, both, strict=True):
        listed = [(flips, flips.first(_MOST_LISTED)) for flips in found.flips_of(source)]
        texts = read.answers()
        for flips, changes in listed:
            if changes:
                blocks.append(Folded(_summary(flips, changes, source, found), [_changes(changes, texts)]))
    return blocks


def _summary(flips: Flips, changes: Sequence[Change], source: ComparedRun, found: RunComparison) -> str:
    which = "the first" if flips.is_rate else "the largest"
    run = f", {source.title}" if len(found.others) > 1 else ""
    few = f"{which} {len(changes)} of " if len(changes) < len(flips.changes) else ""
    return f"{flips.metric}{run}: {few}{len(flips.changes):,} that changed"


def _changes(changes: Sequence[Change], texts: dict[str, tuple[str, str]]) -> Table:
    lines = [
        TableRow(
            [
                name(change.id),
                Cell(f"{change.before:g}"),
                Cell(f"{change.after:g}"),
                *(Cell(_clipped(text), kind="text") for text in texts.get(change.id, ("", ""))),
            ]
        )
        for change in changes
    ]
    head = [Cell("id", kind="text"), Cell("base"), Cell("new")]
    head += [Cell(title, kind="text") for title in ("what the base run has", "what the new run has")]
    return Table("", [head], [Body(lines)])


def _clipped(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


# --- the figure: differences around the line where there is none ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A difference with its label; a significant one is drawn as a full dot, another one as a hollow dot."""

    label: str
    comparison: Comparison
    is_significant: bool


def on_one_scale(rows: Sequence[Comparison]) -> list[list[Comparison]]:
    """The rows in figures: all metrics that lie between -1 and 1 in one, others each in their own."""
    large_metrics = {row.metric for row in rows if max(abs(row.base_mean), abs(row.new_mean)) > 1}
    figures: dict[str, list[Comparison]] = {}
    for row in rows:
        figure = row.metric if row.metric in large_metrics else ""
        figures.setdefault(figure, []).append(row)
    return list(figures.values())


def difference_chart(rows: Sequence[DifferenceRow], x_title: str, description: str) -> Chart:
    """One row a difference; the axis holds all intervals and zero."""
    values = [0.0]
    marks: list[Mark] = []
    for number, row in enumerate(rows):
        marks.append(_marks(row, number))
        comparison = row.comparison
        for value in (comparison.difference, comparison.low, comparison.high):
            if value is not None:
                values.append(value)
    axis = LinearAxis.around(x_title, values, signed=True)
    categories = CategoryAxis([Category(row.label) for row in rows])
    return Chart(description, [Panel(y=categories, x=axis, marks=marks)], width=380)


def _marks(row: DifferenceRow, number: int) -> Group:
    comparison = row.comparison
    title = f"{row.label}: {comparison.difference:+z.4f}"
    marks: list[Mark] = []
    if comparison.low is not None and comparison.high is not None:
        title += f" [{comparison.low:+z.4f}, {comparison.high:+z.4f}]"
        marks.append(Interval(comparison.low, comparison.high, number))
    title += f", p {p_text(comparison.p)}, n {comparison.n}"
    style = "full" if row.is_significant else "hollow"
    marks.append(Dot(comparison.difference, number, style=style, radius=4.5))
    return Group(marks, series=0, title=title)

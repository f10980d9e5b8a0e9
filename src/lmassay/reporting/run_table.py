"""A table of results that the user configures: what its rows and columns are, and which metrics it has.

The best number is bold if its difference from each of the others is significant. Runs are compared on the examples that
they share, with p-values adjusted by Holm's method (see :mod:`lmassay.statistics.ranking`). If some numbers do not
differ significantly from the best, then these and the best are marked as tied instead. If all of them are tied, a note
takes the place of the marks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from lmassay.errors import UserError, did_you_mean
from lmassay.plugins.evaluations import metric_of
from lmassay.reporting.blocks import Body, Cell, Table, TableRow, header_row, name
from lmassay.reporting.formats.spreadsheet import csv_text
from lmassay.reporting.numbers import interval_text, value_text
from lmassay.reporting.table_axes import METRIC, MODEL, NOT_SET, Axis, axis_by, varying_keys
from lmassay.statistics import ALPHA
from lmassay.statistics.comparability import measured_differently
from lmassay.statistics.comparison import comparable
from lmassay.statistics.ranking import Mark, Standing, ranking_by
from lmassay.statistics.sides import Side, comparable_sides, load_side
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Result, RunRecord
from lmassay.types.metrics import is_detail
from lmassay.types.wording import enumerated

TIE_MARK = "†"
DEFAULT_DIGITS = 3
_COLUMNS = ("row", "column", "metric", "group", "run", "value", "low", "high", "n", "mark")
Place = tuple[str, tuple[str, ...]]
"""The row of a cell and the header of its column."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """What the user wants to see in the table.

    ``rows`` and ``columns`` are keys such as ``model``; several keys for rows are joined by commas. If a key or the
    metrics are empty, they are chosen by what the runs differ in. ``digits`` is the number of decimals, and ``alpha``
    the significance level of the tests behind the marks.
    """

    rows: str = ""
    columns: str = ""
    metrics: Sequence[str] = ()
    digits: int = DEFAULT_DIGITS
    with_intervals: bool = False
    with_n: bool = False
    caption: str = ""
    alpha: float = ALPHA


@dataclass(frozen=True, slots=True)
class _Entry:
    """A result with its place in the table."""

    row: str
    column: tuple[str, ...]
    record: RunRecord
    result: Result


@dataclass(frozen=True, slots=True)
class RunTable:
    """A table of results with the marks of the best ones."""

    layout: TableLayout
    row_key: str
    rows: Sequence[str]
    columns: Sequence[tuple[str, ...]]
    """The header of each column: its value, and the metric if there are several."""
    entries: Mapping[Place, _Entry]
    marks: Mapping[Place, Mark]
    """``best``: significantly better than all others. ``tie``: the best, or not significantly different from it."""
    notes: Sequence[str] = field(default_factory=list)
    all_tie: bool = False
    """Whether all numbers that were tested against each other are tied. Then a note says so instead of marks."""

    def text(self, row: str, column: tuple[str, ...], *, bold: str = "") -> str:
        """Return the text of a cell; ``bold`` is put around the best number, for output without bold letters."""
        entry = self.entries.get((row, column))
        if entry is None:
            return ""
        text = value_text(entry.result, self.layout.digits)
        mark = self.marks.get((row, column), "")
        if mark == "best":
            return f"{bold}{text}{bold}"
        return f"{text}{TIE_MARK}" if mark == "tie" and not self.all_tie else text

    def small(self, row: str, column: tuple[str, ...]) -> list[str]:
        """Return the small print of a cell: interval and n, if they are wanted."""
        entry = self.entries.get((row, column))
        lines: list[str] = []
        if entry is not None and entry.result.value is not None:
            if self.layout.with_intervals:
                lines.append(interval_text(entry.result, self.layout.digits))
            if self.layout.with_n:
                lines.append(f"n = {entry.result.n:,}")
        return lines

    @property
    def title(self) -> str:
        """The caption, without the notes."""
        return self.layout.caption or f"{enumerated(self.metrics)} by {self.row_key}"

    @property
    def metrics(self) -> list[str]:
        """The metrics in the table."""
        return list(dict.fromkeys(entry.result.metric for entry in self.entries.values()))

    def block(self) -> Table:
        """Return the table as a block of a report."""
        rows = []
        for row in self.rows:
            cells = [name(row)]
            for column in self.columns:
                is_best = self.marks.get((row, column)) == "best"
                cells.append(Cell(self.text(row, column), self.small(row, column), bold=is_best))
            rows.append(TableRow(cells))
        caption = " ".join([f"{self.title}.", *self.notes])
        return Table(caption, self._headers(), [Body(rows)])

    def _headers(self) -> list[list[Cell]]:
        """Return one header row, or two if there are several metrics under each value of the columns' key."""
        last_row = header_row([self.row_key], [column[-1] for column in self.columns])
        if all(len(column) == 1 for column in self.columns):
            return [last_row]
        width_of_value: dict[str, int] = {}
        for value, _ in self.columns:
            width_of_value[value] = width_of_value.get(value, 0) + 1
        first_row = [Cell("", kind="text")]
        for value, width in width_of_value.items():
            first_row.append(Cell(value, span=width))
        return [first_row, last_row]

    def csv(self) -> str:
        """Return one line per cell, with unrounded numbers."""
        rows = []
        for (row, column), entry in self.entries.items():
            result = entry.result
            numbers = [result.value, result.low, result.high, result.n]
            place = [row, column[0], result.metric, result.group, entry.record.id]
            rows.append([*place, *numbers, self.marks.get((row, column), "")])
        return csv_text(_COLUMNS, rows)


def run_table(store: Store, records: Sequence[RunRecord], layout: TableLayout) -> RunTable:
    """Return the table that a layout describes."""
    finished = [record for record in records if record.results]
    if not finished:
        raise UserError("none of the runs has results; see `lmassay ls`")
    rows, columns = _axes(finished, layout)
    metrics = _metrics(finished, layout, columns)
    entries = _entries(finished, metrics, rows, columns)
    row_texts = list(dict.fromkeys(entry.row for entry in entries.values()))
    column_texts = list(dict.fromkeys(entry.column for entry in entries.values()))
    competition = _competition(finished, rows, columns)
    marks, notes = _Marks(store, layout.alpha).of(entries, competition.of_entry)
    all_tie = _all_tie(entries, marks, competition.of_entry)
    test_text = f"paired tests of the runs {competition.text}, Holm-adjusted, level {layout.alpha:g}"
    notes += _notes_on_marks(marks, test_text, all_tie=all_tie)
    absent = [axis.key for axis in (rows, columns) if axis.has_absent]
    if absent:
        notes.append(f"{NOT_SET}: the configuration of the run does not set {' or '.join(absent)}.")
    if marks and not all_tie:
        notes += _directions(entries)
    if layout.with_intervals:
        notes.append(_brackets_text(entries))
    if not layout.with_n:
        notes.append(_n_text(entries))
    row_key = ", ".join(part.strip() for part in rows.key.split(","))
    return RunTable(layout, row_key, row_texts, column_texts, entries, marks, notes, all_tie)


def _notes_on_marks(marks: Mapping[Place, Mark], test_text: str, *, all_tie: bool) -> list[str]:
    """Return notes that say what the marks mean. If all numbers are tied, they have no marks, and a note says so."""
    notes = []
    if "best" in marks.values():
        notes.append(f"Bold: significantly better than all others ({test_text}).")
    if all_tie:
        notes.append(f"No number is significantly better than the others ({test_text}).")
    elif "tie" in marks.values():
        notes.append(f"{TIE_MARK}: the best, or not significantly different from it ({test_text}).")
    return notes


def _all_tie(
    entries: Mapping[Place, _Entry],
    marks: Mapping[Place, Mark],
    competition_of: Callable[[_Entry], Hashable],
) -> bool:
    """Return whether any numbers were tested, and all numbers that were tested against each other are tied."""
    tested = set()
    for place in marks:
        entry = entries[place]
        tested.add((competition_of(entry), entry.result.metric, entry.result.group))
    for place, entry in entries.items():
        key = (competition_of(entry), entry.result.metric, entry.result.group)
        if key in tested and entry.result.value is not None and marks.get(place) != "tie":
            return False
    return bool(tested)


def best_marks(store: Store, results: Sequence[tuple[RunRecord, Result]]) -> tuple[dict[str, Mark], list[str]]:
    """Return the marks of runs that are compared in one metric, by run id, and notes on what could not be compared."""
    entries: dict[Place, _Entry] = {}
    for record, result in results:
        entries[record.id, (result.metric,)] = _Entry(record.id, (result.metric,), record, result)
    marks, notes = _Marks(store, ALPHA).of(entries, lambda entry: entry.column)
    return {run: mark for (run, _), mark in marks.items()}, notes


def _axes(records: Sequence[RunRecord], layout: TableLayout) -> tuple[Axis, Axis]:
    """Return the axes of rows and columns: those that the user named, or else chosen by what the runs differ in."""
    keys = [key for key in varying_keys(records) if key not in (layout.rows, layout.columns)]
    row_key = layout.rows or next(iter(keys), "label")
    if row_key == layout.columns:
        raise UserError(f"--rows and --columns are both {row_key}; choose two different keys")
    rows = axis_by(row_key, records, "--rows")
    if layout.columns:
        return rows, axis_by(layout.columns, records, "--columns")
    # One more key fits into the columns if there is one metric; otherwise the metrics are the columns.
    remaining = [key for key in keys if not _is_determined(axis_by(key, records, "--columns"), rows)]
    if len(remaining) == 1 and len(layout.metrics) == 1 and row_key != METRIC:
        return rows, axis_by(remaining[0], records, "--columns")
    if not layout.rows:
        # The metrics are the columns, so every run needs a row, which names everything that distinguishes the runs: a
        # reader must not take the effect of another attack for that of another model.
        for key in keys:
            if key != row_key:
                rows = axis_by(f"{rows.key},{key}", records, "--rows")
    return rows, axis_by(METRIC, records, "--columns")


def _is_determined(axis: Axis, rows: Axis) -> bool:
    """Return whether all runs of a row have the same value on ``axis``; columns by it would be mostly empty."""
    texts_of_row: dict[str, set[str]] = {}
    for run, row in rows.values.items():
        texts_of_row.setdefault(row, set()).add(axis.values[run])
    return bool(texts_of_row) and all(len(texts) == 1 for texts in texts_of_row.values())


def _metrics(records: Sequence[RunRecord], layout: TableLayout, columns: Axis) -> list[str]:
    available: dict[str, None] = {}
    main: dict[str, None] = {}
    for record in records:
        of_record = dict.fromkeys(result.metric for result in record.results)
        available |= of_record
        main_of_record = [metric for metric in record.design.headline if metric in of_record]
        if not main_of_record:
            # For a task without headline metrics, all metrics count as main ones, except details.
            main_of_record = [metric for metric in of_record if not is_detail(metric)]
        main |= dict.fromkeys(main_of_record)
    for metric in layout.metrics:
        if metric not in available:
            raise UserError(f"--metric {metric}: no run has this metric{did_you_mean(metric, available)}")
    if layout.metrics:
        return list(layout.metrics)
    default = list(main)
    return default if columns.key == METRIC else default[:1]


def _entries(records: Sequence[RunRecord], metrics: Sequence[str], rows: Axis, columns: Axis) -> dict[Place, _Entry]:
    groups = rows.groups or columns.groups or (OVERALL,)
    if rows.groups and columns.groups:
        raise UserError("--rows and --columns are both groups of examples; use a group for one of them only")
    has_metric_in_header = len(metrics) > 1 and METRIC not in (rows.key, columns.key)
    entries: dict[Place, _Entry] = {}
    for record in records:
        for group in groups:
            for metric in metrics:
                result = record.result(metric, group)
                if result is None:
                    continue
                row = rows.text(record.id, metric, group)
                column: tuple[str, ...] = (columns.text(record.id, metric, group),)
                if has_metric_in_header:
                    column = (*column, metric)
                present = entries.get((row, column))
                if present is not None:
                    raise _shared_cell(present.record, record, row, column)
                entries[row, column] = _Entry(row, column, record, result)
    if not entries:
        raise UserError("no run has a result for this table; choose other metrics, rows or columns")
    return entries


def _shared_cell(first: RunRecord, second: RunRecord, row: str, column: Sequence[str]) -> UserError:
    """Return the error for two runs that belong to the same cell."""
    differences = varying_keys([first, second])
    if differences:
        keys = " and ".join(differences)
        remedy = f"they differ in {keys}: add this to --rows or --columns (KEY,KEY), or name only one of them"
    else:
        remedy = "they have the same configuration: name the runs that you want"
    return UserError(f"{first.id} and {second.id} are both in the cell ({row}; {', '.join(column)}); {remedy}")


@dataclass(frozen=True, slots=True)
class _Competition:
    """Which cells of a table are compared with each other."""

    text: str
    """Which runs are compared with each other, for notes: such as ``of the column``."""
    of_entry: Callable[[_Entry], Hashable]
    """Returns a key for an entry; entries with the same key are compared with each other."""


def _competition(records: Sequence[RunRecord], rows: Axis, columns: Axis) -> _Competition:
    """Return what is compared: the runs of a column, or those of a row (if columns are models, or rows are not runs).

    If rows are models combined with something else, such as attacks, models are compared only under the same attack.
    """
    if columns.key == MODEL or not rows.is_about_runs:
        return _Competition("of the row", lambda entry: entry.row)
    keys = [key.strip() for key in rows.key.split(",")]
    other_keys = [key for key in keys if key != MODEL]
    has_models = len(other_keys) < len(keys)
    if not has_models or not other_keys:
        return _Competition("of the column", lambda entry: entry.column)
    # A model under a weak attack must not beat one under a strong attack, so the other keys must agree.
    value_of_others = axis_by(",".join(other_keys), records, "--rows").values

    def same_column_and_others(entry: _Entry) -> Hashable:
        return entry.column, value_of_others[entry.record.id]

    text = f"of the column with the same {' and '.join(other_keys)}"
    return _Competition(text, same_column_and_others)


def _directions(entries: Mapping[Place, _Entry]) -> list[str]:
    """Return notes that name the metrics for which lower values, or values close to 0, are better."""
    names_by_direction: dict[str, dict[str, None]] = {"lower": {}, "zero": {}}
    for entry in entries.values():
        direction = metric_of(entry.record, entry.result.metric).better
        if direction in names_by_direction:
            names_by_direction[direction][entry.result.metric] = None
    notes = []
    if names_by_direction["lower"]:
        notes.append(f"Lower is better: {enumerated(list(names_by_direction['lower']))}.")
    if names_by_direction["zero"]:
        notes.append(f"Closer to 0 is better: {enumerated(list(names_by_direction['zero']))}.")
    return notes


def _brackets_text(entries: Mapping[Place, _Entry]) -> str:
    """Return a note that says what the brackets in the cells are."""
    levels = sorted({entry.record.settings.confidence for entry in entries.values()})
    percentages = [f"{100 * level:g} %" for level in levels]
    return f"Brackets: {enumerated(percentages)} intervals."


def _n_text(entries: Mapping[Place, _Entry]) -> str:
    sizes = [entry.result.n for entry in entries.values()]
    if min(sizes) == max(sizes):
        return f"n = {sizes[0]:,} in every cell."
    return f"n = {min(sizes):,} to {max(sizes):,}."


class _Marks:
    """Finds the best numbers of a table by tests; keeps the loaded runs and the notes between calls."""

    def __init__(self, store: Store, alpha: float) -> None:
        self._store = store
        self._alpha = alpha
        self._sides: dict[tuple[str, str], Side] = {}
        self._notes: dict[str, None] = {}
        self._not_means: dict[str, None] = {}

    def of(
        self, entries: Mapping[Place, _Entry], competition_of: Callable[[_Entry], Hashable]
    ) -> tuple[dict[Place, Mark], list[str]]:
        """Return the marks of cells, and notes on what could not be compared."""
        competitions: dict[object, list[_Entry]] = {}
        for entry in entries.values():
            # If groups of examples are the rows, a column has results of several groups; only equal groups compete.
            key = (competition_of(entry), entry.result.metric, entry.result.group)
            competitions.setdefault(key, []).append(entry)
        marks: dict[Place, Mark] = {}
        for competitors in competitions.values():
            mark_of_run = self._marks_of_runs(competitors)
            for entry in competitors:
                mark = mark_of_run.get(entry.record.id)
                if mark:
                    marks[entry.row, entry.column] = mark
        notes = list(self._notes)
        if self._not_means:
            notes.append(f"Not tested, because not a mean over examples: {enumerated(list(self._not_means))}.")
        return marks, notes

    def _marks_of_runs(self, competitors: Sequence[_Entry]) -> dict[str, Mark]:
        """Return the marks of runs in one metric, by id.

        They are empty if fewer than two runs have a value, or if the runs cannot be tested (a note then says why).
        """
        scored = [entry for entry in competitors if entry.result.value is not None]
        if len(scored) < 2:
            return {}
        different = measured_differently([entry.record for entry in scored])
        if different:
            self._notes[f"Not compared, because runs were measured differently ({', '.join(different)})."] = None
            return {}
        metric = scored[0].result.metric
        try:
            standings = self._standings(scored, metric)
        except UserError as error:
            # An error message may end with a question such as "did you mean …?".
            reason = str(error)
            end = "" if reason.endswith("?") else "."
            self._notes[f"No test for {metric}: {reason}{end}"] = None
            return {}
        mark_of_run: dict[str, Mark] = {standing.run: standing.mark for standing in standings}
        if "tie" in mark_of_run.values():
            # Bold would claim that the best run is better than those it ties with.
            for run, mark in mark_of_run.items():
                if mark == "best":
                    mark_of_run[run] = "tie"
        return mark_of_run

    def _standings(self, scored: Sequence[_Entry], metric: str) -> Sequence[Standing]:
        group = scored[0].result.group
        sides = comparable_sides([self._side(entry.record, group) for entry in scored])
        if not any(metric in comparable(side) for side in sides):
            self._not_means[metric] = None
            return []
        return ranking_by(sides, metric, self._alpha)

    def _side(self, record: RunRecord, group: str) -> Side:
        key = (record.id, group)
        if key not in self._sides:
            label, _, value = group.partition("=")
            groups = None if group == OVERALL else {label: value}
            self._sides[key] = load_side(self._store, record, groups)
        return self._sides[key]

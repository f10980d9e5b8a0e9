"""The first table of the report page: every run in one row, with its main numbers and what a reader should look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from lmassay.plugins.evaluations import metric_of, variation_of
from lmassay.reporting.blocks import ABSENT, Block, Body, Cell, Table, TableRow, header_row, text_cell
from lmassay.reporting.comparison_data import DIRECTION_TEXTS
from lmassay.reporting.numbers import counted_unit, interval_text, value_text
from lmassay.reporting.run_table import TIE_MARK, best_marks
from lmassay.reporting.tiles import anchor
from lmassay.reporting.units import shared_unit
from lmassay.reporting.variants import question_signature, variant_of
from lmassay.statistics import ALPHA
from lmassay.statistics.ranking import Mark
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Result, RunRecord, canonical
from lmassay.types.metrics import is_detail
from lmassay.types.wording import counted

MAX_METRICS = 3
_DIGITS = 3
_MAX_NOTE_LENGTH = 120
_STATE_TITLES = {"error": "errors", "unscored": "unscored"}
_TEST_TEXT = f"paired tests, Holm-adjusted, level {ALPHA:g}"


def summary_tables(store: Store, records: Sequence[RunRecord], titles: Sequence[str]) -> list[Block]:
    """Return a table for each task, with one row per run; ``titles`` name the runs as the example browser does."""
    title_of_run = {record.id: title for record, title in zip(records, titles, strict=True)}
    records_by_task: dict[str, list[RunRecord]] = {}
    for record in records:
        records_by_task.setdefault(record.task, []).append(record)
    return [_TaskTable(store, members, title_of_run).block() for members in records_by_task.values()]


def examples_link(run: str, state: str = "") -> str:
    """Return the link that shows the examples of a run in the example browser.

    ``run`` is the title of the run there. ``state`` limits the examples to those in one state, such as ``error``.
    """
    parameters = {"run": run}
    if state:
        parameters["state"] = state
    return f"#examples?{urlencode(parameters)}"


@dataclass(frozen=True, slots=True)
class _TaskTable:
    """Builds the table of one task."""

    store: Store
    records: Sequence[RunRecord]
    title_of_run: Mapping[str, str]

    def block(self) -> Table:
        metrics = main_metrics(self.records)
        marks, notes = self._marks(metrics)
        states = self._states()
        has_remarks = any(_remarks(record) for record in self.records)
        rows = []
        for record in self.records:
            cells = [self._name(record)]
            for metric in metrics:
                cells.append(self._number(record, metric, metrics[0], marks.get((record.id, metric), "")))
            cells += self._counts(record, metrics, states)
            if has_remarks:
                remarks = _remarks(record)
                cells.append(Cell("; ".join(remarks), kind="text", warns=record.status != "done"))
            rows.append(TableRow(cells))
        header = [*header_row([self.records[0].task]), *self._metric_headers(metrics)]
        header += header_row([], ["n", *(_STATE_TITLES[state] for state in states)])
        if has_remarks:
            header.append(text_cell("status and notes"))
        unscored_by = self._unscored_by_metric(metrics)
        unit = shared_unit(self.records)
        if unscored_by:
            notes.insert(0, f"Some metrics could not score every {unit} ({unscored_by}); the task's section says why.")
        elif not states and metrics and all(record.status == "done" for record in self.records):
            notes.insert(0, f"All {unit}s were scored.")
        return Table(" ".join([*self._mark_notes(marks), *notes]), [header], [Body(rows)])

    def _name(self, record: RunRecord) -> Cell:
        """Return the first cell of a run: its label and, in small print, its model.

        If all runs have the same label, they differ only in the model. Then the model is the name, and the label is the
        small print.
        """
        link = f"#{anchor(record.task)}"
        if not record.has_model:
            return Cell(record.label, kind="name", link=link)
        labels = {record.label for record in self.records}
        only_models_differ = len(self.records) > 1 and len(labels) == 1
        if only_models_differ:
            return Cell(record.model, (record.label,), kind="name", link=link)
        return Cell(record.label, (record.model,), kind="name", link=link)

    def _states(self) -> list[str]:
        """Return the states "error" and "unscored", each only if some example of these runs is in it."""
        present: set[str] = set()
        for record in self.records:
            counts = self.store.count(record.id)
            present.update(state for state in _STATE_TITLES if counts[state])
        return [state for state in _STATE_TITLES if state in present]

    def _unscored_by_metric(self, metrics: Sequence[str]) -> str:
        """Return how many examples each metric could not score, such as ``accuracy: 10``; empty if none.

        Examples that no metric could score are not counted here: they have their own column.
        """
        texts = []
        for metric in metrics:
            number = 0
            for record in self.records:
                result = record.result(metric)
                if result is not None:
                    # A metric may count contexts instead of rows. Then it may have fewer unscored contexts than the run
                    # has unscored rows, so the difference may be negative.
                    additional = result.n_unscored - self.store.count(record.id)["unscored"]
                    number += max(0, additional)
            if number:
                texts.append(f"{metric}: {self._counted(number, metric)}")
        return ", ".join(texts)

    def _counted(self, number: int, metric: str) -> str:
        """Return the number, followed by its unit if the metric counts something other than examples, such as rows."""
        units = {counted_unit(record, metric) for record in self.records}
        if len(units) == 1 and units != {record.unit for record in self.records}:
            return counted(number, units.pop())
        return f"{number:,}"

    def _metric_headers(self, metrics: Sequence[str]) -> list[Cell]:
        cells = []
        for metric in metrics:
            declared = metric_of(self.records[0], metric)
            small_print = [DIRECTION_TEXTS[declared.better]]
            if declared.title and declared.title != metric:
                small_print.insert(0, declared.title)
            cells.append(Cell(metric, small_print))
        return cells

    def _number(self, record: RunRecord, metric: str, first_metric: str, mark: Mark) -> Cell:
        result = record.result(metric)
        if result is None:
            return Cell("", (ABSENT,) if record.results else ())
        if result.value is None:
            return Cell(value_text(result))
        small_print = [interval_text(result, _DIGITS)]
        first_result = record.result(first_metric)
        if first_result is not None and first_result.n != result.n:
            # The column n belongs to the first metric; another metric may count contexts instead of sentences.
            small_print.append(f"n = {result.n:,}")
        text = value_text(result, _DIGITS)
        if mark == "tie":
            text += TIE_MARK
        return Cell(text, small_print, bold=mark == "best")

    def _counts(self, record: RunRecord, metrics: Sequence[str], states: Sequence[str]) -> list[Cell]:
        """Return the cells with the number of scored examples and of those in each of ``states``.

        Each number links to its examples in the example browser.
        """
        counts = self.store.count(record.id)
        # The column n shows how many examples the number of the first metric covers.
        scored = counts["scored"]
        first_result = record.result(metrics[0]) if metrics else None
        if first_result is not None:
            scored = first_result.n
        title = self.title_of_run[record.id]
        # A link to no example would open an empty table.
        link_to_scored = examples_link(title) if counts["scored"] else ""
        cells = [Cell(f"{scored:,}", link=link_to_scored)]
        for state in states:
            number = counts[state]
            link = examples_link(title, state) if number else ""
            cells.append(Cell(f"{number:,}", link=link, warns=number > 0))
        return cells

    def _marks(self, metrics: Sequence[str]) -> tuple[dict[tuple[str, str], Mark], list[str]]:
        """Mark the best number of each metric among comparable runs, such as different models under the same attack.

        Returns the marks by (run, metric), and notes on what could not be compared or is undecided.
        """
        competitors: dict[str, list[RunRecord]] = {}
        for record in self.records:
            competitors.setdefault(_comparable_key(record), []).append(record)
        marks: dict[tuple[str, str], Mark] = {}
        notes: dict[str, None] = {}
        undecided: dict[str, int] = {}
        for members in competitors.values():
            for metric in metrics:
                results = _results(members, metric)
                if len(results) < 2:
                    continue
                marks_of_runs, notes_on_metric = best_marks(self.store, results)
                notes |= dict.fromkeys(notes_on_metric)
                if list(marks_of_runs.values()).count("tie") == len(results):
                    # If every number had a mark, the marks would carry no information.
                    undecided[metric] = undecided.get(metric, 0) + 1
                    continue
                for run, mark in marks_of_runs.items():
                    marks[run, metric] = mark
        # The note speaks about all runs of the table, so it is added only if every group of competitors is tied.
        groups = sum(len(members) > 1 for members in competitors.values())
        tied_metrics = [metric for metric, times in undecided.items() if times == groups]
        if tied_metrics:
            names = ", ".join(tied_metrics)
            notes[f"No run is significantly better than all others in {names} ({_TEST_TEXT})."] = None
        return marks, list(notes)

    def _mark_notes(self, marks: Mapping[tuple[str, str], Mark]) -> list[str]:
        notes = []
        levels = {record.settings.confidence for record in self.records}
        if len(levels) == 1:
            notes.append(f"Brackets: {100 * levels.pop():g} % intervals.")
        comparable_keys = {_comparable_key(record) for record in self.records}
        among = "all runs"
        if len(comparable_keys) > 1:
            among = "runs with the same data and settings (they differ only in the model)"
        if "best" in marks.values():
            notes.append(f"Bold: significantly better than all others, among {among} ({_TEST_TEXT}).")
        if "tie" in marks.values():
            notes.append(f"{TIE_MARK}: the best, or not significantly different from it, among {among} ({_TEST_TEXT}).")
        return notes


def main_metrics(records: Sequence[RunRecord]) -> list[str]:
    """Return the metrics with a column: the first headline metrics that these runs have results of.

    If the task declares no headline, they are the first metrics with an overall result.
    """
    headline: dict[str, None] = {}
    available: dict[str, None] = {}
    for record in records:
        for metric in record.design.headline:
            if record.result(metric) is not None:
                headline[metric] = None
        for result in record.results:
            if result.group == OVERALL and not is_detail(result.metric):
                available[result.metric] = None
    return list(headline or available)[:MAX_METRICS]


def _comparable_key(record: RunRecord) -> str:
    """Return what runs must share so that the best of them is marked: task, data and settings, but not the model.

    If the task has variants, such as attacks or prompts, the runs must also share the variant.
    """
    if variation_of(record).pooled:
        return canonical([question_signature(record), variant_of(record)])
    return question_signature(record)


def _results(records: Sequence[RunRecord], metric: str) -> list[tuple[RunRecord, Result]]:
    """Return each run that has a result of the metric, with this result."""
    results = []
    for record in records:
        result = record.result(metric)
        if result is not None:
            results.append((record, result))
    return results


def _remarks(record: RunRecord) -> list[str]:
    """Return the texts of the column "status and notes": a status other than done, tags, and the user's note."""
    remarks = []
    if record.status != "done":
        remarks.append(f"{record.status}: {_clipped(record.note)}" if record.note else record.status)
    if record.annotation.tags:
        remarks.append(", ".join(record.annotation.tags))
    if record.annotation.note:
        remarks.append(_clipped(" ".join(record.annotation.note.split())))
    return remarks


def _clipped(text: str) -> str:
    if len(text) <= _MAX_NOTE_LENGTH:
        return text
    return f"{text[: _MAX_NOTE_LENGTH - 1]}…"

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
_TEST = f"paired tests, Holm-adjusted, level {ALPHA:g}"


def summary_tables(store: Store, records: Sequence[RunRecord], titles: Sequence[str]) -> list[Block]:
    """A table for each task, one row per run; ``titles`` are the names of the runs in the example browser."""
    title_of_run = {record.id: title for record, title in zip(records, titles, strict=True)}
    records_by_task: dict[str, list[RunRecord]] = {}
    for record in records:
        records_by_task.setdefault(record.task, []).append(record)
    return [_TaskTable(store, members, title_of_run).block() for members in records_by_task.values()]


def examples_link(run: str, state: str = "") -> str:
    """Where the example browser shows the examples of a run; ``run`` is its title there."""
    parameters = {"run": run}
    if state:
        parameters["state"] = state
    return f"#examples?{urlencode(parameters)}"


@dataclass(frozen=True, slots=True)
class _TaskTable:
    """The rows of one task."""

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
            notes.insert(0, f"Some metrics left {unit}s unscored ({unscored_by}); the section says why.")
        elif not states and metrics and all(record.status == "done" for record in self.records):
            notes.insert(0, f"All {unit}s were scored.")
        return Table(" ".join([*self._mark_notes(marks), *notes]), [header], [Body(rows)])

    def _name(self, record: RunRecord) -> Cell:
        """Label and model. If only the models differ, the model is the name."""
        link = f"#{anchor(record.task)}"
        if not record.has_model:
            return Cell(record.label, kind="name", link=link)
        labels = {record.label for record in self.records}
        only_models_differ = len(self.records) > 1 and len(labels) == 1
        if only_models_differ:
            return Cell(record.model, (record.label,), kind="name", link=link)
        return Cell(record.label, (record.model,), kind="name", link=link)

    def _states(self) -> list[str]:
        """The states without a score that any example is in; usually none."""
        present: set[str] = set()
        for record in self.records:
            counts = self.store.count(record.id)
            present.update(state for state in _STATE_TITLES if counts[state])
        return [state for state in _STATE_TITLES if state in present]

    def _unscored_by_metric(self, metrics: Sequence[str]) -> str:
        """How many examples single metrics could not score, in addition to those that no metric could score."""
        texts = []
        for metric in metrics:
            number = 0
            for record in self.records:
                result = record.result(metric)
                if result is not None:
                    # A metric may count contexts instead of rows, and so have fewer of them than the run has rows.
                    additional = result.n_unscored - self.store.count(record.id)["unscored"]
                    number += max(0, additional)
            if number:
                texts.append(f"{metric}: {self._counted(number, metric)}")
        return ", ".join(texts)

    def _counted(self, number: int, metric: str) -> str:
        """The number, with its unit if the metric counts something else than the runs do, such as rows."""
        units = {counted_unit(record, metric) for record in self.records}
        if len(units) == 1 and units != {record.unit for record in self.records}:
            return counted(number, units.pop())
        return f"{number:,}"

    def _metric_headers(self, metrics: Sequence[str]) -> list[Cell]:
        cells = []
        for metric in metrics:
            declared = metric_of(self.records[0], metric)
            small = [DIRECTION_TEXTS[declared.better]]
            if declared.title and declared.title != metric:
                small.insert(0, declared.title)
            cells.append(Cell(metric, small))
        return cells

    def _number(self, record: RunRecord, metric: str, first_metric: str, mark: Mark) -> Cell:
        result = record.result(metric)
        if result is None:
            return Cell("", (ABSENT,) if record.results else ())
        if result.value is None:
            return Cell(value_text(result))
        small = [interval_text(result, _DIGITS)]
        first_result = record.result(first_metric)
        if first_result is not None and first_result.n != result.n:
            # The column n is about the first metric; another one may count contexts instead of sentences.
            small.append(f"n = {result.n:,}")
        text = value_text(result, _DIGITS)
        if mark == "tie":
            text += TIE_MARK
        return Cell(text, small, bold=mark == "best")

    def _counts(self, record: RunRecord, metrics: Sequence[str], states: Sequence[str]) -> list[Cell]:
        """The number of examples with a score and in other states, with links to these examples."""
        counts = self.store.count(record.id)
        # n is that of the first metric, so that it belongs to the number next to it.
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
        """The best numbers among runs that answer the same question, such as models under the same attack."""
        competitors: dict[str, list[RunRecord]] = {}
        for record in self.records:
            competitors.setdefault(_question(record), []).append(record)
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
        # The note is about all runs of the table, so it needs a tie in every group of competitors.
        groups = sum(len(members) > 1 for members in competitors.values())
        tied_metrics = [metric for metric, times in undecided.items() if times == groups]
        if tied_metrics:
            names = ", ".join(tied_metrics)
            notes[f"No run is significantly better than all others in {names} ({_TEST})."] = None
        return marks, list(notes)

    def _mark_notes(self, marks: Mapping[tuple[str, str], Mark]) -> list[str]:
        notes = []
        levels = {record.settings.confidence for record in self.records}
        if len(levels) == 1:
            notes.append(f"Brackets: {100 * levels.pop():g} % intervals.")
        questions = {_question(record) for record in self.records}
        among = "runs that answer the same question" if len(questions) > 1 else "all runs"
        if "best" in marks.values():
            notes.append(f"Bold: significantly better than all others, among {among} ({_TEST}).")
        if "tie" in marks.values():
            notes.append(f"{TIE_MARK}: the best, or not significantly different from it, among {among} ({_TEST}).")
        return notes


def main_metrics(records: Sequence[RunRecord]) -> list[str]:
    """The first headline metrics that the runs of a task have; without a headline, the first metrics."""
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


def _question(record: RunRecord) -> str:
    """What runs must share to compete: the question, and how it is asked (the attack, the prompt)."""
    if variation_of(record).pooled:
        return canonical([question_signature(record), variant_of(record)])
    return question_signature(record)


def _results(records: Sequence[RunRecord], metric: str) -> list[tuple[RunRecord, Result]]:
    results = []
    for record in records:
        result = record.result(metric)
        if result is not None:
            results.append((record, result))
    return results


def _remarks(record: RunRecord) -> list[str]:
    """What a reader should know about a run before its numbers: an unfinished run, tags and the user's note."""
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

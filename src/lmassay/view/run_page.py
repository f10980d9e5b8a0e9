"""The page of a run: its state, its results, where these come from, and a page of its examples."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import quote, urlencode

import yaml

from lmassay.errors import DamageError
from lmassay.plugins.evaluations import metric_of, view_of
from lmassay.reporting.blocks import Block, Body, Cell, Note, Table, TableRow, header_row, measured, name
from lmassay.reporting.example_texts import Texts, texts_of
from lmassay.reporting.numbers import minus, no_interval_notes, number_text
from lmassay.reporting.overview import LEFT_OUT, overview_of
from lmassay.reporting.sections import results_table
from lmassay.reporting.snippets import distinct_parts
from lmassay.storage.commands import command_on_results
from lmassay.storage.example_pages import ExampleFilter, example_page
from lmassay.storage.provenance import rerun_command, started_by
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import OVERALL, Result, Row, RunRecord
from lmassay.types.metrics import is_detail
from lmassay.types.wording import counted
from lmassay.view.folder import RunState

PAGE_SIZE = 50
STATES = ("scored", "unscored", "error")
_MAX_SNIPPET = 300
_MAX_METRIC_COLUMNS = 4
_MAX_ERRORS = 10
# A run never has so many pages that their number is longer. SQLite could not count to a much longer number.
_MAX_PAGE_DIGITS = 8
_DEFAULT_TITLES = ("text", "answer")
# The names that evaluations give to the output of a system. If an example has several outputs, the last one answers
# the attacked input or the final request.
_TITLES_OF_ANSWERS = ("answer", "output", "raw")
# What follows the name of a text if an example has several requests: "answer 1 of 3".
_NUMBER_OF_EXCHANGE = re.compile(r" \d+ of \d+")


# --- the address ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExampleQuery:
    """The part of the address that selects examples. Except for ``page``, all values are texts; empty means any."""

    state: str = ""
    metric: str = ""
    """The metric of which an example must have a score."""
    low: str = ""
    high: str = ""
    """The limits of this score."""
    q: str = ""
    """A text that must occur in the example or its answers."""
    page: int = 1

    @staticmethod
    def of(parameters: Mapping[str, str]) -> ExampleQuery:
        """Read the parameters of an address; what cannot be read is ignored."""
        state = parameters.get("state", "")
        if state not in STATES:
            state = ""
        return ExampleQuery(
            state=state,
            metric=parameters.get("metric", ""),
            low=_number_or_nothing(parameters.get("low", "")),
            high=_number_or_nothing(parameters.get("high", "")),
            q=parameters.get("q", "").strip(),
            page=_page_number(parameters.get("page", "1")),
        )

    @property
    def is_empty(self) -> bool:
        """Whether all examples are selected."""
        return replace(self, page=1) == ExampleQuery()

    def filter(self) -> ExampleFilter:
        """Return the conditions on the examples."""
        low = float(self.low) if self.low else None
        high = float(self.high) if self.high else None
        return ExampleFilter(self.state, self.metric, low, high, self.q)

    def url(self, run: str, **changes: Any) -> str:
        """Return the address of the run's page with these examples."""
        query = replace(self, **changes)
        parameters = {}
        for field in fields(query):
            value = getattr(query, field.name)
            if value and (field.name, value) != ("page", 1):
                parameters[field.name] = value
        address = f"/runs/{quote(run, safe='')}"
        if not parameters:
            return address
        return f"{address}?{urlencode(parameters)}#examples"


def _page_number(text: str) -> int:
    if not text.isdecimal() or len(text) > _MAX_PAGE_DIGITS:
        return 1
    return max(int(text), 1)


def _number_or_nothing(text: str) -> str:
    """Return a text if it is a finite number, else an empty text."""
    try:
        is_finite = math.isfinite(float(text))
    except ValueError:
        return ""
    return text.strip() if is_finite else ""


# --- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunResults:
    """The results of a run, and why some of its examples have no score."""

    main: Sequence[Block]
    """Tables with the main results, by group."""
    everything: Sequence[Block]
    """A table with all results, including those of all groups and the details of metrics."""
    count: int
    """How many results there are."""
    unscored: Sequence[tuple[str, int]]
    """Why examples have no score, with the number of examples."""
    errors: Sequence[tuple[str, int]]
    """The most frequent errors, with their numbers."""
    problem: str = ""
    """What is damaged; empty if nothing."""


def run_results(store: Store, state: RunState) -> RunResults:
    """Return the results of a run, each with n and with its interval, or with the reason why it has no interval."""
    record = state.record
    if record.status == DAMAGED:
        return RunResults((), (), 0, (), (), record.note)
    unscored: Sequence[tuple[str, int]] = ()
    errors: Sequence[tuple[str, int]] = ()
    problem = ""
    try:
        # If nothing is unscored or has an error, the examples need not be read.
        if state.unscored or any(result.n_unscored for result in record.results):
            unscored = store.unscored_reasons(record)
        if state.errors:
            errors = store.errors(record.id, _MAX_ERRORS)
    except DamageError as error:
        problem = error.problem
    main = _main_results(record)
    everything: list[Block] = []
    if main and len(record.results) > 1:
        everything = [results_table(record, record.results)]
    return RunResults(main, everything, len(record.results), unscored, errors, problem)


def _main_results(record: RunRecord) -> list[Block]:
    """Return the headline metrics by group, as `lmassay show` prints them; without any, the overall results."""
    overview = overview_of(record)
    if overview is None:
        return _overall_results(record)
    rows = []
    results_in_table: list[Result] = []
    for depth, label, results in overview.rows:
        cells = [name(label)]
        for metric in overview.metrics:
            result = results.get(metric)
            if result is None:
                cells.append(Cell(""))
                continue
            cells.append(measured(result))
            results_in_table.append(result)
        for metric in overview.counted:
            result = results.get(metric)
            count = "" if result is None else f"{result.n:,}"
            cells.append(Cell(count))
        rows.append(TableRow(cells, "part" if depth else "plain"))
    titles = [_metric_title(record, metric) for metric in overview.metrics]
    if len(overview.counted) == 1:
        titles.append("n")
    else:
        # The metrics have different numbers of examples, so each number says which metric it belongs to.
        titles += [f"n {metric}" for metric in overview.counted]
    confidence = f"{100 * record.settings.confidence:g} %"
    header = header_row(["group"], titles)
    blocks: list[Block] = [Table(f"With {confidence} intervals.", [header], [Body(rows)])]
    for text in no_interval_notes(results_in_table):
        blocks.append(Note(text))
    for metric, text in overview.lines:
        title = metric.capitalize() if metric == LEFT_OUT else metric
        blocks.append(Note(minus(f"{title}: {text}")))
    return blocks


def _overall_results(record: RunRecord) -> list[Block]:
    """Return the overall results of a run without headline metrics."""
    overall = []
    for result in record.results:
        # Details would hide the metrics themselves; the table of all results has them.
        if result.group == OVERALL and not is_detail(result.metric):
            overall.append(result)
    if not overall:
        return []
    return [replace(results_table(record, overall), caption="")]


def _metric_title(record: RunRecord, metric: str) -> str:
    better = metric_of(record, metric).better
    arrow = {"higher": "↑", "lower": "↓"}.get(better, "")
    return f"{metric} {arrow}".strip()


# --- about a run ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Where the numbers of a run come from. These facts never change, so the page does not update them."""

    started_by: str
    """The command that started the run."""
    rerun: str
    """The command that repeats the run."""
    config: str
    """The configuration as YAML."""
    environment: str
    """Versions, files and digests as JSON."""


def run_facts(store: Store, record: RunRecord) -> RunFacts:
    """Return where the numbers of a run come from."""
    environment = json.dumps(record.provenance.as_dict(), indent=2, ensure_ascii=False)
    if not record.config:
        # The record is damaged: nothing says how the run was started.
        return RunFacts(started_by="", rerun="", config="", environment=environment)
    options_with_value = {key: value for key, value in record.config.items() if value not in (None, "")}
    config = ""
    if options_with_value:
        config = yaml.safe_dump(options_with_value, sort_keys=False, allow_unicode=True, width=100)
    return RunFacts(
        started_by=started_by(record), rerun=rerun_command(record, store.folder), config=config, environment=environment
    )


def how_to_continue(state: RunState, store: Store) -> str:
    """Return the command that finishes a run; empty if there is nothing to finish."""
    if not state.can_be_resumed:
        return ""
    return command_on_results(store.folder, "resume", state.record.id)


# --- examples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """An example in the table."""

    position: int
    row: Row
    texts: Sequence[str]
    """The shortened texts, one for each of ``ExampleTable.titles``."""
    reason: str
    """Why the example has no score; empty if it has one."""
    scores: Sequence[str]
    """The scores, one for each of ``ExampleTable.metrics``; empty if the example has none."""


@dataclass(frozen=True, slots=True)
class ExampleTable:
    """A page of examples."""

    rows: Sequence[ExampleRow]
    titles: Sequence[str]
    """The names of the columns with texts."""
    metrics: Sequence[str]
    total: int
    """How many examples meet the filter."""
    query: ExampleQuery
    problem: str = ""
    """What is damaged; empty if nothing."""
    unit: str = "example"
    """What a row is, such as "example" or "split", in the singular."""

    @property
    def pages(self) -> int:
        """The number of pages."""
        return max(math.ceil(self.total / PAGE_SIZE), 1)

    @property
    def range_text(self) -> str:
        """Which examples are shown."""
        if not self.rows or len(self.rows) == self.total:
            return counted(self.total, self.unit)
        first = (self.query.page - 1) * PAGE_SIZE + 1
        return f"{first:,} to {first + len(self.rows) - 1:,} of {counted(self.total, self.unit)}"


def example_table(store: Store, state: RunState, query: ExampleQuery) -> ExampleTable:
    """Return the examples that a page shows."""
    record = state.record
    if record.status == DAMAGED and not record.config:
        return ExampleTable((), (), (), 0, query)
    titles = [key.name for key in view_of(record).key_texts]
    try:
        page = example_page(store, record.id, query.filter(), (query.page - 1) * PAGE_SIZE, PAGE_SIZE)
        metrics = _shown_metrics(record, [row for _, row in page.rows], query.metric)
        rows = _example_rows(store, record, page.rows, titles, metrics)
    except DamageError as error:
        return ExampleTable((), (), (), 0, query, error.problem)
    table = ExampleTable(rows, titles or _DEFAULT_TITLES, metrics, page.total, query, unit=record.unit)
    return _without_empty_columns(table)


def _without_empty_columns(table: ExampleTable) -> ExampleTable:
    """Return the table without text columns that are empty on this page, because they would narrow the others."""
    filled = []
    for column in range(len(table.titles)):
        if any(line.texts[column] for line in table.rows):
            filled.append(column)
    titles = [table.titles[column] for column in filled]
    rows = []
    for line in table.rows:
        texts = [line.texts[column] for column in filled]
        rows.append(replace(line, texts=texts))
    return replace(table, rows=rows, titles=titles)


def _shown_metrics(record: RunRecord, rows: Sequence[Row], chosen: str) -> list[str]:
    """Return the metrics that get a column: the chosen one, then the main ones, if examples on the page have scores."""
    scored: dict[str, None] = {}
    for row in rows:
        scored |= dict.fromkeys(row.score.values)
    of_results = [result.metric for result in record.results]
    by_importance = dict.fromkeys([chosen, *record.design.headline, *of_results, *scored])
    # A name with an @ is a point of a curve, such as ew@top0.5; the curve would fill the table.
    metrics = [metric for metric in by_importance if metric in scored and "@" not in metric]
    return metrics[:_MAX_METRIC_COLUMNS]


def _example_rows(
    store: Store,
    record: RunRecord,
    rows: Sequence[tuple[int, Row]],
    titles: Sequence[str],
    metrics: Sequence[str],
) -> list[ExampleRow]:
    """Return the rows of the table of examples, with shortened texts."""
    full_texts = []
    for _, row in rows:
        texts = texts_of(record, row, store.exchanges_of(record.id, row.example.id))
        if titles:
            full_texts.append([_text_called(title, texts) for title in titles])
        else:
            full_texts.append(list(_first_text_and_answer(texts)))
    # All texts of a column are shortened together: a beginning that they share is left out, because it does not
    # distinguish the examples.
    columns = [distinct_parts(column, _MAX_SNIPPET) for column in zip(*full_texts, strict=True)]
    short_texts = zip(*columns, strict=True)
    example_rows = []
    for (position, row), texts_of_row in zip(rows, short_texts, strict=True):
        reason = ""
        if row.state != "scored":
            reason = row.error or "; ".join(dict.fromkeys(row.score.unscored.values()))
        example_rows.append(ExampleRow(position, row, texts_of_row, _snippet(reason), _scores(row, metrics)))
    return example_rows


def _text_called(title: str, texts: Texts) -> str:
    """Return a text by its name; ``answer`` also finds ``answer (length)`` and ``answer 1 of 3``.

    ``isNamed`` in the report's ``rows.js`` has the same rule, so both pages show the same text.
    """
    for text_name, text in texts:
        is_named = text_name == title or text_name.startswith(f"{title} (")
        if is_named or _NUMBER_OF_EXCHANGE.fullmatch(text_name.removeprefix(title)):
            return text
    return ""


def _first_text_and_answer(texts: Texts) -> tuple[str, str]:
    """Return the first text and the last answer, for an evaluation that does not declare ``key_texts``."""
    questions: list[str] = []
    answers: list[str] = []
    for title, text in texts:
        if title.startswith(_TITLES_OF_ANSWERS):
            answers.append(text)
        # "no METRIC" says why the example has no score of a metric, and "error" why it has none at all.
        elif not title.startswith(("no ", "error")):
            questions.append(text)
    first_question = questions[0] if questions else ""
    last_answer = answers[-1] if answers else ""
    return first_question, last_answer


def _scores(row: Row, metrics: Sequence[str]) -> list[str]:
    scores = []
    for metric in metrics:
        value = row.score.values.get(metric)
        scores.append("" if value is None else number_text(value, 3))
    return scores


def _snippet(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SNIPPET else f"{line[:_MAX_SNIPPET]}…"

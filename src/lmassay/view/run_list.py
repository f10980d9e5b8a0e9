"""The list of runs: which runs the address of the page selects, and how they are sorted and grouped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from urllib.parse import urlencode

from lmassay.errors import UserError
from lmassay.reporting.numbers import short_text
from lmassay.reporting.run_labels import label_runs
from lmassay.reporting.run_order import SORT_KEYS, main_result, sorted_runs
from lmassay.storage.run_filter import STATUSES, RunFilter
from lmassay.storage.store import Spending
from lmassay.types import OVERALL, Result, RunRecord
from lmassay.types.metrics import is_detail
from lmassay.types.wording import counted, model_name
from lmassay.view.folder import RunState, Snapshot

NEWEST = "newest"
GROUPS = ("model", "task")
_METRIC = "metric:"
_PATTERN_CHARACTER = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What the list shows. It is the part of the address after the question mark, so every state has a link.

    An empty text selects all values. ``group`` is one of :data:`GROUPS`; ``sort`` is ``newest``, a sort key of
    ``lmassay ls``, or ``metric:NAME``.
    """

    q: str = ""
    """A text that must occur in the label, the id, the name of the configuration, the task, the model, the note
    or a tag."""
    status: str = ""
    evaluation: str = ""
    task: str = ""
    model: str = ""
    tag: str = ""
    group: str = ""
    sort: str = NEWEST

    @staticmethod
    def of(parameters: Mapping[str, str]) -> ListQuery:
        """Read the parameters of an address; unknown ones are ignored."""
        parameters_in_use: dict[str, str] = {}
        for name in _NAMES:
            value = parameters.get(name, "").strip()
            if value:
                parameters_in_use[name] = value
        return ListQuery(**parameters_in_use)

    @property
    def has_filters(self) -> bool:
        """Whether the query filters runs, instead of only sorting or grouping them."""
        return replace(self, group="", sort=NEWEST) != ListQuery()

    def url(self, path: str = "/", **changes: str) -> str:
        """Return the address of the list, or of another page about the same runs."""
        query = replace(self, **changes)
        parameters = {}
        for name in _NAMES:
            value = getattr(query, name)
            if value and value != getattr(_EMPTY, name):
                parameters[name] = value
        return f"{path}?{urlencode(parameters)}" if parameters else path

    def select(self, runs: Sequence[RunState]) -> list[RunState]:
        """Return the runs that the query selects, in the order that it asks for."""
        run_filter = RunFilter(
            tasks=_literal_pattern(self.task),
            models=_literal_pattern(self.model),
            statuses=_literal_pattern(self.status),
            tags=_literal_pattern(self.tag),
        )
        states = {state.record.id: state for state in runs}
        records = []
        for record in run_filter.select(state.record for state in runs):
            if self.evaluation and (record.provenance.evaluation or "") != self.evaluation:
                continue
            if self.q and not _has_text(record, self.q):
                continue
            records.append(record)
        return [states[record.id] for record in self._sorted(records)]

    def _sorted(self, records: Sequence[RunRecord]) -> list[RunRecord]:
        """Return runs in the order that the query asks for; the newest first if it cannot be applied."""
        order = self.sort.removeprefix(_METRIC)
        if self.sort == NEWEST or (order == self.sort and order not in SORT_KEYS):
            return list(reversed(records))
        try:
            return sorted_runs(records, order)
        except UserError:
            # None of the selected runs has this metric.
            return list(reversed(records))


_NAMES = tuple(field.name for field in fields(ListQuery))
_EMPTY = ListQuery()


def _literal_pattern(value: str) -> tuple[str, ...]:
    """Return a value as the patterns that RunFilter takes; no pattern if the value is empty, which selects all runs."""
    if not value:
        return ()
    # A name from the list is meant literally, so special characters are put in brackets.
    literal = _PATTERN_CHARACTER.sub(r"[\g<0>]", value)
    return (literal,)


def _has_text(record: RunRecord, text: str) -> bool:
    annotation = record.annotation
    texts = (record.label, record.id, record.name, record.task, record.model, annotation.note, *annotation.tags)
    needle = text.casefold()
    return any(needle in candidate.casefold() for candidate in texts)


# --- what the page shows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListRow:
    """A run in the list."""

    state: RunState
    label: str
    """The label of the run, extended so that it distinguishes the run from the others in the list."""
    result: Result | None
    result_text: str

    @property
    def record(self) -> RunRecord:
        """The run as it is stored."""
        return self.state.record


@dataclass(frozen=True, slots=True)
class RunList:
    """The list of runs."""

    groups: Sequence[tuple[str, Sequence[ListRow]]]
    """Groups of rows with their titles; a list that is not grouped is one group with an empty title."""
    count: int
    """How many runs are listed."""
    total: int
    """How many runs there are in the results folder."""
    notes: Sequence[str]
    """Sentences that explain the marks at the labels of runs that cannot be compared directly."""
    summary: str
    """A text such as ``12 of 40 runs: 1 running, 11 done``."""
    spent: str
    """What all listed runs spent together; empty if nothing."""
    has_spending: bool
    """Whether any listed run spent something, so that the list has a column for it."""


def run_list(snapshot: Snapshot, query: ListQuery) -> RunList:
    """Return the runs that a query selects."""
    states = query.select(snapshot.runs)
    # Labels depend on which runs are listed together: they name what distinguishes these.
    labelled = label_runs([state.record for state in states])
    metric = ""
    if query.sort.startswith(_METRIC):
        metric = query.sort.removeprefix(_METRIC)
    rows: list[ListRow] = []
    for state, record in zip(states, labelled.records, strict=True):
        # A list that is sorted by a metric shows that metric, so that the order can be seen.
        result = record.result(metric) if metric else main_result(record)
        text = "" if result is None else short_text(result)
        rows.append(ListRow(state, record.label, result, text))
    amounts = [state.spending for state in states if state.spending is not None]
    return RunList(
        groups=_grouped(rows, query.group),
        count=len(rows),
        total=len(snapshot.runs),
        notes=labelled.notes,
        summary=_summary(states, len(snapshot.runs)),
        spent=_total(amounts),
        has_spending=bool(amounts),
    )


def _grouped(rows: Sequence[ListRow], by: str) -> list[tuple[str, Sequence[ListRow]]]:
    """Return the rows in groups by model or task, sorted by the name of the group."""
    if by not in GROUPS:
        return [("", rows)] if rows else []
    groups: dict[str, list[ListRow]] = {}
    for row in rows:
        name = model_name(row.record.model) if by == "model" else row.record.task
        groups.setdefault(name or "unknown", []).append(row)
    names = sorted(groups, key=str.casefold)
    return [(name, groups[name]) for name in names]


def _summary(states: Sequence[RunState], total: int) -> str:
    """Return a text such as ``12 of 40 runs: 1 running, 11 done``."""
    numbers: dict[str, int] = {}
    for status in STATUSES:
        number = sum(state.record.status == status for state in states)
        if number:
            numbers[status] = number
    which = counted(total, "run")
    if len(states) != total:
        which = f"{len(states):,} of {which}"
    if not numbers:
        return which
    details = [f"{number:,} {status}" for status, number in numbers.items()]
    return f"{which}: {', '.join(details)}"


def _total(amounts: Sequence[Spending]) -> str:
    if not amounts:
        return ""
    total = Spending()
    for spent in amounts:
        total = total.plus(spent)
    return total.describe()


# --- the controls -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that the controls of the list offer."""

    status: Sequence[str]
    evaluation: Sequence[str]
    task: Sequence[str]
    model: Sequence[str]
    tag: Sequence[str]
    sort: Sequence[tuple[str, str]]
    """The ways to sort: (value in the address, text of the control) pairs."""


def choices(snapshot: Snapshot, query: ListQuery) -> Choices:
    """Return the values that any run has, and the chosen values, even if no run has them any more."""
    # An address may name a value whose last run was deleted. Its control must still show it, or the empty list would
    # have no visible reason.
    statuses = {query.status}
    evaluations = {query.evaluation}
    tasks = {query.task}
    models = {query.model}
    tags = {query.tag}
    metrics: set[str] = set()
    for state in snapshot.runs:
        record = state.record
        statuses.add(record.status)
        evaluations.add(record.provenance.evaluation or "")
        tasks.add(record.task)
        models.add(record.model)
        tags.update(record.annotation.tags)
        metrics.update(_sortable_metrics(record))
    return Choices(
        status=[status for status in STATUSES if status in statuses],
        evaluation=_sorted_names(evaluations),
        task=_sorted_names(tasks),
        model=_sorted_names(models),
        tag=_sorted_names(tags),
        sort=_sort_choices(metrics),
    )


def _sortable_metrics(record: RunRecord) -> Iterator[str]:
    """Yield the metrics of a run by which the list can be sorted."""
    for result in record.results:
        # Details, such as the points of a curve, would make the list of choices long. Their names have a dot or an @; a
        # headline metric is never a detail, even if it is called pass@1.
        is_listed = result.metric in record.design.headline or not is_detail(result.metric)
        if result.group == OVERALL and is_listed:
            yield result.metric


def _sort_choices(metrics: Iterable[str]) -> list[tuple[str, str]]:
    """Return the ways to sort the list: fixed ones, then one for each metric."""
    sort = [
        (NEWEST, "newest first"),
        ("created", "oldest first"),
        ("label", "label"),
        ("model", "model"),
        ("task", "task"),
    ]
    for metric in sorted(metrics):
        sort.append((f"{_METRIC}{metric}", f"best {metric}"))
    return sort


def _sorted_names(names: Iterable[str]) -> list[str]:
    """Sort names without regard to case. An empty one means that a run has none, so it is left out."""
    return sorted(filter(None, names), key=str.casefold)

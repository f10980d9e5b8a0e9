"""The section of a report for runs that share a task: the evaluation's own, or the results as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmassay.plugins.evaluations import evaluation_of, metric_of, view_of
from lmassay.plugins.hooks import call_hook, optional_instance_of
from lmassay.reporting.blocks import Block, Body, Cell, Heading, Section, Table, TableRow, count, measured, name
from lmassay.reporting.numbers import clusters_text, interval_text, value_text
from lmassay.reporting.run_labels import short_run_titles
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Result, RunRecord, find_metric


def section_of(store: Store, records: Sequence[RunRecord]) -> Section:
    """The section of runs that share a task."""
    evaluation, make = evaluation_of(records[0]), view_of(records[0]).section
    if evaluation is None or make is None:
        return results_section(store, records)
    section = call_hook(
        evaluation, "section", make, store, records, reads=optional_instance_of(Section), otherwise=lambda: None
    )
    if section is None:
        return results_section(store, records)
    return replace(section, blocks=[*section.blocks, *_further_metrics(records)])


def _further_metrics(records: Sequence[RunRecord]) -> list[Block]:
    """Metrics that a task adds to those of its evaluation, which the evaluation's section does not know."""
    names = list(dict.fromkeys(metric for record in records for metric in _added_metrics(record)))
    if not names:
        return []
    lines = []
    for record, title in zip(records, short_run_titles(records), strict=True):
        lines.append(TableRow([name(title), *(measured(record.result(metric)) for metric in names)]))
    heads = [Cell("", kind="text")]
    for metric in names:
        declared = next(metric_of(record, metric) for record in records)
        heads.append(Cell(metric, [declared.title] if declared.title else []))
    meanings = []
    for metric in names:
        declared = metric_of(records[0], metric)
        if declared.meaning:
            meanings.append(f"{metric}: {declared.meaning}")
    return [Heading("Further metrics"), Table(" ".join(meanings), [heads], [Body(lines)])]


def _added_metrics(record: RunRecord) -> list[str]:
    """The metrics of a run's overall results that only its own task knows."""
    evaluation = evaluation_of(record)
    if evaluation is None:
        return []
    overall = [result.metric for result in record.results if result.group == OVERALL]
    own = {metric.name for metric in record.provenance.metrics} - {metric.name for metric in evaluation.metrics}
    if own:
        return [metric for metric in overall if metric in own]
    if record.task == record.base_task:
        return []
    # A task that extends another one without declaring its metrics: all that the evaluation does not know.
    return [metric for metric in overall if find_metric(metric, evaluation.metrics) is None]


def results_section(_: Store, records: Sequence[RunRecord]) -> Section:
    """The section of a task that the page knows nothing about: one table a run, one row a result."""
    return Section([results_table(record, record.results) for record in records if record.results])


def results_table(record: RunRecord, results: Sequence[Result]) -> Table:
    lines = [
        TableRow(
            [
                name(r.metric),
                Cell(r.group, kind="text"),
                Cell(value_text(r)),
                Cell(interval_text(r)),
                Cell(count(r.n).text, [clusters_text(r)] if r.clusters else []),
                count(r.n_error),
                count(r.n_unscored),
            ]
        )
        for r in results
    ]
    texts, numbers = ("metric", "group"), ("value", "interval", "n", "errors", "unscored")
    head = [*(Cell(title, kind="text") for title in texts), *map(Cell, numbers)]
    return Table(f"{record.label} on {record.model}", [head], [Body(lines)])

"""The section of a report about the runs of one task: made by the task's evaluation, or plain tables of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmassay.plugins.evaluations import evaluation_of, metric_of, view_of
from lmassay.plugins.hooks import call_hook, optional_instance_of
from lmassay.reporting.blocks import (
    Block,
    Body,
    Cell,
    Heading,
    Section,
    Table,
    TableRow,
    count,
    header_row,
    measured,
    name,
    text_cell,
)
from lmassay.reporting.numbers import clusters_text, interval_text, value_text
from lmassay.reporting.run_labels import short_run_titles
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Result, RunRecord, find_metric


def section_of(store: Store, records: Sequence[RunRecord]) -> Section:
    """Return the section about runs of one task.

    The evaluation's ``section`` hook makes it. If the evaluation has no such hook, or the hook fails, the section has a
    table of all results for each run.
    """
    evaluation = evaluation_of(records[0])
    make_section = view_of(records[0]).section
    if evaluation is None or make_section is None:
        return results_section(store, records)
    section = call_hook(
        evaluation,
        "section",
        make_section,
        store,
        records,
        reads=optional_instance_of(Section),
        otherwise=lambda: None,
    )
    if section is None:
        return results_section(store, records)
    # A task that extends a shipped task keeps the section of its evaluation, followed by a table of the metrics it
    # adds.
    return replace(section, blocks=[*section.blocks, *_further_metrics_table(records)])


def _further_metrics_table(records: Sequence[RunRecord]) -> list[Block]:
    """Return a table of the metrics that a task adds to those of its evaluation; the section does not show them."""
    metrics: dict[str, None] = {}
    for record in records:
        metrics |= dict.fromkeys(_added_metrics(record))
    if not metrics:
        return []
    header = [text_cell("")]
    meanings = []
    for metric in metrics:
        declared = metric_of(records[0], metric)
        header.append(Cell(metric, [declared.title] if declared.title else []))
        if declared.meaning:
            meanings.append(f"{metric}: {declared.meaning}")
    rows = []
    for record, title in zip(records, short_run_titles(records), strict=True):
        cells = [measured(record.result(metric)) for metric in metrics]
        rows.append(TableRow([name(title), *cells]))
    return [Heading("Further metrics"), Table(" ".join(meanings), [header], [Body(rows)])]


def _added_metrics(record: RunRecord) -> list[str]:
    """Return the metrics with an overall result that the run's task adds to those of its evaluation."""
    evaluation = evaluation_of(record)
    if evaluation is None:
        return []
    overall_metrics = [result.metric for result in record.results if result.group == OVERALL]
    task_metrics = {metric.name for metric in record.provenance.metrics}
    evaluation_metrics = {metric.name for metric in evaluation.metrics}
    declared = task_metrics - evaluation_metrics
    if not declared and record.task == record.base_task:
        return []
    added = []
    for metric in overall_metrics:
        if declared:
            is_added = metric in declared
        else:
            # The task extends another one without declaring metrics: those that its evaluation lacks are added ones.
            is_added = find_metric(metric, evaluation.metrics) is None
        if is_added:
            added.append(metric)
    return added


def results_section(_: Store, records: Sequence[RunRecord]) -> Section:
    """Return the section of a task whose evaluation does not make one: a table per run with one row per result."""
    finished = [record for record in records if record.results]
    return Section([results_table(record, record.results) for record in finished])


def results_table(record: RunRecord, results: Sequence[Result]) -> Table:
    """Return a table of results of a run, one per row."""
    rows = []
    for result in results:
        clusters = [clusters_text(result)] if result.clusters else []
        cells = [
            name(result.metric),
            text_cell(result.group),
            Cell(value_text(result)),
            Cell(interval_text(result)),
            Cell(f"{result.n:,}", clusters),
            count(result.n_error),
            count(result.n_unscored),
        ]
        rows.append(TableRow(cells))
    header = header_row(["metric", "group"], ["value", "interval", "n", "errors", "unscored"])
    return Table(record.title, [header], [Body(rows)])

"""Tables of the bias section: one row per model, with its prompts folded below; and one row per category.

A family is one model with the prompts of one file; see `runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import stdev

from lmassay.evaluations.bias.report.runs import (
    CONTEXT_TITLES,
    OVERALL,
    BiasRun,
    PromptFamily,
    bias_metrics,
    bias_name,
    groups_by_kind,
)
from lmassay.reporting.blocks import ABSENT, Body, Cell, Table, TableRow, count, name
from lmassay.reporting.numbers import interval_text, number_text, value_text

DIGITS = 3
_COUNTS = ("answers", "errors", "unscored")
_HEADLINE_CAPTION = (
    "Below each value is its interval, clustered by template, because questions made from one template are similar. "
    "bound: how far from zero the bias can be at that accuracy. answers: all answers that the model gave; one "
    "that names no choice counts only as out of choice. errors and unscored answers (such as refused or filtered "
    "ones) are left out; they do not count as wrong."
)
_MEANS_CAPTION = (
    "The interval of a mean over prompts holds only for these prompts; their standard deviation (SD) shows how much "
    "other prompts may differ."
)


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """A column for a metric; ``context`` is "amb" or "dis" if the metric is about one kind of context, else empty."""

    metric: str
    title: str
    context: str = ""

    @property
    def full_title(self) -> str:
        """The title with the kind of context."""
        if not self.context:
            return self.title
        return f"{self.title}, {CONTEXT_TITLES[self.context]}"


def metric_columns(runs: Sequence[BiasRun]) -> list[MetricColumn]:
    """Return the columns that all tables of these runs show."""
    columns = []
    for context, bias in zip(CONTEXT_TITLES, bias_metrics(runs), strict=True):
        columns.append(MetricColumn(f"accuracy_{context}", "accuracy", context))
        if any(run.result(f"control_accuracy_{context}") is not None for run in runs):
            columns.append(MetricColumn(f"control_accuracy_{context}", "accuracy, control", context))
        columns.append(MetricColumn(bias, bias_name(bias), context))
    columns.append(MetricColumn("ooc", "out of choice"))
    # Without rotations, each question has only one answer, so there is no consistency.
    if any(run.result("consistency") is not None for run in runs):
        columns.append(MetricColumn("consistency", "same in all orders"))
    return columns


def headline(families: Sequence[PromptFamily]) -> Table:
    """Return a table with one row per family: the mean over its prompts, with a folded row for each prompt."""
    runs: list[BiasRun] = []
    for family in families:
        runs += family.runs
    columns = metric_columns(runs)

    def cells(family: PromptFamily) -> list[Cell]:
        return [*_measures(family, OVERALL, columns), *_counts(family, OVERALL)]

    caption = _HEADLINE_CAPTION
    if any(len(family.runs) > 1 for family in families):
        caption = f"{_HEADLINE_CAPTION} {_MEANS_CAPTION}"
    return Table(caption, _headers("model", columns), rows_by_family(families, cells), dense=True)


def by_group(family: PromptFamily) -> Table:
    """Return a table with a row for all data, for each label and for each category."""
    columns = metric_columns(family.runs)
    rows = [TableRow(_group_cells(family, OVERALL, OVERALL, columns), "total")]
    for kind, groups in groups_by_kind(family.runs).items():
        blank_cells = [Cell("")] * (len(columns) + len(_COUNTS))
        rows.append(TableRow([name(f"by {kind}"), *blank_cells], "head"))
        for group in groups:
            label = group.partition("=")[2]
            rows.append(TableRow(_group_cells(family, group, label, columns)))
    caption = _MEANS_CAPTION if len(family.runs) > 1 else ""
    return Table(caption, _headers("", columns), [Body(rows)], dense=True)


def rows_by_family(
    families: Sequence[PromptFamily], cells: Callable[[PromptFamily], Sequence[Cell]], summary: str = "mean of"
) -> list[Body]:
    """Return a row per family, and its prompts folded below; ``summary`` says how the row combines the prompts."""
    bodies = []
    for family in families:
        has_several = len(family.runs) > 1
        scope = f"{summary} {len(family.runs)} prompts" if has_several else prompt_name(family.first)
        small_print = [family.variant, scope] if family.variant else [scope]
        rows = [TableRow([name(family.first.model, *small_print), *cells(family)])]
        if has_several:
            for run in family.runs:
                rows.append(TableRow([name(prompt_name(run)), *cells(PromptFamily([run]))], "part"))
        bodies.append(Body(rows, folds=has_several))
    return bodies


def prompt_name(run: BiasRun) -> str:
    """Return the prompt's number, or the label of a run that has none."""
    if not run.prompt_id:
        return run.record.label
    return f"prompt {run.prompt_id}"


def measure(family: PromptFamily, metric: str, group: str = OVERALL, edge: bool = False) -> Cell:
    """Return the cell of a value, with interval, bound, spread over prompts and coverage in small print."""
    result = family.result(metric, group)
    if result is None:
        return Cell("", (ABSENT,), edge=edge)
    if result.value is None:
        return Cell(value_text(result), edge=edge)
    has_several = len(family.runs) > 1
    small_print = []
    # A single prompt without an interval says so; a mean over prompts shows their spread instead.
    if not has_several or result.low is not None:
        small_print.append(interval_text(result, DIGITS))
    if metric in bias_metrics(family.runs):
        bound = family.bound(metric, group)
        if bound:
            small_print.append(f"bound ±{bound[0]:.{DIGITS}f}")
    if has_several:
        values = [value for _, value in family.prompt_values(metric, group)]
        small_print.append(_spread(values, len(family.runs)))
    small_print += _coverage(family, metric, group)
    return Cell(number_text(result.value, DIGITS), small_print, edge=edge)


def _group_cells(family: PromptFamily, group: str, label: str, columns: Sequence[MetricColumn]) -> list[Cell]:
    return [name(label), *_measures(family, group, columns), *_counts(family, group)]


def _measures(family: PromptFamily, group: str, columns: Sequence[MetricColumn]) -> list[Cell]:
    cells = []
    for index, column in enumerate(columns):
        cells.append(measure(family, column.metric, group, edge=_begins_group(columns, index)))
    return cells


def _begins_group(columns: Sequence[MetricColumn], index: int) -> bool:
    """Return True where a group of columns begins."""
    return index == 0 or columns[index].context != columns[index - 1].context


def _counts(family: PromptFamily, group: str) -> list[Cell]:
    result = family.result("ooc", group)
    if result is None:
        return [count(None) for _ in _COUNTS]
    return [count(result.n), count(result.n_error), count(result.n_unscored)]


def _headers(first: str, columns: Sequence[MetricColumn]) -> list[list[Cell]]:
    contexts = []
    for context, title in CONTEXT_TITLES.items():
        span = sum(column.context == context for column in columns)
        contexts.append(Cell(f"{title} contexts", span=span, edge=True))
    columns_without_context = sum(not column.context for column in columns)
    remaining = Cell("", span=columns_without_context + len(_COUNTS), edge=True)
    titles = []
    for index, column in enumerate(columns):
        titles.append(Cell(column.title, edge=_begins_group(columns, index)))
    count_titles = [Cell(title) for title in _COUNTS]
    return [
        [Cell("", kind="text"), *contexts, remaining],
        [Cell(first, kind="text"), *titles, *count_titles],
    ]


def _spread(values: Sequence[float], prompts: int) -> str:
    text = "one prompt"
    if len(values) > 1:
        text = f"SD {stdev(values):.{DIGITS}f}"
    if len(values) < prompts:
        text += f" ({len(values)} of {prompts} prompts)"
    return text


def _coverage(family: PromptFamily, metric: str, group: str) -> list[str]:
    """Return a text on how many templates have data, if some have none."""
    coverages = []
    for run in family.runs:
        result = run.result(f"coverage_{metric}", group)
        if result is not None:
            coverages.append((result.value or 0.0, result.n))
    if not coverages:
        return []
    # For several prompts, the one with the least data is reported: the mean is only as complete as that.
    share, templates = min(coverages)
    return [f"{round(share * templates):,} of {templates:,} templates"]

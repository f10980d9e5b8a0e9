"""Figures of the bias section: categories, and how much the prompt alone moves a number."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import stdev

from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.report import plots
from lmassay.evaluations.bias.report.runs import (
    CONTEXTS,
    OVERALL,
    BiasRun,
    PromptFamily,
    bias_metrics,
    bias_name,
    groups_of,
)
from lmassay.evaluations.bias.report.tables import DIGITS, by_group, metric_columns, prompt_name
from lmassay.reporting.blocks import Block, Body, Cell, Figure, Figures, Folded, Heading, Note, Table, TableRow, name
from lmassay.reporting.numbers import interval_text, number_text, value_text

MOST_FAMILIES = 12


def categories(families: Sequence[PromptFamily]) -> list[Block]:
    """For each family a figure a context, one scale of bias for all of them, and the numbers folded below."""
    runs = [run for family in families for run in family.runs]
    biases = bias_metrics(runs)
    drawn = families[:MOST_FAMILIES]
    limit = plots.limit_of(
        [e for f in drawn for metric in biases for group in _groups(f) if (e := _estimate(f, metric, group))]
    )
    blocks: list[Block] = []
    for number, family in enumerate(drawn):
        figures = []
        for (context, what), bias in zip(CONTEXTS.items(), biases, strict=True):
            rows = _rows(family, f"accuracy_{context}", bias)
            heads = (f"{what} contexts", bias_name(bias))
            chart = plots.bar_chart(rows, heads, limit, f"{family.title}: {what} contexts by category")
            figures.append(Figure(chart.svg(), f"{family.title}, {what} contexts."))
        blocks.append(Heading(f"By category: {family.title}" if len(drawn) > 1 else "By category"))
        blocks += [Note(_legend(families))] if number == 0 else []
        blocks.append(Figures(figures, "middle"))
        blocks.append(Folded(f"All numbers of {family.title} by label and category", [by_group(family)]))
    if left_out := len(families) - len(drawn):
        blocks.append(Note(f"{left_out} more are not drawn; report them by themselves."))
    return blocks


def spread(families: Sequence[PromptFamily]) -> list[Block]:
    """How far apart the prompts of one family are."""
    several = [family for family in families if len(family.runs) > 1]
    if not several:
        return []
    shown = [c for c in metric_columns([run for f in several for run in f.runs]) if c.context]
    biases = [column.metric for column in shown if not column.metric.startswith("accuracy")]
    limit = plots.limit_of(
        [plots.PlottedValue(v) for f in several for metric in biases for _, v in f.of_prompts(metric)]
    )
    figures = []
    for column in shown:
        title = f"{column.title}, {CONTEXTS[column.context]} contexts"
        strips = [_strip(family, column.metric) for family in several[:MOST_FAMILIES]]
        low = -limit if column.metric in biases else 0.0
        chart = plots.strip_chart(strips, low, title, f"{title}: each prompt a dot")
        figures.append(Figure(chart.svg(), ""))
    return [
        Heading("What the prompt alone changes"),
        Note(_moved(several, (biases[0], "accuracy_amb"))),
        Figures(figures, "middle"),
        _spread_table(several),
    ]


# --- categories -------------------------------------------------------------------------------------------------------


def _legend(families: Sequence[PromptFamily]) -> str:
    """What the bars mean."""
    several = any(len(family.runs) > 1 for family in families)
    ticks = " The bar is the mean over prompts, ticks below it are the prompts." if several else ""
    return (
        "The line across a bar is its interval, which ends where its bound does. The shaded room around zero is what "
        "the accuracy leaves to the bias: strong at the accuracy found, faint as far as its interval allows." + ticks
    )


def _groups(family: PromptFamily) -> list[str]:
    return [OVERALL, *(group for groups in groups_of(family.runs).values() for group in groups)]


def _rows(family: PromptFamily, accuracy: str, bias: str) -> list[plots.BarRow]:
    rows = [plots.BarRow(OVERALL, _estimate(family, accuracy, OVERALL), _estimate(family, bias, OVERALL))]
    for kind, groups in groups_of(family.runs).items():
        rows.append(plots.BarRow(f"by {kind}"))
        rows += [
            plots.BarRow(group.partition("=")[2], _estimate(family, accuracy, group), _estimate(family, bias, group))
            for group in groups
        ]
    return rows


def _estimate(family: PromptFamily, metric: str, group: str) -> plots.PlottedValue | None:
    result = family.result(metric, group)
    if result is None:
        return None
    if result.value is None:
        return plots.PlottedValue(None, title=value_text(result))
    prompts = [value for _, value in family.of_prompts(metric, group)] if len(family.runs) > 1 else []
    bound = None if metric.startswith("accuracy") else family.bound(metric, group)
    title = f"{metric}, {group}: {number_text(result.value, DIGITS)} {interval_text(result, DIGITS)}, n {result.n:,}"
    title += f"; bound ±{bound[0]:.{DIGITS}f}" if bound else ""
    return plots.PlottedValue(result.value, result.low, result.high, prompts, bound, title)


# --- spread over prompts ----------------------------------------------------------------------------------------------


def _strip(family: PromptFamily, metric: str) -> plots.Strip:
    found = [(f"{prompt_name(run)}: {number_text(value, DIGITS)}", value) for run, value in family.of_prompts(metric)]
    values = [value for _, value in found]
    return plots.Strip(family.title, found, _mean_and_spread(values) if values else plots.NO_DATA)


def _mean_and_spread(values: Sequence[float]) -> str:
    mean = number_text(scores.mean_over_prompts(values), DIGITS)
    return f"{mean} ± {stdev(values):.{DIGITS}f}" if len(values) > 1 else mean


def _spread_table(families: Sequence[PromptFamily]) -> Table:
    found = metric_columns([run for family in families for run in family.runs])
    titles = [f"{c.title}, {CONTEXTS[c.context]}" if c.context else c.title for c in found]
    lines = []
    for family in families:
        small = [family.variant] if family.variant else []
        cells = [_spread_cell(family.of_prompts(column.metric)) for column in found]
        lines.append(TableRow([name(family.first.model, *small, f"{len(family.runs)} prompts"), *cells]))
    caption = (
        "Highest less lowest prompt in points; which they are, their mean and standard deviation. The prompts of one "
        "file ask the same of the same questions: only the wording differs."
    )
    return Table(caption, [[Cell("model", kind="text"), *map(Cell, titles)]], [Body(lines)], dense=True)


def _spread_cell(found: Sequence[tuple[BiasRun, float]]) -> Cell:
    if not found:
        return Cell(plots.NO_DATA)
    (low, least), (high, most) = (end(found, key=lambda pair: pair[1]) for end in (min, max))
    small = [
        f"lowest {number_text(least, DIGITS)} ({prompt_name(low)})",
        f"highest {number_text(most, DIGITS)} ({prompt_name(high)})",
        f"mean {_mean_and_spread([value for _, value in found])}",
    ]
    return Cell(f"{100 * (most - least):.1f} points", small)


def _moved(families: Sequence[PromptFamily], metrics: Sequence[str]) -> str:
    """The sentence: how far the prompt alone moves bias and accuracy, at most."""
    told = []
    for metric in metrics:
        ranges = [
            (max(values) - min(values), family, values)
            for family in families
            if (values := [value for _, value in family.of_prompts(metric)])
        ]
        if ranges:
            width, family, values = max(ranges, key=lambda found: found[0])
            whose = f"{family.title}, " if len(families) > 1 else ""
            ends = f"{number_text(min(values), DIGITS)} to {number_text(max(values), DIGITS)}"
            what = "accuracy" if metric.startswith("accuracy") else bias_name(metric)
            told.append(f"{what} by {'up to ' if whose else ''}{100 * width:.1f} points ({whose}{ends})")
    return f"In ambiguous contexts the wording of the prompt alone moves {' and '.join(told)}." if told else ""

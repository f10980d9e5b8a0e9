"""Figures of the bias section: bias by category, and how much the wording of the prompt changes a number.

A family is one model with the prompts of one file; see `runs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import stdev

from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.report import plots
from lmassay.evaluations.bias.report.plots import PlottedValue
from lmassay.evaluations.bias.report.runs import (
    CONTEXT_TITLES,
    OVERALL,
    BiasRun,
    PromptFamily,
    bias_metrics,
    bias_name,
    groups_by_kind,
)
from lmassay.evaluations.bias.report.tables import DIGITS, by_group, metric_columns, prompt_name
from lmassay.reporting.blocks import Block, Body, Cell, Figure, Figures, Folded, Heading, Note, Table, TableRow, name
from lmassay.reporting.figure_rules import MIN_POINTS
from lmassay.reporting.numbers import interval_text, number_text, value_text
from lmassay.types.wording import counted

MAX_FAMILIES = 12
"""Figures are drawn only for this many families, the first ones."""

# --- categories -------------------------------------------------------------------------------------------------------


def categories(families: Sequence[PromptFamily]) -> list[Block]:
    """Return, for each family, a figure for each kind of context and a folded table of all numbers.

    The axes of bias have the same range in all figures.
    """
    biases = bias_metrics(_runs_of(families))
    drawn_families = families[:MAX_FAMILIES]
    all_values = []
    for family in drawn_families:
        for bias in biases:
            for group in _groups(family):
                value = _plotted_value(family, bias, group)
                if value is not None:
                    all_values.append(value)
    limit = plots.limit_of(all_values)
    blocks: list[Block] = []
    for number, family in enumerate(drawn_families):
        figures = []
        for (context, context_title), bias in zip(CONTEXT_TITLES.items(), biases, strict=True):
            rows = _bar_rows(family, f"accuracy_{context}", bias)
            titles = (f"{context_title} contexts", bias_name(bias))
            chart = plots.bar_chart(rows, titles, limit, f"{family.title}: {context_title} contexts by category")
            figures.append(Figure.of(chart, f"{family.title}, {context_title} contexts."))
        heading = "By category"
        if len(drawn_families) > 1:
            heading += f": {family.title}"
        blocks.append(Heading(heading))
        if number == 0:
            blocks.append(Note(_how_to_read(families), explains_figures=True))
        blocks.append(Figures(figures, "middle"))
        blocks.append(Folded(f"All numbers of {family.title} by label and category", [by_group(family)]))
    left_out = len(families) - len(drawn_families)
    if left_out:
        blocks.append(
            Note(
                f"Figures of {counted(left_out, 'more model')} are not drawn; to see them, write a report about only "
                "the runs of these models."
            )
        )
    return blocks


def _runs_of(families: Sequence[PromptFamily]) -> list[BiasRun]:
    """Return the runs of all families in one list."""
    runs: list[BiasRun] = []
    for family in families:
        runs += family.runs
    return runs


def _how_to_read(families: Sequence[PromptFamily]) -> str:
    text = (
        "The line across a bar is its interval, cut off at the bound. The shaded area around zero is the bias that is "
        "possible: dark at the measured accuracy, light at any accuracy within its interval."
    )
    if any(len(family.runs) > 1 for family in families):
        text += " The bar is the mean over prompts; the ticks below it are the prompts."
    return text


def _groups(family: PromptFamily) -> list[str]:
    groups = [OVERALL]
    for members in groups_by_kind(family.runs).values():
        groups += members
    return groups


def _bar_rows(family: PromptFamily, accuracy: str, bias: str) -> list[plots.BarRow]:
    """Return a row for all data, then a heading for each kind of group with a row for each of its groups."""

    def row(label: str, group: str) -> plots.BarRow:
        return plots.BarRow(label, _plotted_value(family, accuracy, group), _plotted_value(family, bias, group))

    rows = [row(OVERALL, OVERALL)]
    for kind, groups in groups_by_kind(family.runs).items():
        rows.append(plots.BarRow(f"by {kind}"))
        for group in groups:
            label = group.partition("=")[2]
            rows.append(row(label, group))
    return rows


def _plotted_value(family: PromptFamily, metric: str, group: str) -> PlottedValue | None:
    result = family.result(metric, group)
    if result is None:
        return None
    if result.value is None:
        return PlottedValue(None, title=value_text(result))
    prompt_values = []
    if len(family.runs) > 1:
        prompt_values = [value for _, value in family.prompt_values(metric, group)]
    title = f"{metric}, {group}: {number_text(result.value, DIGITS)} {interval_text(result, DIGITS)}, n = {result.n:,}"
    bound = None
    if not metric.startswith("accuracy"):
        bound = family.bound(metric, group)
    if bound is not None:
        at_measured_accuracy, _ = bound
        title += f"; bound ±{at_measured_accuracy:.{DIGITS}f}"
    return PlottedValue(result.value, result.low, result.high, prompt_values, bound, title)


# --- spread over prompts ----------------------------------------------------------------------------------------------


def spread(families: Sequence[PromptFamily]) -> list[Block]:
    """Return figures and a table of how much numbers differ between prompts, for families with several prompts."""
    with_several = [family for family in families if len(family.runs) > 1]
    if not with_several:
        return []
    runs = _runs_of(with_several)
    # Metrics that are about one kind of context; those over all contexts have no figure here.
    columns = [column for column in metric_columns(runs) if column.context]
    biases = bias_metrics(runs)
    bias_values = []
    for family in with_several:
        for bias in biases:
            for _, value in family.prompt_values(bias):
                bias_values.append(PlottedValue(value))
    limit = plots.limit_of(bias_values)
    figures = []
    for column in columns:
        title = f"{column.full_title} contexts"
        strips = [_strip(family, column.metric) for family in with_several[:MAX_FAMILIES]]
        low = 0.0
        if column.metric in biases:
            # A bias may be in either direction.
            low = -limit
        chart = plots.strip_chart(strips, low, title, f"{title}: each prompt a dot")
        figures.append(Figure.of(chart, ""))
    blocks: list[Block] = [
        Heading("What the prompt alone changes"),
        Note(_largest_effects(with_several, (biases[0], "accuracy_amb"))),
    ]
    # For two prompts, the sentence and the table say as much as a figure with two dots would.
    most_prompts = max(len(family.runs) for family in with_several)
    if most_prompts >= MIN_POINTS:
        blocks.append(Figures(figures, "middle"))
    return [*blocks, _spread_table(with_several)]


def _strip(family: PromptFamily, metric: str) -> plots.Strip:
    dots = []
    for run, value in family.prompt_values(metric):
        dots.append((f"{prompt_name(run)}: {number_text(value, DIGITS)}", value))
    values = [value for _, value in dots]
    summary = plots.NO_DATA
    if values:
        summary = _mean_and_spread(values)
    return plots.Strip(family.title, dots, summary)


def _mean_and_spread(values: Sequence[float]) -> str:
    """Return the mean over prompts ± their standard deviation, which a single prompt does not have."""
    mean = number_text(scores.mean_over_prompts(values), DIGITS)
    if len(values) < 2:
        return mean
    return f"{mean} ± {stdev(values):.{DIGITS}f}"


def _spread_table(families: Sequence[PromptFamily]) -> Table:
    columns = metric_columns(_runs_of(families))
    rows = []
    for family in families:
        small_print = [f"{len(family.runs)} prompts"]
        if family.variant:
            small_print.insert(0, family.variant)
        cells = [name(family.first.model, *small_print)]
        for column in columns:
            cells.append(_spread_cell(family.prompt_values(column.metric)))
        rows.append(TableRow(cells))
    caption = (
        "The highest minus the lowest prompt in points; which prompts they are, and mean and standard deviation over "
        "prompts. The prompts of one file ask the same questions; only the wording differs."
    )
    header = [Cell("model", kind="text")]
    for column in columns:
        header.append(Cell(column.full_title))
    return Table(caption, [header], [Body(rows)], dense=True)


def _spread_cell(prompt_values: Sequence[tuple[BiasRun, float]]) -> Cell:
    if not prompt_values:
        return Cell(plots.NO_DATA)
    by_value = sorted(prompt_values, key=lambda pair: pair[1])
    lowest_run, lowest = by_value[0]
    highest = by_value[-1][1]
    # If several prompts have the highest value, the first one is named, as for the lowest value.
    highest_run = next(run for run, value in by_value if value == highest)
    small_print = [
        f"lowest {number_text(lowest, DIGITS)} ({prompt_name(lowest_run)})",
        f"highest {number_text(highest, DIGITS)} ({prompt_name(highest_run)})",
        f"mean {_mean_and_spread([value for _, value in prompt_values])}",
    ]
    return Cell(f"{100 * (highest - lowest):.1f} points", small_print)


def _largest_effects(families: Sequence[PromptFamily], metrics: Sequence[str]) -> str:
    """Return a sentence on the largest effects of the wording of the prompt on these metrics."""
    effects = []
    for metric in metrics:
        widest: PromptFamily | None = None
        lowest = 0.0
        highest = 0.0
        for family in families:
            values = [value for _, value in family.prompt_values(metric)]
            if not values:
                continue
            # The first family is always taken, because all its prompts may give the same number.
            if widest is None or max(values) - min(values) > highest - lowest:
                widest = family
                lowest = min(values)
                highest = max(values)
        if widest is None:
            continue
        metric_title = "accuracy" if metric.startswith("accuracy") else bias_name(metric)
        points = f"{100 * (highest - lowest):.1f} points"
        span = f"{number_text(lowest, DIGITS)} to {number_text(highest, DIGITS)}"
        if len(families) > 1:
            effects.append(f"{metric_title} by up to {points} ({widest.title}, {span})")
        else:
            effects.append(f"{metric_title} by {points} ({span})")
    if not effects:
        return ""
    return f"In ambiguous contexts the wording of the prompt alone changes {' and '.join(effects)}."

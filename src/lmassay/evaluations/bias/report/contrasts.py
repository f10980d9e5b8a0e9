"""Contrasts as the page shows them: a table with points and relative change, arrows by category."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from lmassay.evaluations.bias.report import plots
from lmassay.evaluations.bias.report.pairs import (
    MOST_PAIRS,
    Change,
    Contrast,
    compared,
    of_models,
    of_prompts,
    of_settings,
    points,
    relative,
    sentence,
)
from lmassay.evaluations.bias.report.runs import (
    CONTEXTS,
    OVERALL,
    Family,
    Run,
    bias_metrics,
    bias_name,
    groups_of,
    is_debiased,
)
from lmassay.evaluations.bias.report.tables import DIGITS, Column, columns
from lmassay.reporting.blocks import Block, Body, Cell, Figure, Figures, Folded, Heading, Line, Note, Table, count, name
from lmassay.reporting.numbers import number_text, p_text
from lmassay.statistics.comparison import Comparison
from lmassay.storage.store import Store

_HOW_TO_READ = (
    "Change in points: percentage points, after − before, with its interval. Relative change: the same as a share of "
    "what it was before; of a number near zero it says little. Paired by example on those that both runs answered; p "
    "from a test that swaps the two within templates at random, of means over prompts from Student's t over templates; "
    "FDR: adjusted for all single tests of this kind."
)
_SIXTEEN = (
    "The plain mean over all rows of a table of results (overall, labels, categories) and over prompts, as KoBBQ's "
    "comparison counts: every answer counts three times, small categories as much as large ones."
)


def blocks(store: Store, families: Sequence[Family]) -> list[Block]:
    """Prompts against prompts in full, other contrasts folded."""
    kinds = {
        "Default against debiased": of_prompts(families),
        "Models against each other": of_models(families),
        "Settings against each other": of_settings(families),
    }
    room, found, left_out = MOST_PAIRS, [], 0
    for title, contrasts in kinds.items():
        fitting = []
        for contrast in contrasts:
            if len(contrast.runs) <= room:
                room -= len(contrast.runs)
                fitting.append(contrast)
            else:
                left_out += len(contrast.runs)
        found.append((title, compared(store, fitting)))
    shown: list[Block] = []
    for title, contrasts in found:
        if not contrasts:
            continue
        debiased = any(is_debiased(contrast.after.first) for contrast in contrasts)
        prompts = title.startswith("Default")
        shown.append(Heading(title if debiased or not prompts else "Prompt files against each other"))
        for contrast in contrasts:
            shown += _in_full(contrast) if prompts else [Folded(contrast.title, [_table(contrast)])]
    shown += [Note(_HOW_TO_READ)] if shown else []
    if left_out:
        shown.append(Note(f"{left_out} further pairs of runs are not tested here; see `lmassay compare`."))
    return shown


def _in_full(contrast: Contrast) -> list[Block]:
    sixteen = _sixteen_rows(contrast)
    return [
        Note(sentence(contrast)),
        _table(contrast),
        Figures(_figures(contrast), "middle"),
        *([Folded(f"{contrast.title}: the mean over rows of the table of results", [sixteen])] if sixteen else []),
    ]


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(contrast: Contrast) -> Table:
    titles = {column.metric: _title(column) for column in columns(contrast.before.runs)}
    bodies = []
    for metric in contrast.metrics:
        change = contrast.change(metric)
        if change is None:
            continue
        several = len(change.rows) > 1
        lines = [Line(_cells(titles[metric], change))]
        if several:
            parts = [(prompt, found[metric]) for prompt, found in contrast.rows if metric in found]
            lines += [Line(_cells(prompt, _single(row)), "part") for prompt, row in parts]
        bodies.append(Body(lines, folds=several))
    head = [
        Cell("", kind="text"),
        Cell(contrast.before_name),
        Cell(contrast.after_name),
        *map(Cell, ("change in points", "relative change", "p", "p (FDR)", "pairs")),
    ]
    return Table("", [head], bodies)


def _title(column: Column) -> str:
    return f"{column.title}, {CONTEXTS[column.context]}" if column.context else column.title


def _single(row: Comparison) -> Change:
    return Change(row.base_mean, row.new_mean, row.low, row.high, row.p, [row])


def _cells(label: str, change: Change) -> list[Cell]:
    interval = "n/a" if change.low is None or change.high is None else f"[{points(change.low)}, {points(change.high)}]"
    rows, small = change.rows, [interval]
    tests = [Cell(p_text(change.p)), Cell(p_text(rows[0].p_adjusted))]
    if len(rows) > 1:
        ends = [points(end) for end in (min(r.difference for r in rows), max(r.difference for r in rows))]
        small.append(f"prompts {ends[0]} to {ends[1]}")
        tests = [Cell(p_text(change.p), (_signs(change),)), Cell("")]
    return [
        name(label, *([f"mean of {len(rows)} prompts"] if len(rows) > 1 else [])),
        Cell(number_text(change.before, DIGITS)),
        Cell(number_text(change.after, DIGITS)),
        Cell(points(change.difference), small),
        Cell(relative(change.relative)),
        *tests,
        count(sum(row.n for row in rows)),
    ]


def _signs(change: Change) -> str:
    way, right = ("lower", [r.difference < 0 for r in change.rows])
    if change.difference > 0:
        way, right = "higher", [r.difference > 0 for r in change.rows]
    return f"{way} in {sum(right)} of {len(right)}"


def _sixteen_rows(contrast: Contrast) -> Table | None:
    """KoBBQ's own comparison; None where a cell has no data or the scores are not KoBBQ's."""
    if "diff_bias_amb" not in bias_metrics(contrast.before.runs):
        return None
    lines = []
    kinds = {"accuracy": ("accuracy_amb", "accuracy_dis"), "diff-bias": ("diff_bias_amb", "diff_bias_dis")}
    for kind, both in kinds.items():
        means: list[list[float]] = []
        for metric in both:
            sides = [_mean_of_rows(side, metric) for side in zip(*contrast.runs, strict=True)]
            known = [mean for mean in sides if mean is not None]
            if len(known) < len(sides):
                return None
            lines.append(Line(_plain_cells(f"{kind}, {CONTEXTS[metric[-3:]]}", *known)))
            means.append(known)
        lines.append(Line(_plain_cells(f"{kind}, both", *map(fmean, zip(*means, strict=True))), "total"))
    names = (contrast.before_name, contrast.after_name)
    head = [Cell("", kind="text"), *map(Cell, (*names, "change in points", "relative change"))]
    return Table(_SIXTEEN, [head], [Body(lines)])


def _plain_cells(label: str, before: float, after: float) -> list[Cell]:
    change = Change(before, after, None, None, None)
    numbers = [Cell(number_text(value, 4)) for value in (before, after)]
    return [name(label), *numbers, Cell(points(change.difference)), Cell(relative(change.relative))]


def _mean_of_rows(runs: Sequence[Run], metric: str) -> float | None:
    values = []
    for run in runs:
        kinds = groups_of([run])
        for group in (OVERALL, *kinds.get("label", []), *kinds.get("category", [])):
            result = run.result(metric, group)
            if result is None or result.value is None:
                return None
            values.append(result.value)
    return fmean(values)


# --- figures ----------------------------------------------------------------------------------------------------------


def _figures(contrast: Contrast) -> list[Figure]:
    before, after = (Family(list(side)) for side in zip(*contrast.runs, strict=True))
    biases = bias_metrics(before.runs)
    groups = groups_of([*before.runs, *after.runs])
    names = [OVERALL, *(group for found in groups.values() for group in found)]
    estimates = [e for metric in biases for group in names for e in _estimates(before, after, metric, group) or ()]
    limit = plots.limit_of(estimates)
    figures = []
    for (context, what), bias in zip(CONTEXTS.items(), biases, strict=True):

        def row(group: str, metrics: tuple[str, str] = (f"accuracy_{context}", bias)) -> plots.ArrowRow:
            label = group.partition("=")[2] or group
            return plots.ArrowRow(label, *(_estimates(before, after, metric, group) for metric in metrics))

        rows = [row(OVERALL)]
        for kind, found in groups.items():
            rows += [plots.ArrowRow(f"by {kind}"), *map(row, found)]
        description = (
            f"{contrast.title}, {what} contexts: from {contrast.before_name} (○) to {contrast.after_name} (arrow)"
        )
        chart = plots.arrow_chart(rows, (f"{what} contexts", bias_name(bias)), limit, description)
        figures.append(Figure(chart.svg(), f"{description}; beside it the change in points."))
    return figures


def _estimates(before: Family, after: Family, metric: str, group: str) -> tuple[plots.Estimate, plots.Estimate] | None:
    found = [side.result(metric, group) for side in (before, after)]
    if found[0] is None or found[1] is None:
        return None
    values = [result.value for result in found if result is not None]
    title = f"{metric}, {group}: from {number_text(values[0], DIGITS)} to {number_text(values[1], DIGITS)}"
    first, second = (plots.Estimate(value, title="" if None in values else title) for value in values)
    return first, second

"""Tables of the bias section: a line a model with its prompts folded below, and a line a category."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import stdev

from lmassay.evaluations.bias.report.runs import (
    CONTEXTS,
    OVERALL,
    BiasRun,
    PromptFamily,
    bias_metrics,
    bias_name,
    groups_of,
)
from lmassay.reporting.blocks import ABSENT, Body, Cell, Table, TableRow, count, name
from lmassay.reporting.numbers import interval_text, number_text, value_text

DIGITS = 3
_COUNTS = ("answers", "errors", "unscored")
_WHAT_IT_IS = (
    "Below each value its interval, which holds templates together, for questions made from one are alike. bound: how "
    "far from zero the bias can be at that accuracy. answers: those that came; they count as out of choice where no "
    "choice could be read, and nowhere else. errors, unscored (refused, filtered, empty) are left out, never wrong."
)
_MEANS = (
    "A mean over prompts takes the prompts as given: how far other prompts might be off is told by SD, their spread."
)


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """A metric under its title; ``context`` stands above those of ambiguous and of disambiguated contexts."""

    metric: str
    title: str
    context: str = ""


def metric_columns(runs: Sequence[BiasRun]) -> list[MetricColumn]:
    """What all tables of these runs show."""
    found = []
    for context, bias in zip(CONTEXTS, bias_metrics(runs), strict=True):
        found += [
            MetricColumn(f"accuracy_{context}", "accuracy", context),
            MetricColumn(bias, bias_name(bias), context),
        ]
    found.append(MetricColumn("ooc", "out of choice"))
    # Without rotations there is nothing to be consistent over.
    rotated = any(run.result("consistency") is not None for run in runs)
    return found + ([MetricColumn("consistency", "same in all orders")] if rotated else [])


def headline(families: Sequence[PromptFamily]) -> Table:
    """One line a family; where it has several prompts, their mean, and one line for each that opens below."""
    runs = [run for family in families for run in family.runs]
    found = metric_columns(runs)
    bodies = lines_by_family(families, lambda family: [*_measures(family, OVERALL, found), *_counts(family, OVERALL)])
    several = any(len(family.runs) > 1 for family in families)
    return Table(f"{_WHAT_IT_IS} {_MEANS}" if several else _WHAT_IT_IS, _heads("model", found), bodies, dense=True)


def by_group(family: PromptFamily) -> Table:
    """Overall, labels, categories with every number."""
    found = metric_columns(family.runs)
    lines = [TableRow(_line(family, OVERALL, OVERALL, found), "total")]
    for kind, groups in groups_of(family.runs).items():
        lines.append(TableRow([name(f"by {kind}"), *[Cell("")] * (len(found) + len(_COUNTS))], "head"))
        lines += [TableRow(_line(family, group, group.partition("=")[2], found)) for group in groups]
    caption = _MEANS if len(family.runs) > 1 else ""
    return Table(caption, _heads("", found), [Body(lines)], dense=True)


def lines_by_family(
    families: Sequence[PromptFamily], cells: Callable[[PromptFamily], Sequence[Cell]], how: str = "mean of"
) -> list[Body]:
    """A line a family that sums its prompts up, and one for each of them folded below."""
    bodies = []
    for family in families:
        several = len(family.runs) > 1
        which = f"{how} {len(family.runs)} prompts" if several else prompt_name(family.first)
        small = [family.variant, which] if family.variant else [which]
        lines = [TableRow([name(family.first.model, *small), *cells(family)])]
        lines += [
            TableRow([name(prompt_name(run)), *cells(PromptFamily([run]))], "part") for run in family.runs if several
        ]
        bodies.append(Body(lines, folds=several))
    return bodies


def prompt_name(run: BiasRun) -> str:
    return f"prompt {run.prompt_id}" if run.prompt_id else run.record.label


def measure(family: PromptFamily, metric: str, group: str = OVERALL, edge: bool = False) -> Cell:
    """A value with interval, bound, range over prompts and coverage, as far as there are any."""
    result = family.result(metric, group)
    if result is None:
        return Cell("", (ABSENT,), edge=edge)
    if result.value is None:
        return Cell(value_text(result), edge=edge)
    several = len(family.runs) > 1
    small = [] if several and result.low is None else [interval_text(result, DIGITS)]
    if metric in bias_metrics(family.runs) and (bound := family.bound(metric, group)):
        small.append(f"bound ±{bound[0]:.{DIGITS}f}")
    if several:
        small.append(_spread([value for _, value in family.of_prompts(metric, group)], len(family.runs)))
    small += _coverage(family, metric, group)
    return Cell(number_text(result.value, DIGITS), small, edge=edge)


def _line(family: PromptFamily, group: str, label: str, found: Sequence[MetricColumn]) -> list[Cell]:
    return [name(label), *_measures(family, group, found), *_counts(family, group)]


def _measures(family: PromptFamily, group: str, found: Sequence[MetricColumn]) -> list[Cell]:
    return [measure(family, c.metric, group, edge=_begins(found, place)) for place, c in enumerate(found)]


def _begins(found: Sequence[MetricColumn], place: int) -> bool:
    """True where a group of columns begins."""
    return place == 0 or found[place].context != found[place - 1].context


def _counts(family: PromptFamily, group: str) -> list[Cell]:
    result = family.result("ooc", group)
    if result is None:
        return [count(None) for _ in _COUNTS]
    return [count(result.n), count(result.n_error), count(result.n_unscored)]


def _heads(first: str, found: Sequence[MetricColumn]) -> list[list[Cell]]:
    above = [Cell(f"{what} contexts", span=2, edge=True) for what in CONTEXTS.values()]
    rest = len(found) - 2 * len(CONTEXTS) + len(_COUNTS)
    titles = [Cell(column.title, edge=_begins(found, place)) for place, column in enumerate(found)]
    return [
        [Cell("", kind="text"), *above, Cell("", span=rest, edge=True)],
        [Cell(first, kind="text"), *titles, *map(Cell, _COUNTS)],
    ]


def _spread(values: Sequence[float], prompts: int) -> str:
    found = f"SD {stdev(values):.{DIGITS}f}" if len(values) > 1 else "one prompt"
    return found if len(values) == prompts else f"{found} ({len(values)} of {prompts} prompts)"


def _coverage(family: PromptFamily, metric: str, group: str) -> list[str]:
    """Where some templates have no data: how many have."""
    found = [result for run in family.runs if (result := run.result(f"coverage_{metric}", group)) is not None]
    if not found:
        return []
    share, templates = min((result.value or 0.0, result.n) for result in found)
    return [f"{round(share * templates):,} of {templates:,} templates"]

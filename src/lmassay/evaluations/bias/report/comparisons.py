"""Default against debiased prompts, model against model: paired by example, tested, and shown in tables and arrows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.report import plots
from lmassay.evaluations.bias.report.plots import signed
from lmassay.evaluations.bias.report.runs import (
    CONTEXTS,
    OVERALL,
    BiasRun,
    PromptFamily,
    bias_metrics,
    bias_name,
    groups_of,
    is_debiased,
    prompts_name,
)
from lmassay.evaluations.bias.report.tables import DIGITS, MetricColumn, metric_columns, prompt_name
from lmassay.reporting.blocks import (
    Block,
    Body,
    Cell,
    Figure,
    Figures,
    Folded,
    Heading,
    Note,
    Table,
    TableRow,
    count,
    name,
)
from lmassay.reporting.numbers import number_text, p_text
from lmassay.statistics.comparison import Comparison, Side, compare_runs, load_side, share_examples
from lmassay.statistics.distributions import false_discovery_rates
from lmassay.statistics.estimation import mean_of_estimates
from lmassay.storage.store import Store

MOST_PAIRS = 60
"""More pairs of runs than these are left to ``lmassay compare``."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two families that differ in one thing, by its names; ``rows`` are (prompt, its comparisons by metric)."""

    title: str
    before: PromptFamily
    after: PromptFamily
    before_name: str
    after_name: str
    rows: Sequence[tuple[str, dict[str, Comparison]]] = ()

    @property
    def runs(self) -> list[tuple[BiasRun, BiasRun]]:
        """Runs of the same prompt."""
        after = {run.prompt_id: run for run in self.after.runs}
        return [(run, after[run.prompt_id]) for run in self.before.runs if run.prompt_id in after]

    @property
    def metrics(self) -> list[str]:
        """What is compared: the columns that at least one prompt has."""
        known = {metric for _, found in self.rows for metric in found}
        return [column.metric for column in metric_columns(self.before.runs) if column.metric in known]

    def change(self, metric: str) -> BiasChange | None:
        """The mean over prompts."""
        rows = [found[metric] for _, found in self.rows if metric in found]
        if not rows:
            return None
        if len(rows) == 1:
            (row,) = rows
            return BiasChange(row.base_mean, row.new_mean, row.low, row.high, row.p, rows)
        before = scores.mean_over_prompts([row.base_mean for row in rows])
        after = scores.mean_over_prompts([row.new_mean for row in rows])
        estimates = [row.estimate for row in rows if row.estimate is not None]
        if len(rows) < len(self.runs) or len(estimates) < len(rows):
            return BiasChange(before, after, None, None, None, rows)
        mean = mean_of_estimates(estimates)
        low, high = mean.interval(self.before.first.record.settings.confidence)
        return BiasChange(before, after, low, high, mean.p_value(), rows)


@dataclass(frozen=True, slots=True)
class BiasChange:
    """A number before and after, with interval and test of the difference; ``rows`` are those of single prompts."""

    before: float
    after: float
    low: float | None
    high: float | None
    p: float | None
    rows: Sequence[Comparison] = ()

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def relative(self) -> float | None:
        """As a share of what it was: what "falls by 43 %" means, unlike "falls by 43 points"."""
        return self.difference / abs(self.before) if self.before else None


def of_prompts(families: Sequence[PromptFamily]) -> list[Contrast]:
    """Prompt files against each other for one model; the file that is called debiased comes last."""

    def order(family: PromptFamily) -> tuple[bool, bool]:
        run = family.first
        return is_debiased(run), not run.ships

    def key(family: PromptFamily) -> Hashable:
        return family.first.model, _settings(family)

    runs = [family.first for family in families]
    return [
        Contrast(
            f"{before.first.model}{_other_settings(before, families)}",
            before,
            after,
            prompts_name(before.first, runs),
            prompts_name(after.first, runs),
        )
        for before, after in _against_the_first(families, key, lambda f: f.first.prompt_file, order)
    ]


def of_models(families: Sequence[PromptFamily]) -> list[Contrast]:
    """Models against the first, where all else is the same."""

    def key(family: PromptFamily) -> Hashable:
        return family.first.prompt_file, _settings(family)

    return _titled(families, key, lambda family: family.first.model)


def of_settings(families: Sequence[PromptFamily]) -> list[Contrast]:
    """Other settings (parsing, averaging …) of one model and file of prompts."""

    def key(family: PromptFamily) -> Hashable:
        return family.first.model, family.first.prompt_file

    return _titled(families, key, _settings)


def compared(store: Store, contrasts: Sequence[Contrast]) -> list[Contrast]:
    """The contrasts with their tests, adjusted for how many there are; those that share no example are left out."""
    found = []
    for contrast in contrasts:
        rows = [(prompt_name(before), _tested(store, before, after)) for before, after in contrast.runs]
        if rows := [(prompt, tests) for prompt, tests in rows if tests]:
            found.append(replace(contrast, rows=rows))
    return _with_false_discovery_rate(found)


def sentence(contrast: Contrast) -> str:
    """What happened to the bias in ambiguous contexts, in points and relative."""
    metric = bias_metrics(contrast.before.runs)[0]
    change = contrast.change(metric)
    if change is None:
        return ""
    told = (
        f"{contrast.title}: {bias_name(metric)} in {CONTEXTS['amb']} contexts is {change.before:.3f} with "
        f"{contrast.before_name} and {change.after:.3f} with {contrast.after_name}: {points(change.difference)} points"
    )
    told += f", a relative change of {relative(change.relative)}." if change.relative is not None else "."
    values = [value for _, value in contrast.before.of_prompts(metric)]
    if len(values) > 1:
        told += (
            f" Among {contrast.before_name}, the wording alone makes {100 * (max(values) - min(values)):.1f} points."
        )
    return told


def points(difference: float) -> str:
    """A difference of shares in percentage points."""
    return signed(100 * difference, 2)


def relative(share: float | None) -> str:
    return "n/a" if share is None else f"{signed(100 * share, 1)} %"


# --- inside -----------------------------------------------------------------------------------------------------------


def _against_the_first(
    families: Sequence[PromptFamily],
    key: Callable[[PromptFamily], Hashable],
    what: Callable[[PromptFamily], Hashable],
    order: Callable[[PromptFamily], tuple[bool, ...]] = lambda family: (),
) -> Iterator[tuple[PromptFamily, PromptFamily]]:
    """Of families that have the key in common, the first against each that differs in what is compared."""
    groups: dict[Hashable, list[PromptFamily]] = {}
    for family in families:
        groups.setdefault(key(family), []).append(family)
    for members in groups.values():
        before, *others = sorted(members, key=order)
        seen = {what(before)}
        for after in others:
            if what(after) not in seen:
                seen.add(what(after))
                yield before, after


def _titled(
    families: Sequence[PromptFamily], key: Callable[[PromptFamily], Hashable], what: Callable[[PromptFamily], Hashable]
) -> list[Contrast]:
    return [
        Contrast(f"{after.title} against {before.title}", before, after, before.title, after.title)
        for before, after in _against_the_first(families, key, what)
    ]


def _settings(family: PromptFamily) -> Hashable:
    return tuple(sorted(family.first.settings.items()))


def _other_settings(family: PromptFamily, beside: Sequence[PromptFamily]) -> str:
    """What tells contrasts of one model apart."""
    alike = [other.first.settings for other in beside if other.first.model == family.first.model]
    own = family.first.settings
    keys = [key for key in own if any(other.get(key) != own[key] for other in alike)]
    return "".join(f" · {key} {own[key]}" for key in keys)


def _tested(store: Store, before: BiasRun, after: BiasRun) -> dict[str, Comparison]:
    base, new = _side(store, before), _side(store, after)
    # A model that failed on everything has nothing to be compared; the others' page is not its to spoil.
    if not share_examples(base, new) or not base.table.metrics or not new.table.metrics:
        return {}
    wanted = [column.metric for column in metric_columns([before]) if column.metric != "consistency"]
    return {row.metric: row for row in compare_runs(base, [new], wanted)}


def _side(store: Store, run: BiasRun) -> Side:
    return load_side(store, run.record) if run.table is None else Side(run.record, run.table)


def _with_false_discovery_rate(contrasts: Sequence[Contrast]) -> list[Contrast]:
    tests = [test for c in contrasts for _, found in c.rows for test in found.values()]
    p_values = {id(test): test.p for test in tests if test.p is not None}
    adjusted = dict(zip(p_values, false_discovery_rates(list(p_values.values())), strict=True))

    def with_rate(test: Comparison) -> Comparison:
        return replace(test, p_adjusted=adjusted[id(test)]) if id(test) in adjusted else test

    return [
        replace(c, rows=[(prompt, {m: with_rate(t) for m, t in found.items()}) for prompt, found in c.rows])
        for c in contrasts
    ]


# --- what the page shows: a table with points and relative change, arrows by category ---------------------------------

_HOW_TO_READ = (
    "Change in points: percentage points, after − before, with its interval. Relative change: the same as a share of "
    "what it was before; of a number near zero it says little. Paired by example on those that both runs answered; "
    "interval and p from Student's t with a variance that is robust to clusters of one template; FDR: adjusted for all "
    "single tests of this kind."
)
_SIXTEEN = (
    "The plain mean over all rows of a table of results (overall, labels, categories) and over prompts, as KoBBQ's "
    "comparison counts: every answer counts three times, small categories as much as large ones."
)


def blocks(store: Store, families: Sequence[PromptFamily]) -> list[Block]:
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
    titles = {column.metric: _title(column) for column in metric_columns(contrast.before.runs)}
    bodies = []
    for metric in contrast.metrics:
        change = contrast.change(metric)
        if change is None:
            continue
        several = len(change.rows) > 1
        lines = [TableRow(_cells(titles[metric], change))]
        if several:
            parts = [(prompt, found[metric]) for prompt, found in contrast.rows if metric in found]
            lines += [TableRow(_cells(prompt, _single(row)), "part") for prompt, row in parts]
        bodies.append(Body(lines, folds=several))
    head = [
        Cell("", kind="text"),
        Cell(contrast.before_name),
        Cell(contrast.after_name),
        *map(Cell, ("change in points", "relative change", "p", "p (FDR)", "pairs")),
    ]
    return Table("", [head], bodies)


def _title(column: MetricColumn) -> str:
    return f"{column.title}, {CONTEXTS[column.context]}" if column.context else column.title


def _single(row: Comparison) -> BiasChange:
    return BiasChange(row.base_mean, row.new_mean, row.low, row.high, row.p, [row])


def _cells(label: str, change: BiasChange) -> list[Cell]:
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


def _signs(change: BiasChange) -> str:
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
            lines.append(TableRow(_plain_cells(f"{kind}, {CONTEXTS[metric[-3:]]}", *known)))
            means.append(known)
        lines.append(TableRow(_plain_cells(f"{kind}, both", *map(scores.mean_over_contexts, *means)), "total"))
    names = (contrast.before_name, contrast.after_name)
    head = [Cell("", kind="text"), *map(Cell, (*names, "change in points", "relative change"))]
    return Table(_SIXTEEN, [head], [Body(lines)])


def _plain_cells(label: str, before: float, after: float) -> list[Cell]:
    change = BiasChange(before, after, None, None, None)
    numbers = [Cell(number_text(value, 4)) for value in (before, after)]
    return [name(label), *numbers, Cell(points(change.difference)), Cell(relative(change.relative))]


def _mean_of_rows(runs: Sequence[BiasRun], metric: str) -> float | None:
    values = []
    for run in runs:
        kinds = groups_of([run])
        for group in (OVERALL, *kinds.get("label", []), *kinds.get("category", [])):
            result = run.result(metric, group)
            if result is None or result.value is None:
                return None
            values.append(result.value)
    return scores.mean_over_prompts(values)


# --- figures ----------------------------------------------------------------------------------------------------------


def _figures(contrast: Contrast) -> list[Figure]:
    before, after = (PromptFamily(list(side)) for side in zip(*contrast.runs, strict=True))
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


def _estimates(
    before: PromptFamily, after: PromptFamily, metric: str, group: str
) -> tuple[plots.PlottedValue, plots.PlottedValue] | None:
    found = [side.result(metric, group) for side in (before, after)]
    if found[0] is None or found[1] is None:
        return None
    values = [result.value for result in found if result is not None]
    title = f"{metric}, {group}: from {number_text(values[0], DIGITS)} to {number_text(values[1], DIGITS)}"
    first, second = (plots.PlottedValue(value, title="" if None in values else title) for value in values)
    return first, second

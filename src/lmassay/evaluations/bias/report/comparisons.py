"""Compare prompt files, models and settings: paired tests by example, shown as tables and arrow charts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.report import plots
from lmassay.evaluations.bias.report.plots import PlottedValue, signed
from lmassay.evaluations.bias.report.runs import (
    CONTEXT_TITLES,
    OVERALL,
    BiasRun,
    PromptFamily,
    bias_metrics,
    bias_name,
    groups_by_kind,
    is_debiased,
    prompt_file_title,
)
from lmassay.evaluations.bias.report.tables import DIGITS, metric_columns, prompt_name
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
from lmassay.statistics.comparison import Comparison, compare_runs, relative_change
from lmassay.statistics.distributions import false_discovery_rates
from lmassay.statistics.estimation import mean_of_estimates
from lmassay.statistics.pairing import share_examples
from lmassay.statistics.sides import Side, comparable_sides, load_side
from lmassay.storage.store import Store
from lmassay.types.wording import counted

MAX_PAIRS = 60
"""At most this many pairs of runs are tested on the page; ``lmassay compare`` has no such limit."""

# --- which families are compared --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two families (see `runs`) that differ in only one thing, such as the model, and names for the two of them.

    ``rows`` are (name of a prompt, metric → comparison of the two runs); they are empty until the contrast is tested.
    """

    title: str
    before: PromptFamily
    after: PromptFamily
    before_name: str
    after_name: str
    rows: Sequence[tuple[str, dict[str, Comparison]]] = ()

    @property
    def run_pairs(self) -> list[tuple[BiasRun, BiasRun]]:
        """The pairs of runs, one of each family, that used the same prompt."""
        runs_after = {run.prompt_id: run for run in self.after.runs}
        pairs = []
        for run in self.before.runs:
            if run.prompt_id in runs_after:
                pairs.append((run, runs_after[run.prompt_id]))
        return pairs

    @property
    def metrics(self) -> list[str]:
        """The metrics that were compared for at least one prompt, in the order of the tables."""
        compared_metrics: set[str] = set()
        for _, comparisons in self.rows:
            compared_metrics.update(comparisons)
        columns = metric_columns(self.before.runs)
        return [column.metric for column in columns if column.metric in compared_metrics]

    def change(self, metric: str) -> BiasChange | None:
        """Return the change of a metric; with several prompts, the mean of their changes."""
        comparisons = [by_metric[metric] for _, by_metric in self.rows if metric in by_metric]
        if not comparisons:
            return None
        if len(comparisons) == 1:
            return _single_change(comparisons[0])
        values_before = []
        values_after = []
        estimates = []
        for comparison in comparisons:
            values_before.append(comparison.base_mean)
            values_after.append(comparison.new_mean)
            if comparison.estimate is not None:
                estimates.append(comparison.estimate)
        before = scores.mean_over_prompts(values_before)
        after = scores.mean_over_prompts(values_after)
        if len(comparisons) < len(self.run_pairs) or len(estimates) < len(comparisons):
            # Not all prompts have a test. A test of the mean over only some of them would mislead, so there is none.
            return BiasChange(before, after, None, None, None, comparisons)
        mean = mean_of_estimates(estimates)
        low, high = mean.interval(self.before.first.record.settings.confidence)
        return BiasChange(before, after, low, high, mean.p_value(), comparisons)


@dataclass(frozen=True, slots=True)
class BiasChange:
    """A number before and after a change, with the interval and the p-value of the difference.

    ``comparisons`` are the tests of the single prompts.
    """

    before: float
    after: float
    low: float | None
    high: float | None
    p: float | None
    comparisons: Sequence[Comparison] = ()

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def relative(self) -> float | None:
        """The difference relative to the value before, see :func:`relative_change`."""
        return relative_change(self.before, self.after)


def prompt_contrasts(families: Sequence[PromptFamily]) -> list[Contrast]:
    """Compare the prompt files of one model; a file that is called debiased comes last."""

    def order(family: PromptFamily) -> tuple[bool, bool]:
        run = family.first
        return is_debiased(run), not run.uses_shipped_prompts

    def shared(family: PromptFamily) -> Hashable:
        return family.first.model, _settings(family)

    def varied(family: PromptFamily) -> Hashable:
        return family.first.prompt_file

    runs = [family.first for family in families]
    contrasts = []
    for before, after in _pairs_with_first(families, shared, varied, order):
        contrast = Contrast(
            title=f"{before.first.model}{_distinguishing_settings(before, families)}",
            before=before,
            after=after,
            before_name=prompt_file_title(before.first, runs),
            after_name=prompt_file_title(after.first, runs),
        )
        contrasts.append(contrast)
    return contrasts


def model_contrasts(families: Sequence[PromptFamily]) -> list[Contrast]:
    """Compare each model with the first one that has the same prompt file and settings."""

    def shared(family: PromptFamily) -> Hashable:
        return family.first.prompt_file, _settings(family)

    def varied(family: PromptFamily) -> Hashable:
        return family.first.model

    return _titled_contrasts(families, shared, varied)


def settings_contrasts(families: Sequence[PromptFamily]) -> list[Contrast]:
    """Compare the settings (parsing, averaging …) with the first ones, for the same model and prompt file."""

    def shared(family: PromptFamily) -> Hashable:
        return family.first.model, family.first.prompt_file

    return _titled_contrasts(families, shared, _settings)


def _pairs_with_first(
    families: Sequence[PromptFamily],
    shared: Callable[[PromptFamily], Hashable],
    varied: Callable[[PromptFamily], Hashable],
    order: Callable[[PromptFamily], tuple[bool, ...]] | None = None,
) -> Iterator[tuple[PromptFamily, PromptFamily]]:
    """Yield pairs of families: the first of those with the same ``shared`` key, and each that differs in ``varied``.

    ``order`` is a sort key that determines which family is the first.
    """
    groups: dict[Hashable, list[PromptFamily]] = {}
    for family in families:
        groups.setdefault(shared(family), []).append(family)
    for members in groups.values():
        if order is not None:
            members = sorted(members, key=order)
        before, *others = members
        paired = {varied(before)}
        for after in others:
            if varied(after) not in paired:
                paired.add(varied(after))
                yield before, after


def _titled_contrasts(
    families: Sequence[PromptFamily],
    shared: Callable[[PromptFamily], Hashable],
    varied: Callable[[PromptFamily], Hashable],
) -> list[Contrast]:
    contrasts = []
    for before, after in _pairs_with_first(families, shared, varied):
        title = f"{after.title} against {before.title}"
        contrasts.append(Contrast(title, before, after, before.title, after.title))
    return contrasts


def _settings(family: PromptFamily) -> Hashable:
    return tuple(sorted(family.first.settings.items()))


def _distinguishing_settings(family: PromptFamily, families: Sequence[PromptFamily]) -> str:
    """Name the settings in which families of the same model differ."""
    settings = family.first.settings
    same_model = [other.first.settings for other in families if other.first.model == family.first.model]
    text = ""
    for key, value in settings.items():
        if any(other.get(key) != value for other in same_model):
            text += f" · {key} {value}"
    return text


# --- the tests --------------------------------------------------------------------------------------------------------


def tested_contrasts(store: Store, contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts with their tests; p-values are adjusted for the number of tests in all these contrasts.

    Contrasts whose families have no example in common are left out.
    """
    tested = []
    for contrast in contrasts:
        rows = []
        for before, after in contrast.run_pairs:
            comparisons = _compare(store, before, after)
            if comparisons:
                rows.append((prompt_name(before), comparisons))
        if rows:
            tested.append(replace(contrast, rows=rows))
    return _with_adjusted_p_values(tested)


def _compare(store: Store, before: BiasRun, after: BiasRun) -> dict[str, Comparison]:
    """Compare two runs metric by metric; empty if they have nothing in common."""
    base, new = comparable_sides([_side(store, before), _side(store, after)])
    # A run whose requests all failed has no scores. It is left out; an error would prevent the whole page.
    if not share_examples(base, new) or not base.table.metrics or not new.table.metrics:
        return {}
    metrics = [column.metric for column in metric_columns([before]) if column.metric != "consistency"]
    return {comparison.metric: comparison for comparison in compare_runs(base, [new], metrics)}


def _side(store: Store, run: BiasRun) -> Side:
    if run.table is None:
        return load_side(store, run.record)
    return Side(run.record, run.table)


def _with_adjusted_p_values(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Add p-values adjusted for the false discovery rate (Benjamini and Hochberg 1995) over all single tests."""
    p_values: list[float] = []
    for contrast in contrasts:
        for _, comparisons in contrast.rows:
            p_values += [comparison.p for comparison in comparisons.values() if comparison.p is not None]
    # The tests are visited again in the same order, so the adjusted values can be taken one by one.
    adjusted_values = iter(false_discovery_rates(p_values))
    adjusted_contrasts = []
    for contrast in contrasts:
        rows = []
        for prompt, comparisons in contrast.rows:
            adjusted = {}
            for metric, comparison in comparisons.items():
                if comparison.p is not None:
                    comparison = replace(comparison, p_adjusted=next(adjusted_values))
                adjusted[metric] = comparison
            rows.append((prompt, adjusted))
        adjusted_contrasts.append(replace(contrast, rows=rows))
    return adjusted_contrasts


# --- what the page shows ----------------------------------------------------------------------------------------------

_HOW_TO_READ = (
    "Change in points: percentage points, after − before, with its interval. Relative change: the change as a share of "
    "the value before; if the value before is near zero, this share says little. Runs are paired by example, on the "
    "examples that both answered. Intervals and p use Student's t and a variance that is robust to clusters of one "
    "template. p (FDR): adjusted for the false discovery rate over all tests of single prompts under the same heading."
)
_ALL_ROWS_CAPTION = (
    "The plain mean over all rows of a results table (overall, labels, categories) and over prompts, as in KoBBQ's own "
    "comparison. Every answer counts three times, and small categories count as much as large ones."
)


def blocks(store: Store, families: Sequence[PromptFamily]) -> list[Block]:
    """Return all comparisons: those of prompt files in full, the others folded."""
    kinds = {
        "prompts": prompt_contrasts(families),
        "models": model_contrasts(families),
        "settings": settings_contrasts(families),
    }
    available_pairs = MAX_PAIRS
    left_out = 0
    report_blocks: list[Block] = []
    for kind, contrasts in kinds.items():
        chosen = []
        for contrast in contrasts:
            pairs = len(contrast.run_pairs)
            if pairs <= available_pairs:
                available_pairs -= pairs
                chosen.append(contrast)
            else:
                left_out += pairs
        tested = tested_contrasts(store, chosen)
        if not tested:
            continue
        report_blocks.append(Heading(_heading(kind, tested)))
        for contrast in tested:
            if kind == "prompts":
                report_blocks += _full_blocks(contrast)
            else:
                report_blocks.append(Folded(contrast.title, [_table(contrast)]))
    if report_blocks:
        report_blocks.append(Note(_HOW_TO_READ))
    if left_out:
        report_blocks.append(Note(f"Not tested here: {counted(left_out, 'more pair')} of runs; use `lmassay compare`."))
    return report_blocks


def _heading(kind: str, contrasts: Sequence[Contrast]) -> str:
    if kind == "models":
        return "Models against each other"
    if kind == "settings":
        return "Settings against each other"
    if any(is_debiased(contrast.after.first) for contrast in contrasts):
        return "Default against debiased"
    return "Prompt files against each other"


def _full_blocks(contrast: Contrast) -> list[Block]:
    full: list[Block] = [
        Note(sentence(contrast)),
        _table(contrast),
        Figures(_figures(contrast), "middle"),
    ]
    all_rows_table = _all_rows_table(contrast)
    if all_rows_table:
        full.append(Folded(f"{contrast.title}: the mean over all rows of the results table", [all_rows_table]))
    return full


def sentence(contrast: Contrast) -> str:
    """Return a sentence on how the bias in ambiguous contexts changed, in percentage points and relative."""
    metric = bias_metrics(contrast.before.runs)[0]
    change = contrast.change(metric)
    if change is None:
        return ""
    text = (
        f"{contrast.title}: {bias_name(metric)} in {CONTEXT_TITLES['amb']} contexts is {change.before:.3f} with "
        f"{contrast.before_name} and {change.after:.3f} with {contrast.after_name}: {points(change.difference)} points"
    )
    if change.relative is not None:
        text += f", a relative change of {relative(change.relative)}"
    text += "."
    values = [value for _, value in contrast.before.prompt_values(metric)]
    if len(values) > 1:
        spread = 100 * (max(values) - min(values))
        text += f" Among {contrast.before_name}, the wording alone makes a difference of {spread:.1f} points."
    return text


def points(difference: float) -> str:
    """Return a difference of shares in percentage points."""
    return signed(100 * difference, 2)


def relative(share: float | None) -> str:
    """Return a relative change in percent."""
    if share is None:
        return "n/a"
    return f"{signed(100 * share, 1)} %"


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(contrast: Contrast) -> Table:
    titles = {column.metric: column.full_title for column in metric_columns(contrast.before.runs)}
    bodies = []
    for metric in contrast.metrics:
        change = contrast.change(metric)
        if change is None:
            continue
        has_several = len(change.comparisons) > 1
        rows = [TableRow(_change_cells(titles[metric], change))]
        if has_several:
            for prompt, comparisons in contrast.rows:
                if metric in comparisons:
                    change_of_prompt = _single_change(comparisons[metric])
                    rows.append(TableRow(_change_cells(prompt, change_of_prompt), "part"))
        bodies.append(Body(rows, folds=has_several))
    titles_after_first = ("change in points", "relative change", "p", "p (FDR)", "pairs")
    header = [
        Cell("", kind="text"),
        Cell(contrast.before_name),
        Cell(contrast.after_name),
        *map(Cell, titles_after_first),
    ]
    return Table("", [header], bodies)


def _single_change(comparison: Comparison) -> BiasChange:
    return BiasChange(
        comparison.base_mean, comparison.new_mean, comparison.low, comparison.high, comparison.p, [comparison]
    )


def _change_cells(label: str, change: BiasChange) -> list[Cell]:
    comparisons = change.comparisons
    if change.low is None or change.high is None:
        small_print = ["n/a"]
    else:
        small_print = [f"[{points(change.low)}, {points(change.high)}]"]
    if len(comparisons) > 1:
        differences = [comparison.difference for comparison in comparisons]
        small_print.append(f"prompts {points(min(differences))} to {points(max(differences))}")
        label_cell = name(label, f"mean of {len(comparisons)} prompts")
        # Only the tests of single prompts are adjusted, so the mean has no adjusted p-value.
        test_cells = [Cell(p_text(change.p), (_agreeing_prompts(change),)), Cell("")]
    else:
        label_cell = name(label)
        test_cells = [Cell(p_text(change.p)), Cell(p_text(comparisons[0].p_adjusted))]
    return [
        label_cell,
        Cell(number_text(change.before, DIGITS)),
        Cell(number_text(change.after, DIGITS)),
        Cell(points(change.difference), small_print),
        Cell(relative(change.relative)),
        *test_cells,
        count(sum(comparison.n for comparison in comparisons)),
    ]


def _agreeing_prompts(change: BiasChange) -> str:
    """Return for how many prompts the change has the same direction as the mean change."""
    higher = 0
    lower = 0
    for comparison in change.comparisons:
        if comparison.difference > 0:
            higher += 1
        elif comparison.difference < 0:
            lower += 1
    prompts = len(change.comparisons)
    if change.difference > 0:
        return f"higher in {higher} of {prompts}"
    return f"lower in {lower} of {prompts}"


def _all_rows_table(contrast: Contrast) -> Table | None:
    """Return the comparison as KoBBQ computes it; None if a row has no data or the scores are not KoBBQ's."""
    if "diff_bias_amb" not in bias_metrics(contrast.before.runs):
        return None
    rows = []
    kinds = {"accuracy": ("accuracy_amb", "accuracy_dis"), "diff-bias": ("diff_bias_amb", "diff_bias_dis")}
    runs_before = [before for before, _ in contrast.run_pairs]
    runs_after = [after for _, after in contrast.run_pairs]
    for kind, metrics in kinds.items():
        means_before: list[float] = []
        means_after: list[float] = []
        for metric in metrics:
            before = _mean_over_rows(runs_before, metric)
            after = _mean_over_rows(runs_after, metric)
            if before is None or after is None:
                return None
            context = CONTEXT_TITLES[scores.CONTEXTS[metric]]
            rows.append(TableRow(_plain_cells(f"{kind}, {context}", before, after)))
            means_before.append(before)
            means_after.append(after)
        both_before = scores.mean_over_contexts(*means_before)
        both_after = scores.mean_over_contexts(*means_after)
        rows.append(TableRow(_plain_cells(f"{kind}, both", both_before, both_after), "total"))
    titles = (contrast.before_name, contrast.after_name, "change in points", "relative change")
    header = [Cell("", kind="text"), *map(Cell, titles)]
    return Table(_ALL_ROWS_CAPTION, [header], [Body(rows)])


def _plain_cells(label: str, before: float, after: float) -> list[Cell]:
    change = BiasChange(before, after, None, None, None)
    return [
        name(label),
        Cell(number_text(before, 4)),
        Cell(number_text(after, 4)),
        Cell(points(change.difference)),
        Cell(relative(change.relative)),
    ]


def _mean_over_rows(runs: Sequence[BiasRun], metric: str) -> float | None:
    """Return the mean over the rows of KoBBQ's results tables: overall, every label, every category."""
    values = []
    for run in runs:
        kinds = groups_by_kind([run])
        for group in (OVERALL, *kinds.get("label", []), *kinds.get("category", [])):
            result = run.result(metric, group)
            if result is None or result.value is None:
                return None
            values.append(result.value)
    return scores.mean_over_prompts(values)


# --- figures ----------------------------------------------------------------------------------------------------------


def _figures(contrast: Contrast) -> list[Figure]:
    """Return an arrow chart for each kind of context; the axes of bias have the same range in both charts."""
    before = PromptFamily([run for run, _ in contrast.run_pairs])
    after = PromptFamily([run for _, run in contrast.run_pairs])
    biases = bias_metrics(before.runs)
    kinds = groups_by_kind([*before.runs, *after.runs])
    all_groups = [OVERALL]
    for groups in kinds.values():
        all_groups += groups
    all_values: list[PlottedValue] = []
    for bias in biases:
        for group in all_groups:
            all_values += _before_and_after(before, after, bias, group) or ()
    limit = plots.limit_of(all_values)
    figures = []
    for (context, context_title), bias in zip(CONTEXT_TITLES.items(), biases, strict=True):
        metrics = (f"accuracy_{context}", bias)
        rows = [_arrow_row(before, after, OVERALL, metrics)]
        for kind, groups in kinds.items():
            rows.append(plots.ArrowRow(f"by {kind}"))
            rows += [_arrow_row(before, after, group, metrics) for group in groups]
        description = (
            f"{contrast.title}, {context_title} contexts: from {contrast.before_name} (○) to "
            f"{contrast.after_name} (arrow)"
        )
        chart = plots.arrow_chart(rows, (f"{context_title} contexts", bias_name(bias)), limit, description)
        figures.append(Figure.of(chart, f"{description}, with the change in points."))
    return figures


def _arrow_row(before: PromptFamily, after: PromptFamily, group: str, metrics: tuple[str, str]) -> plots.ArrowRow:
    accuracy, bias = metrics
    return plots.ArrowRow(
        group.partition("=")[2] or group,
        _before_and_after(before, after, accuracy, group),
        _before_and_after(before, after, bias, group),
    )


def _before_and_after(
    before: PromptFamily, after: PromptFamily, metric: str, group: str
) -> tuple[PlottedValue, PlottedValue] | None:
    result_before = before.result(metric, group)
    result_after = after.result(metric, group)
    if result_before is None or result_after is None:
        return None
    title = ""
    if result_before.value is not None and result_after.value is not None:
        values = f"from {number_text(result_before.value, DIGITS)} to {number_text(result_after.value, DIGITS)}"
        title = f"{metric}, {group}: {values}"
    return PlottedValue(result_before.value, title=title), PlottedValue(result_after.value, title=title)

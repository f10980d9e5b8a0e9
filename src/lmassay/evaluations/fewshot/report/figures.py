"""Figures of the few-shot section: splits of the selected configuration, dev against test, stability, dev curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from lmassay.evaluations.fewshot.protocol.estimates import ProtocolEstimate
from lmassay.evaluations.fewshot.protocol.judging import ProtocolVerdict, Trial, selection_score
from lmassay.evaluations.fewshot.protocol.studies import Strategy, Study
from lmassay.evaluations.fewshot.report import plots
from lmassay.evaluations.fewshot.report.tables import estimate_text, selected_name, task_title
from lmassay.reporting.blocks import Block, Figure, Heading, Note
from lmassay.reporting.chart import MAX_SERIES, LinearAxis
from lmassay.reporting.figure_rules import MIN_POINTS, are_equal, distinct_points, figures_and_notes
from lmassay.types.wording import counted

Criterion = Literal["test", "correlation"]
# The title of a stability figure, and what its vertical lines are.
_STABILITY_TEXTS: Mapping[Criterion, tuple[str, str]] = {
    "test": ("test mean of the selected configuration", "one standard deviation in both directions"),
    "correlation": ("dev–test rank correlation", "intervals over configurations"),
}
MAX_FIGURES = 12
"""The maximum number of figures of one kind (or of notes that replace them). A note says how many are left out."""


def blocks(study: Study) -> list[Block]:
    """All figures of a study, by kind."""
    splits = _split_figures(study.main_strategies)
    dev_against_test = [_dev_against_test(study, task) for task in study.tasks]
    stability = []
    # The figures of one criterion come after each other, so that tasks can be compared along a row.
    for criterion in _STABILITY_TEXTS:
        for task in study.tasks:
            stability.append(_stability(study, task, criterion))
    dev_curves = []
    for strategy in study.main_strategies:
        for task in strategy.verdicts:
            dev_curves.append(_dev_curves(strategy, task))
    sections: list[Block] = []
    sections += _figure_blocks("Splits of the selected configurations", "middle", splits)
    sections += _figure_blocks("Dev against test over configurations", "small", dev_against_test)
    sections += _figure_blocks("Stability over K", "small", stability)
    sections += _figure_blocks("Dev scores during the training of the selected configurations", "small", dev_curves)
    return sections


def _figure_blocks(
    title: str, size: Literal["small", "middle"], figures: Iterable[Figure | Note | None]
) -> list[Block]:
    """A heading with its figures, or the notes that replace them; empty if there are none."""
    drawn = [figure for figure in figures if figure is not None]
    if not drawn:
        return []
    section_blocks: list[Block] = [Heading(title), *figures_and_notes(drawn[:MAX_FIGURES], size)]
    if len(drawn) > MAX_FIGURES:
        left_out = drawn[MAX_FIGURES:]
        number_of_figures = sum(isinstance(figure, Figure) for figure in left_out)
        number_of_notes = len(left_out) - number_of_figures
        parts = []
        if number_of_figures:
            parts.append(counted(number_of_figures, "more figure"))
        if number_of_notes:
            parts.append(counted(number_of_notes, "more note"))
        section_blocks.append(Note(f"{' and '.join(parts)} not shown; report fewer runs at once."))
    return section_blocks


def short_name(strategy: Strategy) -> str:
    """The strategy's label with hyphens instead of underscores."""
    return strategy.label.replace("_", "-")


def _with_task(strategies: Iterable[Strategy], task: str) -> list[Strategy]:
    """The strategies with results for a task, up to the number that a figure can distinguish."""
    with_results = [strategy for strategy in strategies if task in strategy.verdicts]
    return with_results[:MAX_SERIES]


def _left_out_text(strategies: Iterable[Strategy], task: str) -> str:
    """A sentence for the caption that names the strategies that a figure leaves out; empty if there are none."""
    with_results = [strategy for strategy in strategies if task in strategy.verdicts]
    left_out = with_results[MAX_SERIES:]
    if not left_out:
        return ""
    return f" Not shown: {', '.join(short_name(strategy) for strategy in left_out)}."


# --- splits -----------------------------------------------------------------------------------------------------------


def _split_figures(strategies: Sequence[Strategy]) -> list[Figure | Note]:
    """One figure per strategy. All have the same scale, so that strategies can be compared.

    If all splits have the same score, a note says so instead of a figure.
    """
    rows_by_name = {short_name(strategy): _dot_rows(strategy) for strategy in strategies}
    all_values = []
    for rows in rows_by_name.values():
        all_values += _values_of_dots(rows)
    figures: list[Figure | Note] = []
    for name, rows in rows_by_name.items():
        if not rows:
            continue
        values = _values_of_dots(rows)
        if values and are_equal(values):
            figures.append(Note(f"{name}: every split has the score {values[0]:.1f} percent."))
            continue
        axis_title = f"{name}: score, percent"
        chart = plots.dot_rows_chart(rows, ("test", "dev"), all_values, axis_title, f"Each split under {name}")
        caption = (
            f"{name}: each dot is a split, the bar their range, the vertical stroke their mean. Right: mean ± std."
        )
        figures.append(Figure.of(chart, caption))
    return figures


def _values_of_dots(rows: Sequence[plots.DotRow]) -> list[float]:
    """The values of all dots in the rows, for the axis."""
    values = []
    for row in rows:
        for dots in row.series:
            values += [value for _, value in dots]
    return values


def _dot_rows(strategy: Strategy) -> list[plots.DotRow]:
    """One row per task: the test and dev scores of the selected configuration on each split."""
    rows = []
    for task, verdict in strategy.verdicts.items():
        trials = [trial for trial in verdict.trials_of(verdict.selected) if trial.state == "done"]
        if not trials:
            continue
        test_dots = []
        dev_dots = []
        for trial in trials:
            if trial.test is not None:
                test_dots.append(_dot(trial.split, "test", trial.test))
            if trial.dev is not None:
                dev_dots.append(_dot(trial.split, "dev", trial.dev))
        summaries = [_mean_and_std(verdict.test), _mean_and_std(verdict.dev)]
        rows.append(plots.DotRow(task_title(task), [test_dots, dev_dots], summaries))
    return rows


def _dot(split: int, name: str, score: float) -> tuple[str, float]:
    return f"split {split}: {name} {100 * score:.1f}", 100 * score


def _mean_and_std(estimate: ProtocolEstimate) -> str:
    """The estimate as text without its interval, such as ``72.7±3.1``."""
    return estimate_text(ProtocolEstimate(estimate.value, estimate.std, n=estimate.n), 1)


# --- dev against test -------------------------------------------------------------------------------------------------


def _dev_against_test(study: Study, task: str) -> Figure | Note | None:
    """One mark per configuration; None unless a strategy has at least two configurations with all their splits.

    If there are too few different points, a note lists them instead of a figure.
    """
    series = []
    correlations = []
    for strategy in _with_task(study.strategies, task):
        verdict = strategy.verdicts[task]
        points = []
        for configuration in verdict.configurations:
            dev = configuration.dev
            test = configuration.test
            if dev.value is None or test.value is None or configuration.missing:
                continue
            title = f"{configuration.name}: dev {estimate_text(dev)}, test {estimate_text(test)}"
            is_selected = configuration is verdict.selected
            points.append(plots.Point(100 * dev.value, 100 * test.value, title, strong=is_selected))
        if len(points) > 1:
            series.append(plots.Series(short_name(strategy), points))
            correlations.append(f"{short_name(strategy)} {_correlation_text(verdict)}")
    if not series:
        return None
    values = []
    all_points = []
    for one in series:
        for point in one.points:
            values += [point.x, point.y]
            all_points.append((point.x, point.y))
    distinct = distinct_points(all_points)
    if len(distinct) < MIN_POINTS:
        point_texts = "; ".join(f"dev {dev:.1f}, test {test:.1f}" for dev, test in distinct)
        return Note(f"{task_title(task)}, scores of the configurations in percent: {point_texts}.")
    # Both axes have the same scale, so that the diagonal means equal scores.
    x = plots.percent_axis("mean dev, percent", values)
    y = LinearAxis("mean test, percent", x.low, x.high)
    chart = plots.series_chart(series, x, y, f"Dev against test on {task}", square=True, diagonal=True)
    caption = (
        f"{task_title(task)}: one mark per configuration, a ring around the selected one. "
        f"Rank correlation: {'; '.join(correlations)}.{_left_out_text(study.strategies, task)}"
    )
    return Figure.of(chart, caption)


def _correlation_text(verdict: ProtocolVerdict) -> str:
    correlation = verdict.correlation
    if correlation.value is None:
        return f"none ({correlation.reason})"
    interval = ""
    if correlation.low is not None and correlation.high is not None:
        interval = f" [{correlation.low:.2f}, {correlation.high:.2f}]"
    return f"{correlation.value:.2f}{interval}, n = {correlation.n}"


# --- stability --------------------------------------------------------------------------------------------------------


def _stability(study: Study, task: str, criterion: Criterion) -> Figure | Note | None:
    """A criterion as a function of the number of splits K; None unless a strategy was judged with several K.

    If the criterion has the same value for every K, a note says so instead of a figure.
    """
    series = []
    all_points: list[plots.Point] = []
    for strategy in _with_task(study.main_strategies, task):
        curve = strategy.curves.get(task, ())
        if len(curve) < 2:
            continue
        if criterion == "test":
            points = _test_points(curve)
        else:
            points = _correlation_points(curve)
        if points:
            series.append(plots.Series(short_name(strategy), points, line=True))
            all_points += points
    if not series:
        return None
    numbers_of_splits = [point.x for point in all_points]
    x = LinearAxis("K", min(numbers_of_splits) - 0.4, max(numbers_of_splits) + 0.4, whole=True)
    if criterion == "test":
        y = plots.percent_axis("test mean, percent", _values_with_intervals(all_points))
    else:
        y = LinearAxis("dev–test correlation", -1.0, 1.0)
    title, vertical_lines = _STABILITY_TEXTS[criterion]
    if are_equal(_values_with_intervals(all_points)):
        value = f"{all_points[0].y:.1f} percent" if criterion == "test" else f"{all_points[0].y:.2f}"
        return Note(f"{task_title(task)}: the {title} is {value} for every K.")
    chart = plots.series_chart(series, x, y, f"{title} over K on {task}")
    caption = (
        f"{task_title(task)}: {title} with K splits; vertical lines: {vertical_lines}."
        f"{_left_out_text(study.main_strategies, task)}"
    )
    return Figure.of(chart, caption)


def _values_with_intervals(points: Iterable[plots.Point]) -> list[float]:
    """The values of the points and the ends of their intervals, all of which an axis must contain."""
    values = []
    for point in points:
        values.append(point.y)
        if point.low is not None:
            values.append(point.low)
        if point.high is not None:
            values.append(point.high)
    return values


def _test_points(curve: Sequence[ProtocolVerdict]) -> list[plots.Point]:
    points = []
    for verdict in curve:
        test = verdict.test
        if test.value is None:
            continue
        low: float | None = None
        high: float | None = None
        if test.std is not None:
            low = 100 * max(test.value - test.std, 0.0)
            high = 100 * min(test.value + test.std, 1.0)
        title = f"K = {verdict.k}: {estimate_text(test)}, {selected_name(verdict)}"
        points.append(plots.Point(float(verdict.k), 100 * test.value, title, low, high))
    return points


def _correlation_points(curve: Sequence[ProtocolVerdict]) -> list[plots.Point]:
    points = []
    for verdict in curve:
        correlation = verdict.correlation
        if correlation.value is None:
            continue
        title = f"K = {verdict.k}: {correlation.value:.2f}, {correlation.n} configurations"
        points.append(plots.Point(float(verdict.k), correlation.value, title, correlation.low, correlation.high))
    return points


# --- dev curves -------------------------------------------------------------------------------------------------------


def _dev_curves(strategy: Strategy, task: str) -> Figure | Note | None:
    """The dev scores during the trainings of the selected configuration, one line per split.

    If the score never changes, a note says so instead of a figure.
    """
    verdict = strategy.verdicts[task]
    series = []
    all_points: list[plots.Point] = []
    for trial in verdict.trials_of(verdict.selected):
        curve = _dev_curve(trial)
        if len(curve) < 2:
            continue
        points = []
        for update, score in curve:
            title = f"split {trial.split}, update {update:g}: {100 * score:.1f}"
            points.append(plots.Point(update, 100 * score, title, strong=update == trial.chosen_step))
        series.append(plots.Series(f"split {trial.split}", points, line=True, dots=False))
        all_points += points
    if not series:
        return None
    if are_equal(point.y for point in all_points):
        return Note(
            f"{task_title(task)}, {short_name(strategy)}: the dev score is {all_points[0].y:.1f} percent "
            "throughout the training, on every split."
        )
    y = plots.percent_axis("dev score, percent", [point.y for point in all_points])
    updates = [point.x for point in all_points]
    last_update = max(1.0, *updates)
    # The axis is a little longer than the training, so that there is space to the right of the last mark.
    x = LinearAxis("update", 0.0, last_update * 1.02, whole=True)
    chart = plots.series_chart(series, x, y, f"Dev scores in training on {task} under {short_name(strategy)}")
    caption = (
        f"{task_title(task)}, {short_name(strategy)}: {selected_name(verdict)}. "
        "A mark shows the weights that were kept."
    )
    return Figure.of(chart, caption)


def _dev_curve(trial: Trial) -> list[tuple[float, float]]:
    """(update, selection score) of every evaluation on the dev set."""
    curve = []
    for update, metrics in trial.details.get("curve", []):
        score = selection_score(metrics)
        if score is not None and math.isfinite(score):
            curve.append((float(update), score))
    return curve

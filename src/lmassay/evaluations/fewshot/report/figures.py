"""What the few-shot section draws: splits of the selected configuration, dev against test, stability, dev curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from lmassay.evaluations.fewshot.protocol.estimates import ProtocolEstimate
from lmassay.evaluations.fewshot.protocol.judging import ProtocolVerdict, Trial, selection_score
from lmassay.evaluations.fewshot.protocol.studies import Strategy, Study
from lmassay.evaluations.fewshot.report import plots
from lmassay.evaluations.fewshot.report.tables import estimate_text, task_title
from lmassay.reporting.blocks import Block, Figure, Figures, Heading, Note
from lmassay.reporting.chart import MOST_SERIES, LinearAxis

_OVER_K: Mapping[Literal["test", "correlation"], tuple[str, str]] = {
    "test": ("test mean of the selected configuration", "one standard deviation either way"),
    "correlation": ("dev–test rank correlation", "intervals over configurations"),
}
MOST_FIGURES = 12
"""Of a kind; a note says how many more there would be."""


def blocks(judged: Study) -> list[Block]:
    drawn = judged.main_strategies
    made: list[tuple[str, Literal["small", "middle"], list[Figure]]] = [
        ("Splits of the selected configurations", "middle", _splits(drawn)),
        ("Dev against test over configurations", "small", _each(_scatter(judged, task) for task in judged.tasks)),
        # One criterion after the other, so that tasks can be compared along a row.
        ("Stability over K", "small", _each(_stability(judged, task, of) for of in _OVER_K for task in judged.tasks)),
        (
            "Dev scores while the selected configurations were trained",
            "small",
            _each(_curves(arm, task) for arm in drawn for task in arm.verdicts),
        ),
    ]
    found: list[Block] = []
    for title, size, figures in made:
        if figures:
            found += [Heading(title), Figures(figures[:MOST_FIGURES], size)]
        if len(figures) > MOST_FIGURES:
            found.append(Note(f"{len(figures) - MOST_FIGURES} more are not drawn; report fewer runs at once."))
    return found


def _each(figures: Iterable[Figure | None]) -> list[Figure]:
    return [figure for figure in figures if figure is not None]


def short_name(judged: Strategy) -> str:
    return judged.label.replace("_", "-")


# --- splits -----------------------------------------------------------------------------------------------------------


def _splits(arms: Sequence[Strategy]) -> list[Figure]:
    """All on one scale, for strategies are to be compared."""
    rows = {short_name(arm): _dots(arm) for arm in arms}
    scale = [value for found in rows.values() for row in found for one in row.series for _, value in one]
    return [
        Figure(
            plots.dot_rows_chart(
                found, ("test", "dev"), scale, f"{strategy}: score, percent", f"Each split under {strategy}"
            ).svg(),
            f"{strategy}: each dot a split, the stroke their mean. Right: mean ± std.",
        )
        for strategy, found in rows.items()
        if found
    ]


def _dots(arm: Strategy) -> list[plots.DotRow]:
    rows = []
    for task, verdict in arm.verdicts.items():
        trials = [t for t in verdict.trials_of(verdict.selected) if t.state == "done"]
        if verdict.selected is None or not trials:
            continue
        scores = [
            [_dot(t.split, "test", t.test) for t in trials if t.test is not None],
            [_dot(t.split, "dev", t.dev) for t in trials if t.dev is not None],
        ]
        rows.append(plots.DotRow(task_title(task), scores, [_brief(verdict.test), _brief(verdict.dev)]))
    return rows


def _dot(split: int, name: str, score: float) -> tuple[str, float]:
    return f"split {split}: {name} {100 * score:.1f}", 100 * score


def _brief(found: ProtocolEstimate) -> str:
    return estimate_text(ProtocolEstimate(found.value, found.std, n=found.n), 1)


# --- dev against test -------------------------------------------------------------------------------------------------


def _scatter(judged: Study, task: str) -> Figure | None:
    series, told = [], []
    for arm in _drawable(judged, task):
        verdict = arm.verdicts[task]
        marks = [
            plots.Point(
                100 * standing.dev.value,
                100 * standing.test.value,
                f"{standing.name}: dev {estimate_text(standing.dev)}, test {estimate_text(standing.test)}",
                strong=standing is verdict.selected,
            )
            for standing in verdict.configurations
            if standing.dev.value is not None and standing.test.value is not None and not standing.missing
        ]
        if len(marks) > 1:
            series.append(plots.Series(short_name(arm), marks))
            told.append(f"{short_name(arm)} {_correlation(verdict)}")
    if not series:
        return None
    values = [value for one in series for point in one.points for value in (point.x, point.y)]
    x = plots.percent_axis("mean dev, percent", values)
    y = LinearAxis("mean test, percent", x.low, x.high)
    chart = plots.series_chart(series, x, y, f"Dev against test on {task}", square=True, diagonal=True)
    caption = (
        f"{task_title(task)}, one mark a configuration, the selected one ringed. Rank correlation: {'; '.join(told)}."
    )
    return Figure(chart.svg(), caption)


def _correlation(verdict: ProtocolVerdict) -> str:
    found = verdict.correlation
    if found.value is None:
        return f"none ({found.reason})"
    bounds = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.value:.2f}{bounds}, n = {found.n}"


# --- stability --------------------------------------------------------------------------------------------------------


def _stability(judged: Study, task: str, of: Literal["test", "correlation"]) -> Figure | None:
    marks = _tests if of == "test" else _ranks
    series = [
        plots.Series(short_name(arm), marks(arm.curves[task]), line=True)
        for arm in _drawable(judged, task, judged.main_strategies)
        if len(arm.curves.get(task, ())) > 1
    ]
    shown = [one for one in series if one.points]
    if not shown:
        return None
    points = [point for one in shown for point in one.points]
    places = [point.x for point in points]
    x = LinearAxis("K", min(places) - 0.4, max(places) + 0.4, whole=True)
    y = LinearAxis("dev–test correlation", -1.0, 1.0)
    if of == "test":
        ends = [end for point in points for end in (point.y, point.low, point.high) if end is not None]
        y = plots.percent_axis("test mean, percent", ends)
    what, lines = _OVER_K[of]
    chart = plots.series_chart(shown, x, y, f"{what} over K on {task}")
    return Figure(chart.svg(), f"{task_title(task)}: {what} with K splits; upright lines: {lines}.")


def _tests(points: Sequence[ProtocolVerdict]) -> list[plots.Point]:
    marks = []
    for point in points:
        found = point.test
        if found.value is not None:
            away = found.std
            low = None if away is None else 100 * max(found.value - away, 0.0)
            high = None if away is None else 100 * min(found.value + away, 1.0)
            title = f"K = {point.k}: {estimate_text(found)}, {_name_of(point)}"
            marks.append(plots.Point(float(point.k), 100 * found.value, title, low, high))
    return marks


def _name_of(verdict: ProtocolVerdict) -> str | None:
    return None if verdict.selected is None else verdict.selected.name


def _ranks(points: Sequence[ProtocolVerdict]) -> list[plots.Point]:
    return [
        plots.Point(
            float(point.k),
            found.value,
            f"K = {point.k}: {found.value:.2f}, {found.n} configurations",
            found.low,
            found.high,
        )
        for point in points
        if (found := point.correlation).value is not None
    ]


# --- dev curves -------------------------------------------------------------------------------------------------------


def _curves(arm: Strategy, task: str) -> Figure | None:
    series = []
    verdict = arm.verdicts[task]
    for training in verdict.trials_of(verdict.selected):
        curve = _dev_curve(training)
        if len(curve) > 1:
            marks = [
                plots.Point(
                    step,
                    100 * score,
                    f"split {training.split}, update {step:g}: {100 * score:.1f}",
                    strong=step == training.chosen_step,
                )
                for step, score in curve
            ]
            series.append(plots.Series(f"split {training.split}", marks, line=True, dots=False))
    if not series:
        return None
    points = [point for one in series for point in one.points]
    y = plots.percent_axis("dev score, percent", [point.y for point in points])
    last_update = max(1.0, *(point.x for point in points))
    x = LinearAxis("update", 0.0, last_update * 1.02, whole=True)
    chart = plots.series_chart(series, x, y, f"Dev scores in training on {task} under {short_name(arm)}")
    chosen = verdict.selected
    return Figure(
        chart.svg(),
        f"{task_title(task)}, {short_name(arm)}: {'' if chosen is None else chosen.name}. A mark where the "
        "weights were taken.",
    )


def _dev_curve(training: Trial) -> list[tuple[float, float]]:
    found = []
    for step, metrics in training.details.get("curve", []):
        score = selection_score(metrics)
        if score is not None and math.isfinite(score):
            found.append((float(step), score))
    return found


def _drawable(judged: Study, task: str, arms: Sequence[Strategy] | None = None) -> list[Strategy]:
    """As many strategies as can be told apart."""
    return [arm for arm in (judged.strategies if arms is None else arms) if task in arm.verdicts][:MOST_SERIES]

"""Every kind of figure that lmassay draws, made from the same few labels and values, however nasty these are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from lmassay.evaluations.bias.report import plots as bias
from lmassay.evaluations.fewshot.report import plots as fewshot
from lmassay.evaluations.robustness import report as robustness
from lmassay.evaluations.syntax.refining_tse import figures as refining_tse
from lmassay.evaluations.syntax.refining_tse.results import Curve, ExperimentCurves, FolderResults
from lmassay.evaluations.syntax.report import accuracy_chart, curves, cutoffs, heatmap
from lmassay.reporting.chart import (
    MAX_SERIES,
    Bar,
    Category,
    CategoryAxis,
    Chart,
    ChartLine,
    Dot,
    Group,
    Interval,
    LegendEntry,
    LinearAxis,
    LogAxis,
    Panel,
    PanelNote,
    ReferenceLine,
)
from lmassay.reporting.compare_page import DifferenceRow, difference_chart
from lmassay.reporting.tiles import gauge
from lmassay.statistics.comparison import Comparison
from lmassay.types import Result

LONG = "the-organisation/a-model-with-a-rather-long-name-and-many-parameters-7b-instruct-v0.3"
KOREAN = (
    "아주 길고 긴 이름을 가진 한국어 언어 모델의 서른두 번째 시험판 그리고 그 밖의 여러 가지 설명까지 모두 붙인 이름"
)


@dataclass(frozen=True)
class Sample:
    """Labels for whatever a figure names, and values between 0 and 1 for whatever it draws.

    Figures whose axes fit any number multiply the values by ``factor``.
    """

    labels: Sequence[str]
    values: Sequence[float | None]
    title: str = "accuracy"
    factor: float = 1.0

    @property
    def numbers(self) -> list[float]:
        return [value for value in self.values if value is not None]

    def some(self, count: int, start: int = 0) -> list[float | None]:
        """This many values, from the start again where there are too few."""
        return list(islice(cycle(self.values or [None]), start, start + count))

    def present(self, count: int, start: int = 0) -> list[float]:
        return list(islice(cycle(self.numbers or [0.5]), start, start + count))


def _interval(value: float | None) -> tuple[float | None, float | None]:
    return (None, None) if value is None else (max(value - 0.1, 0.0), min(value + 0.2, 1.0))


def _result(value: float | None) -> Result:
    low, high = _interval(value)
    return Result("success", "overall", value, low, high, 40)


def success_rates(sample: Sample) -> Chart:
    values = sample.some(len(sample.labels))
    return robustness.success_chart([(label, _result(v)) for label, v in zip(sample.labels, values, strict=True)])


def scatter(sample: Sample) -> Chart:
    scores = [
        {"s_src": value, "d_tgt": 1 - value**2, "success": float(number % 3 == 0)}
        for number, value in enumerate(sample.numbers)
    ]
    return robustness.scatter_chart(scores, "d_tgt", 1.0, sample.title)


def one_gauge(sample: Sample) -> Chart:
    value = sample.some(1)[0]
    return gauge(sample.title, value, _interval(value), axis=(-1.0, 1.0), reference=0.0)


def differences(sample: Sample) -> Chart:
    rows = []
    for number, (label, value) in enumerate(zip(sample.labels, sample.present(len(sample.labels)), strict=True)):
        difference = (value - 0.5) * sample.factor
        ends = (None, None) if number % 4 == 3 else (difference - 0.1 * sample.factor, difference + sample.factor / 5)
        means = (0.5, 0.5 + difference, difference)
        comparison = Comparison("accuracy", "base", "new", "base", "new", *means, *ends, 0.02, 0.04, 40)
        rows.append(DifferenceRow(label, comparison, number % 2 == 0))
    return difference_chart(rows, f"difference from {sample.title}", "Differences")


def cutoff_curves(sample: Sample) -> Chart:
    drawn = []
    for number, label in enumerate(sample.labels[:MAX_SERIES]):
        values = sample.present(max(len(sample.numbers), 1), number)
        points = []
        for place, value in enumerate(values, 1):
            share = place / len(values)
            points.append(cutoffs.CutoffPoint("top", share, value, f"{label} {share:g}", place % 3 == 0))
            points.append(cutoffs.CutoffPoint("bottom", 10 ** (-6 * share), 1 - value))
        drawn.append(cutoffs.CutoffCurve(label, points, cutoffs.series_style(number)))
    return curves.curve_chart(drawn, sample.title, "Curves")


def accuracy_dots(sample: Sample) -> Chart:
    series = sample.labels[:MAX_SERIES]
    rows = []
    for number, label in enumerate(sample.labels):
        values = [
            None if value is None else accuracy_chart.Accuracy(label, value, *_interval(value))
            for value in sample.some(len(series), number)
        ]
        rows.append(accuracy_chart.AccuracyRow(label, values, 0.9 if number % 2 else None))
    return accuracy_chart.accuracy_chart(rows, series, "people", sample.title, "Accuracy")


def heat_map(sample: Sample) -> Chart:
    columns = sample.labels[: heatmap.MAX_COLUMNS]
    rows = []
    for number, label in enumerate(sample.labels):
        values = [
            heatmap.HeatValue(value, label, has_few_contexts=place % 2 == 0)
            for place, value in enumerate(sample.some(len(columns), number))
        ]
        rows.append(heatmap.HeatRow(label, values, is_summary=number == len(sample.labels) - 1))
    return heatmap.heat_map(columns, rows, "Heat map")


def bias_bars(sample: Sample) -> Chart:
    rows = [bias.BarRow("by category")]
    for number, label in enumerate(sample.labels):
        accuracy, lean = sample.some(2, number)
        signed = None if lean is None else 2 * lean - 1
        ends = (None, None) if signed is None else (max(signed - 0.2, -1.0), min(signed + 0.1, 1.0))
        prompts = sample.present(3, number) if number % 2 else ()
        rows.append(
            bias.BarRow(
                label,
                bias.PlottedValue(accuracy, *_interval(accuracy), prompts, title=label),
                bias.PlottedValue(signed, *ends, bound=(0.5, 0.7), title=label),
            )
        )
    return bias.bar_chart(rows, (sample.title, sample.title), 1.0, "Bars")


def bias_arrows(sample: Sample) -> Chart:
    rows = [bias.ArrowRow("by category")]
    for number, label in enumerate(sample.labels):
        values = sample.some(4, number)
        before, after, first, second = (bias.PlottedValue(value, title=label) for value in values)
        rows.append(bias.ArrowRow(label, (before, after), (first, second)))
    return bias.arrow_chart(rows, (sample.title, sample.title), 1.0, "Arrows")


def prompt_strips(sample: Sample) -> Chart:
    strips = [
        bias.Strip(label, [(label, value) for value in sample.numbers[: 8 + number]], "0.300 ± 0.141")
        for number, label in enumerate(sample.labels)
    ]
    return bias.strip_chart(strips, 0.0, sample.title, "Strips")


def lines_over_updates(sample: Sample) -> Chart:
    series = []
    for number, label in enumerate(sample.labels):
        values = [sample.factor * value for value in sample.present(max(len(sample.numbers), 1), number)]
        points = [
            fewshot.Point(float(10 * step), value, label, value - 1, value + 1, strong=step == 1)
            for step, value in enumerate(values)
        ]
        series.append(fewshot.Series(label, points, line=True, dots=len(values) < 20))
    ends = [end for one in series for point in one.points for end in (point.y - 1, point.y + 1)]
    x = LinearAxis("update", 0.0, max(10.0 * len(sample.numbers), 1.0), whole=True)
    return fewshot.series_chart(series, x, LinearAxis.around(sample.title, ends), "Lines")


def dev_against_test(sample: Sample) -> Chart:
    series = []
    for number, label in enumerate(sample.labels[:MAX_SERIES]):
        values = sample.present(12, number)
        points = [
            fewshot.Point(100 * x, 100 * y, label, strong=place == 0)
            for place, (x, y) in enumerate(zip(values, reversed(values), strict=True))
        ]
        series.append(fewshot.Series(label, points))
    values = [value for one in series for point in one.points for value in (point.x, point.y)]
    x = fewshot.percent_axis("mean dev, percent", values)
    y = LinearAxis(sample.title, x.low, x.high)
    return fewshot.series_chart(series, x, y, "Scatter", square=True, diagonal=True)


def split_dots(sample: Sample) -> Chart:
    rows = []
    for number, label in enumerate(sample.labels):
        values = [(label, 100 * value) for value in sample.present(8, number)]
        rows.append(fewshot.DotRow(label, [values, values[:1]], ["71.0±1.4", label[:9]]))
    scale = [value for row in rows for values in row.series for _, value in values]
    return fewshot.dot_rows_chart(rows, ("test", "dev"), scale, f"{sample.title}: score, percent", "Splits")


def _tse_results(sample: Sample) -> FolderResults:
    results = FolderResults()
    results.experiments["gpt2", "ML_simple_agrmt", "mw"] = ExperimentCurves(Curve(), Curve())
    top = [0.1, 0.5, 0.9, 1.0]
    bottom = [1e-6, 1e-4, 1e-2, 0.5]
    for number, label in enumerate(sample.labels):
        upper = Curve(top, sample.present(4, number), sample.present(4), sample.present(4, 1))
        lower = Curve(bottom, [math.nan, *sample.present(3, number)], sample.present(4), sample.present(4, 1))
        for model, voting in ((LONG, "ew"), (LONG, "mw"), ("gpt2", "mw"), (sample.title, "ew")):
            results.experiments[model, label, voting] = ExperimentCurves(upper, lower)
    return results


def tse_scores(sample: Sample) -> Chart:
    return dict(refining_tse.charts(_tse_results(sample)))["supp_top-bottom-scores"]


def tse_probability(sample: Sample) -> Chart:
    return dict(refining_tse.charts(_tse_results(sample)))["supp_probcounted"]


def upright_bars(sample: Sample) -> Chart:
    """Categories along the x axis, a numeric y axis, and notes beside the panel."""
    values = [sample.factor * value for value in sample.present(len(sample.labels))]
    marks = [Bar(0.0, value, number, along="y", thickness=10) for number, value in enumerate(values)]
    panel = Panel(
        y=LinearAxis.around(sample.title, [0.0, *values], signed=True),
        x=CategoryAxis([Category(label) for label in sample.labels], lane=30),
        marks=[*marks, ReferenceLine(0.0, axis="y", style="zero")],
        notes=[PanelNote(value, label) for value, label in zip(values, sample.labels, strict=True)][:4],
    )
    return Chart("Bars", [panel], title=sample.title)


def powers(sample: Sample) -> Chart:
    """Logarithmic axes along both directions."""
    values = [abs(sample.factor * value) for value in sample.numbers]
    x = LogAxis.around(sample.title, values)
    y = LogAxis.around(sample.title, [value**3 for value in values])
    points = [(value, value**3) for value in values]
    marks = [ChartLine(sorted(points)), *(Dot(*point) for point in points), Interval(1e-3, 1e-1, 1e-2, along="y")]
    keys = [LegendEntry(label, [Group([Dot(0.5, 0.5)], series=number)]) for number, label in enumerate(sample.labels)]
    return Chart("Powers", [Panel(y=y, x=x, marks=[Group(marks, series=2)])], legend=keys)


FIGURES: dict[str, Callable[[Sample], Chart]] = {
    figure.__name__: figure
    for figure in (
        success_rates,
        scatter,
        one_gauge,
        differences,
        cutoff_curves,
        accuracy_dots,
        heat_map,
        bias_bars,
        bias_arrows,
        prompt_strips,
        lines_over_updates,
        dev_against_test,
        split_dots,
        tse_scores,
        tse_probability,
        upright_bars,
        powers,
    )
}

_USUAL_LABELS = ["bert-base-cased", "gpt2", "roberta-large", "smollm2-360m"]
_USUAL_VALUES = [0.62, 0.81, 0.44, 0.73, 0.5, 0.97, 0.08]
_MANY_LABELS = [f"{name} {number}" for number in range(10) for name in ("simple", "across a clause", "절 안에서", "VP")]
SAMPLES: dict[str, Sample] = {
    "usual": Sample(_USUAL_LABELS, _USUAL_VALUES),
    "long": Sample([LONG, KOREAN, "W" * 120, f"{LONG} · {KOREAN}", "a"], _USUAL_VALUES, f"{LONG} and {KOREAN}"),
    "one": Sample(["one"], [0.37], factor=0.001),
    "none": Sample([], []),
    "missing": Sample([LONG, "b", KOREAN], [None, 0.4, None]),
    "equal": Sample(_USUAL_LABELS, [0.5] * 9, factor=1e-5),
    "ends": Sample(_USUAL_LABELS, [0.0, 1.0, 0.0, 1.0], factor=-123456.0),
    "huge": Sample(_USUAL_LABELS, _USUAL_VALUES, KOREAN, factor=4.7e11),
    "many": Sample(_MANY_LABELS, _USUAL_VALUES),
    "thousand": Sample(_USUAL_LABELS, [0.5 + 0.45 * math.sin(number / 90) for number in range(1000)]),
}

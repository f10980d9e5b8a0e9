"""The section of the report: a table of the runs, and a reliability diagram for each."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.reporting.blocks import (
    Block,
    Body,
    Cell,
    Figure,
    Figures,
    Section,
    Table,
    TableRow,
    count,
    measured,
    name,
)
from lmassay.reporting.chart import Chart, ChartLine, Dot, Group, Interval, LegendEntry, LinearAxis, Mark, Panel
from lmassay.reporting.example_texts import Exchanges, NamedValues
from lmassay.reporting.run_labels import short_run_titles
from lmassay.statistics.intervals import rate_interval
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from lmassay.types import Row, RunRecord
from lmassay_calibration.scores import BINS, bins_of

_METRICS = {"ece": "ECE", "brier": "Brier score", "accuracy": "accuracy", "confidence": "confidence"}
_CAPTION = (
    "ECE: the mean distance between confidence and accuracy over equal-width bins of confidence, with a bootstrap "
    "interval. Brier score: the squared distance of the probabilities from the right answer. Lower is better for both."
)


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    """The section about these runs: how well the confidence of each model matches its accuracy."""
    lines = []
    figures = []
    for record, title in zip(records, short_run_titles(records), strict=True):
        result = record.result("brier")
        counts = [None, None, None] if result is None else [result.n, result.n_error, result.n_unscored]
        cells = [measured(record.result(metric)) for metric in _METRICS]
        lines.append(TableRow([name(title), *cells, *map(count, counts)]))
        figure = reliability_diagram(store, record, title)
        if figure is not None:
            figures.append(figure)
    heads = [Cell("", kind="text"), *map(Cell, _METRICS.values()), *map(Cell, ("answers", "errors", "unscored"))]
    blocks: list[Block] = [Table(_CAPTION, [heads], [Body(lines)])]
    if figures:
        blocks.append(Figures(figures, "middle"))
    return Section(blocks, compared=["brier", "accuracy"])


def reliability_diagram(store: Store, record: RunRecord, title: str) -> Figure | None:
    """A figure of accuracy by confidence: a calibrated model is on the diagonal, an overconfident one below it.

    None if no answer has a confidence.
    """
    confidences, correct = ScoreTable(store.score_rows(record.id)).together("confidence", "accuracy")
    if not len(confidences):
        return None
    marks: list[Mark] = []
    points: list[tuple[float, float]] = []
    # The signature of the task has the number of bins that the run used.
    bins = int(record.depends_on.get("bins", BINS))
    for filled in bins_of(confidences, correct, bins):
        low, high = rate_interval(filled.accuracy, filled.n, record.settings)
        interval = f"[{low:.2f}, {high:.2f}]"
        text = f"confidence {filled.confidence:.2f}, accuracy {filled.accuracy:.2f} {interval}, n = {filled.n}"
        marks.append(Interval(low, high, at=filled.confidence, along="y"))
        marks.append(Dot(filled.confidence, filled.accuracy, title=text))
        points.append((filled.confidence, filled.accuracy))
    chart = Chart(
        f"Reliability diagram of {title}: accuracy by confidence",
        [
            Panel(
                y=LinearAxis("accuracy"),
                x=LinearAxis("confidence"),
                marks=[ChartLine([(0, 0), (1, 1)], style="chance"), Group([ChartLine(points), *marks], series=0)],
            )
        ],
        legend=[
            LegendEntry(
                "answers of a bin, with interval", [Group([ChartLine([(0, 0.5), (1, 0.5)]), Dot(0.5, 0.5)], series=0)]
            ),
            LegendEntry("perfectly calibrated", [ChartLine([(0, 0.5), (1, 0.5)], style="chance")]),
        ],
    )
    return Figure(chart.svg(), f"{title}: accuracy of the answers in each bin of confidence.")


def texts(row: Row, _: Exchanges) -> NamedValues:
    """The texts that the report shows for an example: the question with the probability of each choice."""
    shares = row.score.details.get("probabilities", ())
    choices = row.example.inputs.get("choices", ())
    # An example with an error has no probabilities; then only the choices are shown.
    choices_with_shares = [f"{choice}: {share:.3f}" for choice, share in zip(choices, shares, strict=False)]
    right = None
    if isinstance(row.example.reference, int) and choices:
        right = choices[row.example.reference]
    return [
        ("question", row.example.inputs.get("question")),
        ("probabilities", "\n".join(choices_with_shares) or "\n".join(choices)),
        ("right answer", right),
    ]

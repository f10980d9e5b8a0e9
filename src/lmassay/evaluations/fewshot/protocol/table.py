"""The three criteria as tables in the paper's layout: strategies down, tasks across, an average at the end.

Tables are data; whoever shows them takes ``cell.parts`` or, for plain text, ``cell.text()``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lmassay.evaluations.fewshot.protocol.judging import Spread, Verdict
from lmassay.evaluations.fewshot.protocol.stability import StabilityPoint

T = TypeVar("T")
Verdicts = Mapping[str, Mapping[str, Verdict]]
"""By strategy and task."""
Curves = Mapping[str, Sequence[StabilityPoint]]
"""By task."""

ABBREVIATIONS = {
    "cross_validation": "CV",
    "mdl": "MDL",
    "bagging": "BAG",
    "random": "RAND",
    "model_informed": "MI",
    "multi_splits": "MS",
    "dev32": "dev32",
    "fixed": "fixed",
}
TASKS = ("boolq", "rte", "wic", "cb", "multirc", "wsc", "copa", "record")
_TITLES = dict(zip(TASKS, ("BoolQ", "RTE", "WiC", "CB", "MultiRC", "WSC", "COPA", "ReCoRD"), strict=True))
# MultiRC's accuracy over answers counts for selection, but is not shown.
SHOWN = {"cb": ("acc", "f1-macro"), "multirc": ("f1", "em"), "record": ("acc", "f1")}
_METRIC_TITLES = {"acc": "acc", "f1-macro": "F1", "f1": "F1a", "em": "EM"}
AVERAGE = "Avg"


@dataclass(frozen=True, slots=True)
class Cell:
    """One number, or two where a task has two metrics; ``note`` says why there is none."""

    parts: tuple[Spread, ...]
    note: str = ""

    @property
    def value(self) -> float | None:
        """The mean of the parts: what averages over tasks are made of."""
        values = [part.value for part in self.parts if part.value is not None]
        return sum(values) / len(values) if values and len(values) == len(self.parts) else None

    def text(self, *, scale: float = 100.0, digits: int = 2) -> str:
        """Such as ``82.71±1.29`` or ``91.96±3.72/88.63±4.91``; a dash for what is not there."""
        if not self.parts:
            return "–"
        return "/".join(_number(part, scale, digits) for part in self.parts)


def _number(part: Spread, scale: float, digits: int) -> str:
    if part.value is None:
        return "–"
    shown = f"{part.value * scale:.{digits}f}"
    return shown if part.std is None else f"{shown}±{part.std * scale:.{digits}f}"


@dataclass(frozen=True, slots=True)
class Row:
    """``cells`` in the order of the table's columns, the average last; ``percent`` where they are shares."""

    name: str
    cells: tuple[Cell, ...]
    percent: bool = True

    def texts(self) -> list[str]:
        scale, digits = (100.0, 2) if self.percent else (1.0, 4)
        return [cell.text(scale=scale, digits=digits) for cell in self.cells]


@dataclass(frozen=True, slots=True)
class ProtocolTable:
    """Tasks as columns and their average at the end."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def texts(self) -> list[list[str]]:
        """The table as rows of text, the head first."""
        return [["", *self.columns], *([row.name, *row.texts()] for row in self.rows)]


def average(cells: Sequence[Cell]) -> Cell:
    """The mean over tasks, a task with two metrics counting as their mean; none unless every task has a number."""
    values = [cell.value for cell in cells]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return Cell((), f"{len(known)} of {len(values)} tasks have a number")
    return Cell((Spread(sum(known) / len(known), n=len(known)),))


def performance_table(verdicts: Verdicts) -> ProtocolTable:
    """Test mean ± std of the selected configuration (Table 2 of the paper)."""
    return _by_strategy("test performance", verdicts, performance_cell)


def correlation_table(verdicts: Verdicts) -> ProtocolTable:
    """Rank correlation of dev and test over configurations (Table 3 of the paper)."""
    return _by_strategy("dev-test rank correlation", verdicts, correlation_cell, percent=False)


def strategy_table(strategy: str, verdicts: Mapping[str, Verdict], curves: Curves | None = None) -> ProtocolTable:
    """The three criteria of one strategy: test, correlation, and both again for every K of the curves."""
    tasks = _ordered(verdicts)
    rows = [
        _row("test", tasks, verdicts, performance_cell),
        _row("dev-test correlation", tasks, verdicts, correlation_cell, percent=False),
    ]
    points = {(task, point.k): point for task in tasks for point in (curves or {}).get(task, ())}
    for k in sorted({k for _, k in points}):
        found = {task: points[task, k] for task in tasks if (task, k) in points}
        rows.append(_row(f"test, K={k}", tasks, found, _stability_cell))
        rows.append(_row(f"correlation, K={k}", tasks, found, correlation_cell, percent=False))
    return ProtocolTable(_short(strategy), _columns(tasks, [verdicts]), tuple(rows))


def performance_cell(task: str, verdict: Verdict) -> Cell:
    """Test mean ± std of the selected configuration, a part a metric."""
    if verdict.chosen is None:
        return Cell((), "; ".join(verdict.notes) or "nothing was selected")
    return _test_cell(task, verdict.chosen.test, verdict.chosen.test_metrics)


def _stability_cell(task: str, point: StabilityPoint) -> Cell:
    if point.configuration is None:
        return Cell((), "nothing was selected")
    return _test_cell(task, point.test, point.test_metrics)


def _test_cell(task: str, test: Spread, metrics: Mapping[str, Spread]) -> Cell:
    parts = tuple(metrics[metric] for metric in shown_metrics(task, tuple(metrics)) if metric in metrics)
    if parts:
        return Cell(parts)
    return Cell((), "the selected configuration was not tested") if test.value is None else Cell((test,))


def correlation_cell(task: str, verdict: Verdict | StabilityPoint) -> Cell:
    """The correlation with its interval, or the reason why there is none."""
    found = verdict.correlation
    if found.value is None:
        return Cell((), found.reason)
    return Cell((Spread(found.value, None, found.low, found.high, found.n),))


def shown_metrics(task: str, metrics: tuple[str, ...]) -> tuple[str, ...]:
    """The metrics that tables show for a task: the paper's for SuperGLUE's, else all."""
    return SHOWN.get(_plain(task), metrics)


def _by_strategy(
    title: str, verdicts: Verdicts, cell: Callable[[str, Verdict], Cell], *, percent: bool = True
) -> ProtocolTable:
    tasks = _ordered([task for found in verdicts.values() for task in found])
    known = list(ABBREVIATIONS)
    strategies = sorted(verdicts, key=lambda name: known.index(name) if name in known else len(known))
    rows = tuple(_row(_short(name), tasks, verdicts[name], cell, percent=percent) for name in strategies)
    return ProtocolTable(title, _columns(tasks, list(verdicts.values())), rows)


def _row(
    name: str, tasks: Sequence[str], found: Mapping[str, T], cell: Callable[[str, T], Cell], *, percent: bool = True
) -> Row:
    cells = [cell(task, found[task]) if task in found else Cell((), "not run") for task in tasks]
    return Row(name, (*cells, average(cells)), percent)


def _ordered(tasks: Mapping[str, Verdict] | Sequence[str]) -> list[str]:
    """The paper's tasks in its order, others as they come."""
    unique = list(dict.fromkeys(tasks))
    return sorted(unique, key=lambda task: TASKS.index(_plain(task)) if _plain(task) in TASKS else len(TASKS))


def _columns(tasks: Sequence[str], verdicts: Sequence[Mapping[str, Verdict]]) -> tuple[str, ...]:
    return (*(_column(task, [found[task] for found in verdicts if task in found]) for task in tasks), AVERAGE)


def _column(task: str, verdicts: Sequence[Verdict]) -> str:
    title = _TITLES.get(_plain(task), task)
    found = next((tuple(v.chosen.test_metrics) for v in verdicts if v.chosen and v.chosen.test_metrics), ())
    metrics = [metric for metric in shown_metrics(task, found) if metric in found]
    if len(metrics) < 2:
        return title
    return f"{title} {'/'.join(_METRIC_TITLES.get(metric, metric) for metric in metrics)}"


def _plain(task: str) -> str:
    """Without the data set: ``superglue/cb`` is the paper's CB."""
    return task.rpartition("/")[2].lower()


def _short(strategy: str) -> str:
    return ABBREVIATIONS.get(strategy, strategy)

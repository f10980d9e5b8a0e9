"""The protocol's tables as they are shown, on whatever: three criteria a strategy, strategies compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lmassay.evaluations.fewshot.protocol import table as protocol_table
from lmassay.evaluations.fewshot.protocol.judging import Spread
from lmassay.evaluations.fewshot.protocol.stability import StabilityPoint
from lmassay.evaluations.fewshot.protocol.table import ABBREVIATIONS, AVERAGE, Cell, ProtocolTable, Row, average
from lmassay.evaluations.fewshot.report.judged import JudgedArm, JudgedStudy

_LONG = {
    "cross_validation": "cross-validation",
    "mdl": "minimum description length",
    "bagging": "bagging",
    "random": "random sampling",
    "model_informed": "model-informed splits",
    "multi_splits": "Multi-Splits",
    "dev32": "dev32",
    "fixed": "no dev set",
}
_SPELT = {"boolq": "BoolQ", "wic": "WiC", "multirc": "MultiRC", "record": "ReCoRD"}
_MOST_LACKING = 3
_DEALT_BY_K = ("cross_validation", "mdl")
CORRELATION = "dev–test correlation"
WHAT_IT_IS = (
    "test: mean ± standard deviation over the K splits of the configuration with the best mean dev score, in percent. "
    "dev–test correlation: Spearman's, over configurations, of the mean dev with the mean test score. Intervals: "
    "{confidence:g} %; those over splits, which share examples, are a guide to noise and no promise."
)


@dataclass(frozen=True, slots=True)
class Line:
    """A number as text, and what it rests on."""

    text: str
    interval: str
    n: str

    @property
    def small(self) -> list[str]:
        return [part for part in (self.interval, self.n) if part]


def strategy_title(judged: JudgedArm) -> str:
    """Such as ``MS: Multi-Splits, K = 4, ratio 0.5``."""
    arm = judged.arm
    options = arm.options
    told = [f"{ABBREVIATIONS.get(arm.strategy, arm.strategy)}: {_LONG.get(arm.strategy, arm.strategy)}"]
    if arm.strategy not in ("dev32", "fixed"):
        told.append(f"K = {arm.k}")
    if arm.strategy in ("multi_splits", "random", "bagging", "model_informed"):
        told.append(f"ratio {options.ratio:g}")
    told += ["stratified"] if options.stratify else []
    told += [] if options.grouped else ["grouped as published"]
    return ", ".join(told)


def criteria(judged: JudgedArm) -> ProtocolTable:
    """The three criteria of one strategy: test, correlation, and both again with other numbers of splits."""
    curves = {task: _worth_a_row(points, judged.arm.k) for task, points in judged.curves.items()}
    table = protocol_table.strategy_table(judged.arm.name, judged.verdicts, curves)
    rows = [replace(row, name=row.name.replace("dev-test", "dev–test")) for row in table.rows]
    rows = [row for place, row in enumerate(rows) if place < 2 or any(cell.parts for cell in row.cells)]
    return replace(table, title=strategy_title(judged), rows=tuple(rows))


def stability_note(judged: JudgedArm) -> str:
    """How the rows of other K came about."""
    if not judged.curves:
        return ""
    if judged.by_sweeps:
        return "Every K was run by itself."
    if judged.arm.strategy in _DEALT_BY_K:
        return "The rows of smaller K are verdicts from the first folds alone; folds of another K would be others."
    return "The rows of smaller K are verdicts from the first K splits alone, as a run with that K would give them."


def comparisons(judged: JudgedStudy) -> list[ProtocolTable]:
    """Strategies against each other, one table a criterion (the first two are Tables 2 and 3 of the paper)."""
    tables = [
        replace(
            protocol_table.performance_table(judged.verdicts),
            title="Test performance of the selected configuration, percent",
        ),
        replace(
            protocol_table.correlation_table(judged.verdicts),
            title="Dev–test rank correlation",
            columns=(*map(task_title, tasks_in_order([judged])), AVERAGE),
        ),
    ]
    moved = _stability_table(judged)
    return [*tables, *([moved] if moved is not None else [])]


def _stability_table(judged: JudgedStudy) -> ProtocolTable | None:
    arms = {arm.arm.name: arm for arm in judged.families if arm.curves}
    if not arms:
        return None
    tasks = tasks_in_order([judged])
    rows = []
    for name, arm in arms.items():
        cells = [_moved(arm.curves.get(task, ())) for task in tasks]
        rows.append(Row(ABBREVIATIONS.get(name, name), (*cells, average(cells))))
    title = "Stability: highest less lowest test mean over K, in points (0 is perfectly stable)"
    return ProtocolTable(title, (*map(task_title, tasks), AVERAGE), tuple(rows))


def tasks_in_order(studies: Sequence[JudgedStudy]) -> list[str]:
    """As the columns of the other tables."""
    known = protocol_table.TASKS

    def place(task: str) -> int:
        name = task.rpartition("/")[2].lower()
        return known.index(name) if name in known else len(known)

    return sorted(dict.fromkeys(task for judged in studies for task in judged.tasks), key=place)


def task_title(task: str) -> str:
    """As the paper writes it: ``superglue/rte`` is RTE; tasks that are not the paper's keep their names."""
    name = task.rpartition("/")[2].lower()
    return _SPELT.get(name, name.upper()) if name in protocol_table.TASKS else task


def _moved(points: Sequence[StabilityPoint]) -> Cell:
    values = [point.test.value for point in points if point.test.value is not None]
    if len(values) < 2:
        return Cell((), "fewer than two K with a result")
    return Cell((Spread(max(values) - min(values), n=len(values)),))


def _worth_a_row(points: Sequence[StabilityPoint], whole: int) -> list[StabilityPoint]:
    """All K but the whole, which stands above; of many only the powers of two."""
    others = [point for point in points if point.k != whole]
    return others if len(others) <= 4 else [point for point in others if point.k & (point.k - 1) == 0]


def cells(row: Row) -> tuple[str, list[list[Line]]]:
    """The cells of a row, each a line a metric, and the n that all of them share, which is then told once."""
    found = [_lines(row, cell) for cell in row.cells[:-1]]
    counts = {line.n for cell in found for line in cell if line.n}
    shared = counts.pop() if len(counts) == 1 else ""
    if shared:
        found = [[replace(line, n="") for line in cell] for cell in found]
    average = [replace(line, n=_tasks(line.n.removeprefix("n="))) for line in _lines(row, row.cells[-1])]
    return shared, [*found, average]


def _tasks(number: str) -> str:
    return f"{number} task{'' if number == '1' else 's'}" if number else ""


def _lines(row: Row, cell: Cell) -> list[Line]:
    if not cell.parts:
        return [Line("–", "", "")]
    scale, digits = (100.0, 2) if row.percent else (1.0, 3)
    found = []
    for part in cell.parts:
        text = Cell((part,)).text(scale=scale, digits=digits)
        bounds = ""
        if part.low is not None and part.high is not None:
            bounds = f"[{_short(part.low * scale, digits)}, {_short(part.high * scale, digits)}]"
        found.append(Line(text, bounds, f"n={part.n}"))
    return found


def _short(value: float, digits: int) -> str:
    return f"{value:.{digits - 1}f}"


@dataclass(frozen=True, slots=True)
class Selected:
    """What was selected on a task, and what the numbers rest on."""

    task: str
    configuration: str
    params: Mapping[str, object]
    dev: Spread
    test: Spread
    splits: str
    configurations: int
    examples: str


def selected(judged: JudgedArm) -> list[Selected]:
    rows = []
    for task, verdict in judged.verdicts.items():
        chosen, found = verdict.chosen, judged.evidence(task)
        done = 0 if chosen is None else len(chosen.splits)
        rows.append(
            Selected(
                task,
                "none" if chosen is None else chosen.configuration,
                {} if chosen is None else chosen.params,
                Spread(None) if chosen is None else chosen.dev,
                Spread(None) if chosen is None else chosen.test,
                f"{done} of {len(verdict.splits)}",
                len(verdict.standings),
                "/".join(_range(found.sizes(part)) for part in ("n_train", "n_dev", "n_test")),
            )
        )
    return rows


def spread_text(found: Spread, digits: int = 2) -> str:
    """Such as ``72.66±3.13 [67.7, 77.6]``."""
    if found.value is None:
        return "–"
    text = Cell((found,)).text(digits=digits)
    if found.low is None or found.high is None:
        return text
    return f"{text} [{_short(100 * found.low, digits)}, {_short(100 * found.high, digits)}]"


def notes(judged: JudgedArm) -> list[str]:
    """What a reader must know: missing trainings with their reasons, ties, classes missing, why there is no number."""
    told = []
    for task, verdict in judged.verdicts.items():
        found = judged.evidence(task)
        own = [_wanting(*reason) for reason in found.reasons()]
        # The verdict names those first that lack splits, which may be all of a large grid.
        lacking = sum(bool(standing.missing) for standing in verdict.standings)
        if lacking > _MOST_LACKING:
            own.append(f"{lacking} of {len(verdict.standings)} configurations lack some of their splits")
        own += verdict.notes[lacking:] if lacking > _MOST_LACKING else verdict.notes
        own += found.notes
        if verdict.correlation.value is None:
            own.append(f"no {CORRELATION}: {verdict.correlation.reason}")
        told += [f"{task}: {note}" for note in own]
    return told


def _wanting(why: str, failed: bool, count: int) -> str:
    trainings = "1 training" if count == 1 else f"{count} trainings"
    return f"{trainings} failed: {why}" if failed else f"{trainings} not done: {why}; lmassay resume goes on"


def _range(sizes: Sequence[int]) -> str:
    if not sizes:
        return "?"
    return f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,}–{sizes[-1]:,}"

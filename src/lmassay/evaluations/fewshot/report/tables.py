"""The protocol's tables as data: the three criteria of one strategy, and comparisons of strategies.

They have the paper's layout: a row for each criterion or strategy, a column for each task, and the average in the last
column. Pages, terminal, Markdown and LaTeX all show the same tables (see ``printed_cells``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lmassay.evaluations.fewshot.protocol.estimates import ProtocolEstimate, stability_by_chance
from lmassay.evaluations.fewshot.protocol.judging import ProtocolVerdict
from lmassay.evaluations.fewshot.protocol.strategies import ABBREVIATIONS, DEALT_BY_FOLD, SINGLE
from lmassay.evaluations.fewshot.protocol.studies import Strategy, Study

_STRATEGY_TITLES = {
    "cross_validation": "cross-validation",
    "mdl": "minimum description length",
    "bagging": "bagging",
    "random": "random sampling",
    "model_informed": "model-informed splits",
    "multi_splits": "Multi-Splits",
    "dev32": "dev32",
    "fixed": "no dev set",
}
TASK_TITLES = {
    "boolq": "BoolQ",
    "rte": "RTE",
    "wic": "WiC",
    "cb": "CB",
    "multirc": "MultiRC",
    "wsc": "WSC",
    "copa": "COPA",
    "record": "ReCoRD",
}
"""The paper's tasks, in the order of its tables."""
# The metrics that tables show. MultiRC's accuracy over answers is used for selection, but the paper does not show it.
_SHOWN_METRICS = {"cb": ("acc", "f1-macro"), "multirc": ("f1", "em"), "record": ("acc", "f1")}
_METRIC_TITLES = {"acc": "acc", "f1-macro": "F1", "f1": "F1", "em": "EM"}
# F1a is the paper's name for MultiRC's F1 over all answers. (MultiRC also has an F1 that is a mean over questions.)
_MULTIRC_METRIC_TITLES = {**_METRIC_TITLES, "f1": "F1a"}
AVERAGE = "Avg"
CORRELATION = "dev–test correlation"
# If more configurations than this lack splits, they are counted instead of named.
_MAX_NAMED = 3
# If there are more values of K than this, only powers of two get a row.
_MAX_K = 4
_EXPLANATION = (
    "test: mean ± standard deviation over the K splits of the configuration with the best mean dev score, in percent. "
    "dev–test correlation: Spearman's rank correlation of mean dev and mean test scores over configurations (FewNLU "
    "does not name its coefficient). Intervals ({confidence:g} %) of an accuracy say how much it may change with other "
    "labelled examples and other test examples; intervals of other scores account only for other labelled examples. "
    "All take into account that splits share labelled examples (Nadeau and Bengio 2003)."
)


def explanation(study: Study) -> str:
    """The text that explains the numbers in all tables."""
    return _EXPLANATION.format(confidence=100 * study.settings.confidence)


@dataclass(frozen=True, slots=True)
class ProtocolCell:
    """The numbers of a cell, one for each metric that the table shows. If there are none, ``note`` says why."""

    parts: tuple[ProtocolEstimate, ...]
    note: str = ""

    @property
    def value(self) -> float | None:
        """The mean of the parts, from which the average over tasks is computed; None if a part has no value."""
        values = [part.value for part in self.parts if part.value is not None]
        if not values or len(values) < len(self.parts):
            return None
        return sum(values) / len(values)

    def text(self, *, scale: float = 100.0, digits: int = 2) -> str:
        """A text such as ``82.71±1.29`` or ``91.96±3.72/88.63±4.91``; a dash for a missing number."""
        if not self.parts:
            return "–"
        texts = [_mean_and_std(part, scale, digits) for part in self.parts]
        return "/".join(texts)


@dataclass(frozen=True, slots=True)
class ProtocolRow:
    """A row of a protocol table."""

    name: str
    cells: tuple[ProtocolCell, ...]
    """In the order of the table's columns, with the average at the end."""
    percent: bool = True
    """Whether the numbers are shares, which are shown in percent."""

    def texts(self) -> list[str]:
        """The cells as text, with as many digits as in the paper's tables."""
        if self.percent:
            return [cell.text(scale=100.0, digits=2) for cell in self.cells]
        return [cell.text(scale=1.0, digits=4) for cell in self.cells]


@dataclass(frozen=True, slots=True)
class ProtocolTable:
    """A table with tasks as columns, and their average as the last column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[ProtocolRow, ...]

    def texts(self) -> list[list[str]]:
        """The table as rows of text, the header first."""
        texts = [["", *self.columns]]
        for row in self.rows:
            texts.append([row.name, *row.texts()])
        return texts


# --- the three criteria of one strategy -------------------------------------------------------------------------------


def criteria_table(strategy: Strategy) -> ProtocolTable:
    """The three criteria: test score, dev-test correlation, and both with other numbers of splits (stability)."""
    tasks = in_papers_order(strategy.verdicts)
    rows = [
        _row("test", tasks, strategy.verdicts, performance_cell),
        _row(CORRELATION, tasks, strategy.verdicts, correlation_cell, percent=False),
    ]
    for k, verdicts in _verdicts_by_k(strategy, tasks).items():
        rows_of_k = [
            _row(f"test, K={k}", tasks, verdicts, performance_cell),
            _row(f"correlation, K={k}", tasks, verdicts, correlation_cell, percent=False),
        ]
        for row in rows_of_k:
            if _has_number(row.cells):
                rows.append(row)
    return ProtocolTable(strategy_title(strategy), _columns(tasks, [strategy.verdicts]), tuple(rows))


def _has_number(cells: Iterable[ProtocolCell]) -> bool:
    return any(cell.parts for cell in cells)


def strategy_title(strategy: Strategy) -> str:
    """A title such as ``MS: Multi-Splits, K = 4, ratio 0.5``."""
    name = strategy.name
    parts = [f"{_abbreviated(name)}: {_STRATEGY_TITLES.get(name, name)}"]
    if name not in SINGLE:
        parts.append(f"K = {strategy.k}")
        if name not in DEALT_BY_FOLD:
            parts.append(f"ratio {strategy.options.ratio:g}")
    if strategy.options.stratify:
        parts.append("stratified")
    if not strategy.options.grouped:
        parts.append("grouped as published")
    return ", ".join(parts)


def _verdicts_by_k(strategy: Strategy, tasks: Sequence[str]) -> dict[int, dict[str, ProtocolVerdict]]:
    """K → task → verdict, from the stability curves. The strategy's own K, which has rows already, is left out."""
    by_k: dict[int, dict[str, ProtocolVerdict]] = {}
    for task in tasks:
        others = [verdict for verdict in strategy.curves.get(task, ()) if verdict.k != strategy.k]
        shows_all = len(others) <= _MAX_K
        for verdict in others:
            # If there are many, only powers of two are shown: neighbouring values of K have nearly all splits in
            # common, so their results hardly differ.
            if shows_all or _is_power_of_two(verdict.k):
                by_k.setdefault(verdict.k, {})[task] = verdict
    return dict(sorted(by_k.items()))


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def stability_note(strategy: Strategy) -> str:
    """A text that says where the rows of other K come from, and how much the test mean changes with K."""
    ranges = []
    for task in in_papers_order(strategy.curves):
        observed = range_over_k(strategy.curves[task])
        by_chance = range_over_k_by_chance(strategy.curves[task])
        if observed is not None and by_chance is not None:
            ranges.append(f"{task_title(task)} {100 * observed:.1f} ({100 * by_chance:.1f})")
    texts = [_origin_of_other_k(strategy)]
    if ranges:
        texts.append(
            "Stability (lmassay's definition) is the highest minus the lowest test mean over K, in percentage points; "
            f"in parentheses, its average if splits differ by chance alone: {', '.join(ranges)}."
        )
    return " ".join(text for text in texts if text)


def _origin_of_other_k(strategy: Strategy) -> str:
    if not strategy.curves:
        return ""
    if strategy.ran_every_k:
        return "Each K was run separately."
    if strategy.name in DEALT_BY_FOLD:
        return "Rows of smaller K use only the first folds; a run with that K would have other folds."
    return "Rows of smaller K use only the first K splits, as a run with that K would."


# --- comparisons of strategies ----------------------------------------------------------------------------------------


def comparison_tables(study: Study) -> list[ProtocolTable]:
    """One table for each criterion."""
    tables = [performance_table(study.verdicts), correlation_table(study.verdicts)]
    over_k = stability_table(study)
    if over_k is not None:
        tables.append(over_k)
    return tables


def performance_table(verdicts: Mapping[str, Mapping[str, ProtocolVerdict]]) -> ProtocolTable:
    """Test mean ± std of the selected configurations (Table 2 of the paper).

    ``verdicts`` is a mapping from strategy to task to verdict.
    """
    tasks = in_papers_order(_tasks_of(verdicts))
    rows = []
    for strategy in _strategies_in_papers_order(verdicts):
        rows.append(_row(_abbreviated(strategy), tasks, verdicts[strategy], performance_cell))
    columns = _columns(tasks, list(verdicts.values()))
    return ProtocolTable("Test performance of the selected configuration, percent", columns, tuple(rows))


def correlation_table(verdicts: Mapping[str, Mapping[str, ProtocolVerdict]]) -> ProtocolTable:
    """Rank correlation of dev and test over configurations (Table 3 of the paper).

    ``verdicts`` is a mapping from strategy to task to verdict.
    """
    tasks = in_papers_order(_tasks_of(verdicts))
    rows = []
    for strategy in _strategies_in_papers_order(verdicts):
        rows.append(_row(_abbreviated(strategy), tasks, verdicts[strategy], correlation_cell, percent=False))
    columns = (*map(task_title, tasks), AVERAGE)
    return ProtocolTable("Dev–test rank correlation", columns, tuple(rows))


def stability_table(study: Study) -> ProtocolTable | None:
    """How much the test mean changes with the number of splits K; None if no strategy was judged with several K."""
    tasks = in_papers_order(study.tasks)
    rows = []
    for strategy in study.main_strategies:
        if not strategy.curves:
            continue
        observed = []
        by_chance = []
        for task in tasks:
            curve = strategy.curves.get(task, ())
            observed.append(_points_cell(range_over_k(curve), curve))
            by_chance.append(_points_cell(range_over_k_by_chance(curve), curve))
        name = _abbreviated(strategy.label)
        rows.append(_points_row(name, observed))
        if _has_number(by_chance):
            rows.append(_points_row(f"{name}, by chance", by_chance))
    if not rows:
        return None
    title = "Stability (lmassay's definition): highest minus lowest test mean over K, in percentage points"
    return ProtocolTable(title, (*map(task_title, tasks), AVERAGE), tuple(rows))


def _points_row(name: str, cells: Sequence[ProtocolCell]) -> ProtocolRow:
    return ProtocolRow(name, (*cells, average(cells)))


def _points_cell(value: float | None, curve: Sequence[ProtocolVerdict]) -> ProtocolCell:
    if value is None:
        return ProtocolCell((), "fewer than two K with a result")
    # Values of K without a result are not part of the range, so they are not counted.
    n = sum(verdict.test.value is not None for verdict in curve)
    return ProtocolCell((ProtocolEstimate(value, n=n),))


def range_over_k(curve: Sequence[ProtocolVerdict]) -> float | None:
    """The highest minus the lowest test mean over K; None if there are fewer than two."""
    values = [verdict.test.value for verdict in curve if verdict.test.value is not None]
    if len(values) < 2:
        return None
    return max(values) - min(values)


def range_over_k_by_chance(curve: Sequence[ProtocolVerdict]) -> float | None:
    """The expected range if splits differed by chance alone; None unless all had the same number of test examples."""
    numbers_of_splits: list[int] = []
    test_sizes: set[int] = set()
    # The mean over the most splits is taken for the true score. Curves are in ascending order of K, so it is the last.
    score: float | None = None
    for verdict in curve:
        if verdict.test.value is None:
            continue
        numbers_of_splits.append(verdict.k)
        test_sizes.update(verdict.sizes("n_test"))
        score = verdict.test.value
    if score is None or len(test_sizes) != 1:
        return None
    return stability_by_chance(numbers_of_splits, score, test_sizes.pop())


def _tasks_of(verdicts: Mapping[str, Mapping[str, ProtocolVerdict]]) -> list[str]:
    """All tasks of all strategies; a task may occur several times."""
    tasks: list[str] = []
    for verdicts_of_strategy in verdicts.values():
        tasks += verdicts_of_strategy
    return tasks


def _strategies_in_papers_order(strategies: Iterable[str]) -> list[str]:
    order = list(ABBREVIATIONS)

    def position(name: str) -> int:
        return order.index(name) if name in order else len(order)

    return sorted(strategies, key=position)


def _abbreviated(strategy: str) -> str:
    return ABBREVIATIONS.get(strategy, strategy)


# --- rows and columns -------------------------------------------------------------------------------------------------


def _row(
    name: str,
    tasks: Sequence[str],
    verdicts: Mapping[str, ProtocolVerdict],
    cell: Callable[[str, ProtocolVerdict], ProtocolCell],
    *,
    percent: bool = True,
) -> ProtocolRow:
    """A row with one cell per task, made by ``cell``, and their average."""
    cells = []
    for task in tasks:
        if task in verdicts:
            cells.append(cell(task, verdicts[task]))
        else:
            cells.append(ProtocolCell((), "not run"))
    return ProtocolRow(name, (*cells, average(cells)), percent)


def performance_cell(task: str, verdict: ProtocolVerdict) -> ProtocolCell:
    """Test mean ± std of the selected configuration, one part for each metric that the paper shows."""
    if verdict.selected is None:
        return ProtocolCell((), "; ".join(verdict.notes) or "nothing was selected")
    metrics = verdict.test_metrics
    parts = [metrics[metric] for metric in _shown_metrics(task, metrics)]
    if parts:
        return ProtocolCell(tuple(parts))
    if verdict.test.value is None:
        return ProtocolCell((), "the selected configuration was not tested")
    return ProtocolCell((verdict.test,))


def correlation_cell(task: str, verdict: ProtocolVerdict) -> ProtocolCell:
    """The correlation with its interval, or the reason why there is none."""
    if verdict.correlation.value is None:
        return ProtocolCell((), verdict.correlation.reason)
    return ProtocolCell((verdict.correlation,))


def average(cells: Sequence[ProtocolCell]) -> ProtocolCell:
    """The mean over tasks; empty unless every task has a number. For a task with several metrics, their mean counts."""
    values = [cell.value for cell in cells if cell.value is not None]
    if not values or len(values) < len(cells):
        return ProtocolCell((), f"{len(values)} of {len(cells)} tasks have a number")
    mean = ProtocolEstimate(sum(values) / len(values), n=len(values))
    return ProtocolCell((mean,))


def _columns(tasks: Sequence[str], verdicts: Sequence[Mapping[str, ProtocolVerdict]]) -> tuple[str, ...]:
    """The titles of the columns: each task with the metrics that its cells show, such as ``CB acc/F1``."""
    columns = []
    for task in tasks:
        metrics: Sequence[str] = ()
        # The first strategy with a result decides; the metrics of a task are the same in all of them.
        for verdicts_of_strategy in verdicts:
            if task in verdicts_of_strategy and verdicts_of_strategy[task].test_metrics:
                metrics = _shown_metrics(task, verdicts_of_strategy[task].test_metrics)
                break
        title = task_title(task)
        if len(metrics) > 1:
            titles = _MULTIRC_METRIC_TITLES if _paper_name(task) == "multirc" else _METRIC_TITLES
            metric_titles = [titles.get(metric, metric) for metric in metrics]
            title += f" {'/'.join(metric_titles)}"
        columns.append(title)
    return (*columns, AVERAGE)


def _shown_metrics(task: str, metrics: Mapping[str, ProtocolEstimate]) -> list[str]:
    """The metrics that tables show for a task: the paper's for its tasks, else all."""
    selected = _SHOWN_METRICS.get(_paper_name(task), tuple(metrics))
    return [metric for metric in selected if metric in metrics]


def in_papers_order(tasks: Iterable[str]) -> list[str]:
    """The tasks without repetitions: first those of the paper in its order, then others in their given order."""
    order = list(TASK_TITLES)

    def position(task: str) -> int:
        name = _paper_name(task)
        return order.index(name) if name in order else len(order)

    return sorted(dict.fromkeys(tasks), key=position)


def task_title(task: str) -> str:
    """The name of a task as the paper writes it, such as RTE for ``superglue/rte``. Other tasks keep their names."""
    return TASK_TITLES.get(_paper_name(task), task)


def _paper_name(task: str) -> str:
    """The name of a task without its data set, such as ``cb`` for ``superglue/cb``."""
    return task.rpartition("/")[2].lower()


# --- numbers as text --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number as text, with its interval and n, the number of splits or configurations. The last two may be empty."""

    text: str
    interval: str
    n: str

    @property
    def small(self) -> list[str]:
        """What is printed below or after the number."""
        return [part for part in (self.interval, self.n) if part]


_NO_NUMBER = PrintedNumber("–", "", "")


def printed_cells(row: ProtocolRow) -> tuple[str, list[list[PrintedNumber]]]:
    """The n of a row and its cells, as they are shown.

    If all cells have the same n, it is returned for the whole row; otherwise the first value is empty, and each number
    has its own n. A cell has one number for each metric.
    """
    *task_cells, average_cell = row.cells
    counts: set[int] = set()
    for cell in task_cells:
        counts.update(part.n for part in cell.parts)
    shared_n = ""
    if len(counts) == 1:
        shared_n = f"n={counts.pop()}"

    printed = []
    for cell in task_cells:
        numbers = []
        for part in cell.parts:
            own_n = "" if shared_n else f"n={part.n}"
            numbers.append(_printed_number(part, row, own_n))
        printed.append(numbers or [_NO_NUMBER])
    averages = []
    for part in average_cell.parts:
        # The n of an average is a number of tasks.
        number_of_tasks = "1 task" if part.n == 1 else f"{part.n} tasks"
        averages.append(_printed_number(part, row, number_of_tasks))
    printed.append(averages or [_NO_NUMBER])
    return shared_n, printed


def _printed_number(estimate: ProtocolEstimate, row: ProtocolRow, n: str) -> PrintedNumber:
    if row.percent:
        scale, digits = 100.0, 2
    else:
        scale, digits = 1.0, 3
    return PrintedNumber(_mean_and_std(estimate, scale, digits), _interval(estimate, scale, digits), n)


def estimate_text(estimate: ProtocolEstimate, digits: int = 2) -> str:
    """The estimate in percent, such as ``72.66±3.13 [67.7, 77.6]``."""
    number = _mean_and_std(estimate, 100.0, digits)
    interval = _interval(estimate, 100.0, digits)
    if not interval:
        return number
    return f"{number} {interval}"


def _mean_and_std(estimate: ProtocolEstimate, scale: float, digits: int) -> str:
    if estimate.value is None:
        return "–"
    text = f"{estimate.value * scale:.{digits}f}"
    if estimate.std is not None:
        text += f"±{estimate.std * scale:.{digits}f}"
    return text


def _interval(estimate: ProtocolEstimate, scale: float, digits: int) -> str:
    """The interval, with one digit less than the number; empty if there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    low = f"{estimate.low * scale:.{digits - 1}f}"
    high = f"{estimate.high * scale:.{digits - 1}f}"
    return f"[{low}, {high}]"


# --- configurations, splits, examples and notes -----------------------------------------------------------------------


def selected_name(verdict: ProtocolVerdict) -> str:
    """The name of the selected configuration, or "none"."""
    return "none" if verdict.selected is None else verdict.selected.name


def splits_text(verdict: ProtocolVerdict) -> str:
    """The number of splits on which the selected configuration has a result, such as ``3 of 4``."""
    if verdict.selected is None:
        return f"0 of {verdict.k}"
    return f"{len(verdict.selected.splits)} of {verdict.k}"


def examples_text(verdict: ProtocolVerdict) -> str:
    """The numbers of train, dev and test examples, such as ``32/32/277``."""
    return "/".join(_range_text(verdict.sizes(part)) for part in ("n_train", "n_dev", "n_test"))


def _range_text(sizes: Sequence[int]) -> str:
    if not sizes:
        return "?"
    if len(sizes) == 1:
        return f"{sizes[0]:,}"
    return f"{sizes[0]:,}–{sizes[-1]:,}"


def notes(strategy: Strategy) -> list[str]:
    """The notes below the tables: missing trainings with their reasons, ties, warnings, why there is no correlation."""
    texts = []
    for task, verdict in strategy.verdicts.items():
        notes_of_task = []
        for reason, failed, count in verdict.reasons():
            notes_of_task.append(_missing_text(reason, failed, count))
        missing = verdict.missing_notes
        if len(missing) > _MAX_NAMED:
            missing = [f"{len(missing)} of {len(verdict.configurations)} configurations lack some of their splits"]
        notes_of_task += missing
        notes_of_task += verdict.selection_notes
        notes_of_task += verdict.warnings
        if verdict.correlation.value is None:
            notes_of_task.append(f"no {CORRELATION}: {verdict.correlation.reason}")
        for note in notes_of_task:
            texts.append(f"{task}: {note}")
    return texts


def _missing_text(reason: str, failed: bool, count: int) -> str:
    trainings = "1 training" if count == 1 else f"{count} trainings"
    if failed:
        return f"{trainings} failed: {reason}"
    return f"{trainings} not done: {reason}; continue with lmassay resume"

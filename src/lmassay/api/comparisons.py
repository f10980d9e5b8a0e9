"""Compare runs on the examples that they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from lmassay.api import display
from lmassay.api.figures import RunFigure, interval_chart
from lmassay.api.runs import LATEST, Run, Runs, load_run
from lmassay.errors import UserError, did_you_mean
from lmassay.interchange.frames import frame
from lmassay.reporting.chart import LinearAxis
from lmassay.reporting.comparison_data import RunComparison, compare_with_first, interval_text
from lmassay.reporting.numbers import number_text, p_text
from lmassay.statistics.comparison import Comparison, p_equation
from lmassay.storage.files import atomic_write
from lmassay.storage.store import STORE_FILE, Store

if TYPE_CHECKING:
    import pandas
    import polars


class Comparisons(list[Comparison]):
    """The differences between a base run and other runs: one :class:`Comparison` per metric and other run.

    ``comparisons["success"]`` is the difference in one metric, if there is only one other run.

    In a notebook, they are displayed as a table and a figure.
    """

    def __init__(self, rows: Iterable[Comparison], runs: Runs, caveats: Iterable[str] = ()) -> None:
        super().__init__(rows)
        self.runs = runs
        """The compared runs, the base run first."""
        self.caveats = list(caveats)
        """Sentences about what else differs between the runs, such as their prompts or scorers."""

    @overload
    def __getitem__(self, key: SupportsIndex) -> Comparison: ...

    @overload
    def __getitem__(self, key: slice) -> list[Comparison]: ...

    @overload
    def __getitem__(self, key: str) -> Comparison: ...

    def __getitem__(self, key: SupportsIndex | slice | str) -> Comparison | list[Comparison]:
        if not isinstance(key, str):
            return super().__getitem__(key)
        matches = [row for row in self if row.metric == key]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise KeyError(f"{key}; {len(matches)} runs are compared with the base run: choose one by its position")
        # With several new runs, each metric has several rows.
        metrics = list(dict.fromkeys(row.metric for row in self))
        compared = f"the compared metrics are {', '.join(metrics)}" if metrics else "no metric was compared"
        raise KeyError(f"{key}{did_you_mean(key, metrics)}; {compared}")

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with one row per difference."""
        data: pandas.DataFrame = frame(self._columns(), "pandas")
        return data

    def to_polars(self) -> polars.DataFrame:
        """Return a polars data frame with one row per difference."""
        data: polars.DataFrame = frame(self._columns(), "polars")
        return data

    def plot(self) -> RunFigure:
        """Return a figure of the differences with their intervals."""
        rows = []
        values = [0.0]
        for row in self:
            text = f"{self._name(row)}: {row.difference:+z.4f} {interval_text(row, '+')}, n = {row.n:,}"
            label = f"{self._name(row)}  {row.difference:+z.3f}"
            low = high = None
            # Runs with the same scores have no interval to show, as in the table.
            if row.changed:
                low = row.low
                high = row.high
            rows.append((label, row.difference, low, high, text))
            values += [value for value in (row.difference, low, high) if value is not None]
        axis = LinearAxis.around("new minus base", values, signed=True)
        return interval_chart("Differences from the base run", axis, rows, reference=0.0)

    def report(self, path: str | Path) -> Path:
        """Write an HTML page with the differences, the examples that changed and the caveats."""
        file = Path(path)
        if file.suffix.lower() not in (".html", ".htm"):
            raise UserError(f"{file} does not end in .html; comparisons are written as HTML pages")
        from lmassay.reporting.compare_page import render

        with ExitStack() as stack:
            text = render(_compared(self.runs, stack))
        with atomic_write(file) as stream:
            stream.write(text)
        return file

    def _columns(self) -> dict[str, list[Any]]:
        """Return the differences as columns of a data frame."""
        columns: dict[str, list[Any]] = {}
        for row in self:
            for name, value in row.as_json().items():
                columns.setdefault(name, []).append(value)
        return columns

    def _name(self, row: Comparison) -> str:
        if len(self.runs) == 2:
            return row.metric
        return f"{row.metric}, {row.new_label}"

    def __repr__(self) -> str:
        if not self:
            return "<no differences: the runs share no example with a score>"
        lines = []
        for row in self:
            difference = f"{row.difference:+z.4f} {interval_text(row, '+')}"
            lines.append(f"{self._name(row)}: {difference}, {p_equation(row.p)}, n = {row.n:,}")
        lines += [f"note: {caveat}" for caveat in self.caveats]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = []
        for row in self:
            rows.append(
                [
                    self._name(row),
                    number_text(row.base_mean),
                    number_text(row.new_mean),
                    f"{row.difference:+z.4f}",
                    interval_text(row, "+"),
                    p_text(row.p),
                    p_text(row.p_adjusted),
                    f"{row.n:,}",
                ]
            )
        base = self.runs[0]
        others = ", ".join(run.record.title for run in self.runs[1:])
        parts = [display.heading(f"{others} against {base.record.title}")]
        headers = ["metric", "base", "new", "difference", "interval", "p", "p (FDR)", "n"]
        parts.append(display.table(headers, rows, "tnnnnnnn"))
        parts += [display.note(caveat) for caveat in self.caveats]
        if self:
            parts.append(self.plot().html())
        return display.page(*parts)


def compare(
    base: Run | str | Path | Sequence[Any], *others: Run | str | Path | Sequence[Any], results: str | Path | None = None
) -> Comparisons:
    """Compare each other run with ``base`` on the examples that both have, by every headline metric.

    A run is given as a :class:`Run`, as the return value of :func:`lmassay.evaluate` for a single run, as an id (or its
    beginning or end, or ``latest``) in the folder ``results``, or as a results folder, which stands for its latest run.
    A list of runs among ``others`` stands for each of its runs. All runs may also be given as one list, the base run
    first.

    >>> lmassay.compare(plain, careful)["success"].difference  # doctest: +SKIP
    -0.7
    """
    if not others and isinstance(base, list | tuple) and base:
        return compare(*base, results=results)
    bases = _listed(base)
    if others and len(bases) != 1:
        raise UserError(f"the base run is a list of {len(bases)} runs; choose one by its position, such as runs[0]")
    runs_or_names = [*bases, *_listed(others)]
    if len(runs_or_names) < 2:
        raise UserError("give at least two runs: the others are compared with the first one")
    runs = Runs(_run(run, results) for run in runs_or_names)
    with ExitStack() as stack:
        comparison = _compared(runs, stack)
    return Comparisons(comparison.rows, runs, comparison.caveats)


def _listed(runs: Any) -> list[Run | str | Path]:
    """Return all runs in one list. Lists may be nested, because `evaluate` returns a list even for a single run."""
    if isinstance(runs, Run | str | Path):
        return [runs]
    if not isinstance(runs, list | tuple):
        raise UserError(f"a run is a Run, an id or a results folder, not a value of type {type(runs).__name__}")
    listed = []
    for run in runs:
        listed += _listed(run)
    return listed


def _run(run: Run | str | Path, results: str | Path | None) -> Run:
    """Return a run that is given as an object, a results folder or an id."""
    if isinstance(run, Run):
        return run
    if isinstance(run, Path) or (Path(run) / STORE_FILE).is_file():
        return load_run(LATEST, run)
    return load_run(run, results)


def _compared(runs: Runs, stack: ExitStack) -> RunComparison:
    """Compare runs with the first one. Their stores are entered into ``stack`` and stay open until it is closed."""
    opened = []
    for run in runs:
        store = stack.enter_context(Store(run.folder, for_display=True))
        opened.append((store, run.record))
    return compare_with_first(opened)

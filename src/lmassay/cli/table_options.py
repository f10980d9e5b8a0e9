"""The options that describe a table of runs, shared by all commands that write one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from lmassay.reporting.run_table import TableLayout

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--rows",
        metavar="KEY",
        default="",
        help="What each row stands for, such as model.  [default: what the runs differ in]",
    ),
    click.option(
        "--columns",
        metavar="KEY",
        default="",
        help="What each column stands for.  [default: the metrics; with one --metric, another key that the runs differ "
        "in]",
    ),
    click.option(
        "--metric",
        "metrics",
        metavar="METRIC",
        multiple=True,
        help="Metric to show; repeatable.  [default: the main metrics]",
    ),
    click.option("--digits", type=click.IntRange(0, 12), help="Number of decimals.  [default: 3]"),
    click.option("--interval", "with_intervals", is_flag=True, help="Show the confidence interval below each number."),
    click.option("--n", "with_n", is_flag=True, help="Show the number of examples below each number."),
    click.option("--caption", metavar="TEXT", default="", help="Caption of the table."),
    click.option(
        "--alpha",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Significance level of the tests.  [default: 0.05]",
    ),
)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The values of the options that describe a table. None or an empty value: the option was not given."""

    rows: str
    columns: str
    metrics: Sequence[str]
    digits: int | None
    with_intervals: bool
    with_n: bool
    caption: str
    alpha: float | None

    @property
    def choose_contents(self) -> bool:
        """Whether rows, columns or metrics are given; only then does a report begin with such a table."""
        return bool(self.rows or self.columns or self.metrics)

    @property
    def describe_a_table(self) -> bool:
        """Whether an option is given that only describes a table, such as the number of digits."""
        has_flag = self.with_intervals or self.with_n
        return has_flag or self.caption != "" or self.digits is not None or self.alpha is not None

    def layout(self) -> TableLayout:
        """Return the layout of the table."""
        # Imported here, because the options are also declared for --help, which must not load the reports.
        from lmassay.reporting.run_table import DEFAULT_DIGITS, TableLayout
        from lmassay.statistics import ALPHA

        return TableLayout(
            rows=self.rows.strip(),
            columns=self.columns.strip(),
            metrics=self.metrics,
            digits=DEFAULT_DIGITS if self.digits is None else self.digits,
            with_intervals=self.with_intervals,
            with_n=self.with_n,
            caption=self.caption,
            alpha=self.alpha or ALPHA,
        )


def table_options(command: Command) -> Command:
    """Add the options of a table to a command, which receives them as one :class:`TableOptions` in ``table``."""

    @functools.wraps(command)
    def wrapped(
        *args: Any,
        rows: str,
        columns: str,
        metrics: Sequence[str],
        digits: int | None,
        with_intervals: bool,
        with_n: bool,
        caption: str,
        alpha: float | None,
        **options: Any,
    ) -> Any:
        table = TableOptions(rows, columns, metrics, digits, with_intervals, with_n, caption, alpha)
        return command(*args, table=table, **options)

    # Click lists options in the reverse order of decoration.
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast(Command, wrapped)

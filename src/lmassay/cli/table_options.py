"""The options that describe a table of runs, for every command that writes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--rows", metavar="KEY", default="", help="What the rows are.  [default: what the runs differ in]"),
    click.option("--columns", metavar="KEY", default="", help="What the columns are.  [default: the metrics]"),
    click.option(
        "--metric", "metrics", metavar="METRIC", multiple=True, help="Metric; repeatable.  [default: the main ones]"
    ),
    click.option("--digits", type=click.IntRange(0, 12), default=3, show_default=True, help="Number of decimals."),
    click.option("--interval", "with_intervals", is_flag=True, help="Show the confidence interval below each number."),
    click.option("--n", "with_n", is_flag=True, help="Show the number of examples below each number."),
    click.option("--caption", metavar="TEXT", default="", help="Caption of the table."),
    click.option(
        "--alpha",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Level of the tests.  [default: 0.05]",
    ),
)


def table_options(command: Command) -> Command:
    """Add the options of a table: its rows, columns, metrics and what a cell shows."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command

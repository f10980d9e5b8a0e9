"""Options and help of ``lmassay compare``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, json_option, results_option
from lmassay.errors import UserError
from lmassay.statistics import ALPHA

_DEFAULT_FLIPS = 10


def _number_of_flips(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Return the value of ``--flips`` as a number, or raise a UserError."""
    if value is None:
        return None
    if value.isdecimal():
        return int(value)
    # Click takes the argument after the option as its value, even if that is the id of a run.
    raise UserError(
        f"--flips takes a number of examples, not '{value}'; write --flips after the runs, "
        f"or --flips {_DEFAULT_FLIPS} before them"
    )


@click.command(
    epilog='Example: lmassay compare BASE NEW --fail-if "accuracy<-0.02"',
    short_help="Compare runs on the examples they share.",
)
@click.argument("runs", metavar="BASE NEW...", nargs=-1, required=True)
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help="Compare by this metric; repeatable.  [default: the main metrics]",
)
@click.option(
    "--group",
    "groups",
    metavar="KIND=LABEL",
    multiple=True,
    help="Use only examples of a group, such as category=Age. With groups of several kinds, use only examples that are "
    "in all of them.",
)
@click.option(
    "--flips",
    "max_flips",
    metavar="[N]",
    is_flag=False,
    flag_value=str(_DEFAULT_FLIPS),
    callback=_number_of_flips,
    help="List examples whose score changed: up to N that fell from 1 to 0 and N that rose from 0 to 1, or the N "
    f"largest changes of a graded score.  [default N: {_DEFAULT_FLIPS}]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the comparison as an HTML page to this .html file.",
)
@click.option(
    "--fail-if",
    "conditions",
    metavar="CONDITION",
    multiple=True,
    help='Exit with 1 if there is evidence for this condition on NEW - BASE: "accuracy<-0.02" (an absolute '
    'difference), "accuracy<-2%" (a share of the value of BASE) or "accuracy worse by 0.02".',
)
@click.option(
    "--pass-only-if",
    "requirements",
    metavar="CONDITION",
    multiple=True,
    help='Exit with 0 only if there is evidence for this condition on NEW - BASE: "accuracy>-0.02", "accuracy>-2%" (a '
    'share of the value of BASE) or "accuracy not worse by 0.02".',
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 0.5, min_open=True, max_open=True),
    default=ALPHA,
    show_default=True,
    help="Significance level.",
)
@click.option(
    "--allow-incomplete",
    is_flag=True,
    help="Let --fail-if and --pass-only-if judge unfinished runs and runs with errors.",
)
@click.option(
    "--base-results",
    type=click.Path(path_type=Path, file_okay=False),
    help="Results folder of BASE, if BASE is not in --results.",
)
@results_option
@json_option
@calls("lmassay.cli.actions.compare:compare")
def compare() -> None:
    """Compare each NEW run with BASE on the examples they share.

    The table shows the difference NEW - BASE, its confidence interval and a paired test.

    Two options turn the command into a gate for CI: a check whose exit code can fail a build. --fail-if exits with 1 if
    there is evidence that its condition holds, such as a drop beyond the threshold, otherwise with 0. --pass-only-if
    exits with 0 if there is evidence that its condition holds, such as no drop beyond the threshold, otherwise with 1.
    Both exit with 2 if the data do not allow a judgement. The p-values of --fail-if are adjusted for the number of
    conditions and runs.

    To let the gate judge every run of a sweep, write "latest" for both BASE and NEW and name the results folder of
    BASE with --base-results.
    """

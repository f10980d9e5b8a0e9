"""Options and help of ``lmassay reproduce``."""

from __future__ import annotations

import click

from lmassay.cli.completion import offer
from lmassay.cli.options import calls, executor_options, json_option, results_option

# US dollars per hour.
_DEFAULT_GPU_PRICE = 2.0


@click.command(
    epilog="Example: lmassay reproduce blimp",
    short_help="Compute published numbers again and compare them.",
)
@click.argument("name", required=False, shell_complete=offer("lmassay.cli.actions.reproduce:reproductions"))
@click.option(
    "--model",
    "models",
    metavar="NAME[=FOLDER]",
    multiple=True,
    help="Run only this published model, from a folder or from the hub's cache; repeatable.",
)
@click.option(
    "--part",
    "patterns",
    metavar="PART",
    multiple=True,
    help="Run only this part; * stands for any characters; repeatable.",
)
@click.option("--estimate", "only_estimate", is_flag=True, help="Print the estimated time and cost, and run nothing.")
@click.option(
    "--gpu-price",
    type=click.FloatRange(min=0),
    default=_DEFAULT_GPU_PRICE,
    show_default=True,
    help="Price of an hour on a GPU in USD, for the estimate.",
)
@executor_options
@results_option
@json_option
@calls("lmassay.cli.actions.reproduce:reproduce")
def reproduce() -> None:
    """Compute published numbers again and print them next to the originals.

    Without NAME, list what can be reproduced. The exit code is 1 if a number that should agree does not. Some numbers
    need models that are not part of lmassay: the estimated time is printed first, and models that are not on this
    machine are left out and listed.
    """

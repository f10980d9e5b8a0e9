"""Options and help of ``lmassay tse`` and its commands ``run``, ``run-all`` and ``plots``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lmassay.cli.argparse_style import AbbreviatedCommand, AddedOption
from lmassay.cli.options import calls

F = TypeVar("F", bound=Callable[..., Any])
_STORE = Path("results") / "lmassay"


def _run_options(function: F) -> F:
    """Add the options that ``run`` and ``run-all`` share."""
    for option in reversed(
        (
            click.option(
                "--compat",
                cls=AddedOption,
                type=click.Choice(["none", "released"]),
                default="none",
                show_default=True,
                help="released: compute what the released program computes, including its two bugs: one verb counts "
                "per idx, and a masked model may be read at a wrong position.",
            ),
            click.option(
                "--model",
                cls=AddedOption,
                metavar="MODEL",
                help="Run this model instead (folder, .gguf file or hub name); results are written under its name.",
            ),
            click.option(
                "--plugins",
                "files",
                cls=AddedOption,
                metavar="FILE",
                multiple=True,
                type=click.Path(path_type=Path),
                help="Python file that registers your own models or metrics; repeatable.",
            ),
            click.option(
                "--lemma-stats",
                cls=AddedOption,
                is_flag=True,
                help="Keep rank and probability of every verb form in every context; this needs a lot of disk space.",
            ),
            click.option(
                "--again",
                cls=AddedOption,
                is_flag=True,
                help="Run the model again even if there are results already.",
            ),
            click.option(
                "--results",
                cls=AddedOption,
                type=click.Path(path_type=Path, file_okay=False),
                default=lambda: Path(os.environ.get("LMASSAY_RESULTS", _STORE)),
                help=f"Folder for the runs.  [default: $LMASSAY_RESULTS or ./{_STORE.as_posix()}]",
            ),
        )
    ):
        function = option(function)
    return function


@click.group(
    epilog="Example: lmassay tse run-all configs --whitelist bert-large-cased --blacklist blimp",
    short_help="refining-tse's configurations, folders, table and plots.",
)
def tse() -> None:
    """Run refining-tse's configurations, and write its result folders, table and plots."""


@tse.command(
    epilog="Example: lmassay tse run configs/bert-base-cased/ML_simple_agrmt/mw.yaml",
    short_help="Run configurations of refining-tse.",
)
@click.argument("configs", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@_run_options
@calls("lmassay.evaluations.syntax.commands.actions.tse:run")
def run() -> None:
    """Run configurations of refining-tse and write a result folder for each.

    TSE, EW and MW are computed together: configurations that differ only in the metric share one run. An
    interrupted run continues where it stopped.
    """


@tse.command(
    "run-all",
    cls=AbbreviatedCommand,
    epilog="Example: lmassay tse run-all configs --whitelist bert-large-cased,gpt2-xl --blacklist blimp",
    short_help="Run all configurations below a folder.",
)
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--whitelist", metavar="A,B", default="", help="Only paths that contain one of these.")
@click.option("--blacklist", metavar="C,D", default="", help="Skip paths that contain one of these.")
@_run_options
@calls("lmassay.evaluations.syntax.commands.actions.tse:run_all")
def run_all() -> None:
    """Run every .yaml file below FOLDER. A configuration that fails does not stop the others."""


@tse.command(
    epilog="Example: lmassay tse plots results -o plots --format png --format pdf",
    short_help="Write the LaTeX table and the figures.",
)
@click.argument(
    "folder", metavar="[RESULTS]", default=Path("results"), type=click.Path(path_type=Path, file_okay=False)
)
@click.option(
    "-o",
    "--out",
    "target",
    default=Path("plots"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the table and the figures.",
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    default=("png",),
    show_default=True,
    type=click.Choice(["png", "pdf", "svg"]),
    help="Format of the figures; repeatable.",
)
@click.option(
    "--compat",
    type=click.Choice(["none", "released"]),
    help="Use only runs of this kind. By default, runs with --compat released are used only if a model has no others.",
)
@calls("lmassay.evaluations.syntax.commands.actions.tse:plots")
def plots() -> None:
    """Write latex_table.tex and the figures of the paper from result folders of refining-tse or lmassay.

    RESULTS is the folder with <model>/<templates>/<metric>/<run>, by default ./results. If there are
    several runs of one kind, the newest is used.
    """

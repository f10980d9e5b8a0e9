"""Options and help of ``lmassay export``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, results_option
from lmassay.interchange import RELATIONSHIPS


@click.command(
    epilog="Example: lmassay export latest -o rows.csv",
    short_help="Export a run to JSON Lines, CSV, lm-eval or Every Eval Ever.",
)
@click.argument("run", metavar="[RUN]", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "lm-eval", "every-eval-ever"]),
    help="JSON Lines or CSV with one example per row, logs of lm-evaluation-harness, or the schema of Every Eval Ever."
    "  [default: by the ending of -o, else jsonl]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write (lm-eval: a folder; every-eval-ever: a file or folder).  [default: standard output]",
)
@click.option("--organization", default="unknown", show_default=True, help="every-eval-ever: who ran the evaluation.")
@click.option(
    "--relationship",
    type=click.Choice(RELATIONSHIPS),
    default="other",
    show_default=True,
    help="every-eval-ever: relationship of the evaluator to the model's developer.",
)
@results_option
@calls("lmassay.cli.actions.export:export")
def export() -> None:
    """Export a run: every example with its state, scores, texts and error, or in the format of another tool.

    RUN is an id, the beginning or end of an id, or "latest", which is the default.
    """

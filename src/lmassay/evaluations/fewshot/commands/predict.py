"""Options and help of ``lmassay predict``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls, results_option


@click.command(
    epilog="Example: lmassay predict latest --in new.jsonl -o labels.jsonl",
    short_help="Label new texts with a trained model.",
)
@click.argument("run", metavar="[RUN]", required=False, default="latest")
@click.option(
    "--in",
    "source",
    type=click.Path(path_type=Path),
    help="Texts to label, with the task's fields: .jsonl, .csv or .tsv, may be compressed with gzip; - for standard "
    "input.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write: .jsonl, .tsv or .csv.  [default: standard output, as JSON Lines]",
)
@click.option(
    "--split",
    default="best",
    show_default=True,
    help="Which trained model to use: best (the highest dev score), or a name or number from --list.",
)
@click.option("--list", "listed", is_flag=True, help="List the run's trained models instead of labelling texts.")
@click.option("--device", default="auto", show_default=True, help="Where the model runs: auto, cpu, cuda, cuda:1, mps.")
@results_option
@calls("lmassay.evaluations.fewshot.commands.actions.predict:predict")
def predict() -> None:
    """Label new texts with a model that a few-shot run trained and kept (keep: best).

    RUN is the name of a run, or the folder of a kept model. Each row of the output has the number of the text, its
    label and the probability of every label. For ReCoRD, the label is the chosen entity, and there are no
    probabilities.
    """

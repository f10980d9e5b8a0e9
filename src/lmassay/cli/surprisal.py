"""Options and help of ``lmassay surprisal``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.options import calls


@click.command(
    "surprisal",
    epilog="Example: lmassay surprisal smollm2 --in text.txt -o scores.tsv",
    short_help="Score every word or token of a text.",
)
@click.argument("model", metavar="MODEL")
@click.option(
    "--in",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    help="Text file, one text per line; may be compressed with gzip; - for standard input.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write: .tsv or .csv.  [default: standard output, as TSV]",
)
@click.option("--per", type=click.Choice(["word", "token"]), default="word", show_default=True, help="What to score.")
@click.option(
    "--unit", type=click.Choice(["bits", "nats"]), default="bits", show_default=True, help="Unit of surprisal."
)
@click.option(
    "--correction",
    type=click.Choice(["space", "space+end", "none"]),
    default="space",
    show_default=True,
    help="Beginning-of-word correction. A word ends before a token that begins with a space (space), or also at the "
    "end of the text (space+end); none: do not correct. Masked models need no correction.",
)
@calls("lmassay.cli.actions.surprisal:surprisal_command")
def surprisal_command() -> None:
    """Score every word or token of a text with a local model: how unexpected it is, in bits or nats.

    Words are separated by white space. Causal models predict each token from the text before it, masked models from
    both sides. MODEL is written as for lmassay card: smollm2, a folder or GGUF file, a hub name, or options such as
    '{name: hf, model: path/to/model, prefix: bos}'.
    """

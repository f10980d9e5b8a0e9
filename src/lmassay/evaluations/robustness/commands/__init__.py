"""Options and help of ``perturb``, ``teapot``, ``scorers`` and ``perturbations``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.completion import offer
from lmassay.cli.components import listing
from lmassay.cli.options import calls
from lmassay.evaluations.robustness import DEFAULT_RATE

_HELP = "lmassay.evaluations.robustness.commands.actions.component_help"

scorers = listing("scorer", f"{_HELP}:scorer_help", example="bleu")
perturbations = listing("perturbation", f"{_HELP}:perturbation_help", example="keyboard")


@click.command(
    epilog="Example: lmassay perturb keyboard --in src.fr --out adv.fr --rate 0.2 --set layout=azerty",
    short_help="Write an adversarial version of a text file.",
)
@click.argument(
    "name", shell_complete=offer("lmassay.evaluations.robustness.commands.actions.perturb:perturbation_names")
)
@click.option(
    "--in",
    "source",
    required=True,
    type=click.Path(path_type=Path),
    help="Text file, one sentence per line; may be compressed with gzip; - for standard input.",
)
@click.option(
    "--out", "target", required=True, type=click.Path(path_type=Path), help="File to write; - for standard output."
)
@click.option(
    "--rate", type=float, default=DEFAULT_RATE, show_default=True, help="Probability that a word is changed, 0 to 1."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random numbers.")
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set an option of the perturbation; repeatable."
)
@calls("lmassay.evaluations.robustness.commands.actions.perturb:perturb")
def perturb() -> None:
    """Perturb every line of a text file.

    NAME is one of `lmassay perturbations`, or path/file.py:Name.
    """


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="TEAPOT's own command line.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@calls("lmassay.evaluations.robustness.commands.actions.teapot:teapot")
def teapot() -> None:
    """Run TEAPOT's own command line; -h prints its help."""

"""The commands of the robustness evaluation: ``perturb``, ``teapot``, ``scorers`` and ``perturbations``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import click

from lmassay.cli.completion import offer
from lmassay.cli.components import listing
from lmassay.cli.console import say, warn
from lmassay.cli.progress import progress_bar
from lmassay.errors import ConfigError
from lmassay.evaluations.robustness.perturbations.base import DEFAULT_RATE, make_perturber
from lmassay.plugins.registry import current_registry
from lmassay.running.config import set_value
from lmassay.storage.files import atomic_write, open_text

# Lines between two steps of the progress bar.
_PROGRESS_STEP = 1000

scorers = listing("scorer")
perturbations = listing("perturbation")


def _perturbation_names() -> Sequence[str]:
    return current_registry().names("perturbation")


@click.command(
    epilog="Example: lmassay perturb keyboard --in src.fr --out adv.fr --rate 0.2 --set layout=azerty",
    short_help="Write an adversarial version of a text file.",
)
@click.argument("name", shell_complete=offer(_perturbation_names))
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
def perturb(name: str, source: Path, target: Path, rate: float, seed: int, settings: Sequence[str]) -> None:
    """Perturb every line of a text file.

    NAME is one of `lmassay perturbations`, or path/file.py:Name.
    """
    perturber = make_perturber(name, rate=rate, seed=seed, options=_options(settings), base=Path())
    text = open_text(source, "input")
    changed = 0
    to_terminal = target == Path("-")
    output = nullcontext(sys.stdout) if to_terminal else atomic_write(target)
    with progress_bar(f"{name}: {source.name}") as advance, output as stream:
        for index, line in enumerate(text.read()):
            adversarial = perturber(line, index)
            if adversarial != line:
                changed += 1
            stream.write(adversarial + "\n")
            if index % _PROGRESS_STEP == 0:
                advance(index, text.lines)
    written = "" if to_terminal else f"; written to {target}"
    say(f"{changed} of {text.lines} lines changed by {perturber.signature}{written}")


def _options(settings: Sequence[str]) -> dict[str, object]:
    options: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: write key=value, e.g. --set layout=azerty")
        options[key] = set_value(value, setting)
    return options


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="TEAPOT's own command line.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def teapot(arguments: Sequence[str]) -> int:
    """Run TEAPOT's own command line; -h prints its help."""
    from lmassay.evaluations.robustness.teapot.program import run

    try:
        with progress_bar("scoring") as advance:
            output = run(list(arguments), advance)
    except SystemExit as stop:
        # argparse exits after it has printed help or a wrong option.
        if isinstance(stop.code, int):
            return stop.code
        return 2
    for warning in output.warnings:
        warn(warning)
    click.echo(output.text, nl=False)
    return 0

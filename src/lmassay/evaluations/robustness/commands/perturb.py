"""``lmassay perturb``"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from lmassay.cli.completion import offer
from lmassay.cli.console import say
from lmassay.cli.progress import progress_bar
from lmassay.errors import ConfigError
from lmassay.evaluations.robustness.perturbations.base import DEFAULT_RATE, make_perturber
from lmassay.plugins.registry import current_registry
from lmassay.running.config import set_value
from lmassay.storage.files import atomic_write, open_text


@click.command(
    epilog="Example: lmassay perturb keyboard --in src.fr --out adv.fr --rate 0.2 --set layout=azerty",
    short_help="Write an adversarial text file.",
)
@click.argument("name", shell_complete=offer(lambda: current_registry().names("perturbation")))
@click.option("--in", "source", required=True, type=click.Path(path_type=Path), help="Text file, a sentence a line.")
@click.option("--out", "target", required=True, type=click.Path(path_type=Path), help="File to write.")
@click.option("--rate", type=float, default=DEFAULT_RATE, show_default=True, help="Share of words that are changed.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed, another draw.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="An option of it; repeatable.")
def perturb(name: str, source: Path, target: Path, rate: float, seed: int, settings: Sequence[str]) -> None:
    """Write FILE with every line perturbed. NAME is one of `lmassay perturbations`, or path/file.py:Name."""
    perturber = make_perturber(name, rate=rate, seed=seed, options=_options(settings), base=Path())
    text = open_text(source, "input")
    changed = 0
    with progress_bar(f"{name}: {source.name}") as advance, atomic_write(target) as stream:
        for index, line in enumerate(text.read()):
            adversarial = perturber(line, index)
            changed += adversarial != line
            stream.write(adversarial + "\n")
            if index % 1000 == 0:
                advance(index, text.lines)
    say(f"{changed} of {text.lines} lines changed by {perturber.signature}; written to {target}")


def _options(settings: Sequence[str]) -> dict[str, object]:
    options: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: write key=value, e.g. --set layout=azerty")
        options[key] = set_value(value, setting)
    return options

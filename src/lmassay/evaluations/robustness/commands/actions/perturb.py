"""What ``lmassay perturb`` does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from lmassay.cli.actions.run import plugin_output_to_stderr
from lmassay.cli.console import say
from lmassay.cli.progress import progress_bar
from lmassay.errors import ConfigError
from lmassay.evaluations.robustness.perturbations.base import make_perturber
from lmassay.plugins.registry import current_registry
from lmassay.running.config import set_value
from lmassay.storage.files import atomic_write_compressed, forbid_overwriting, open_text

# Lines between two steps of the progress bar.
_PROGRESS_STEP = 1000


def perturbation_names() -> Sequence[str]:
    """Return the perturbations that are built in or come from installed packages."""
    return current_registry().names("perturbation")


def perturb(name: str, source: Path, target: Path, rate: float, seed: int, settings: Sequence[str]) -> None:
    """Perturb every line of a text file."""
    to_terminal = target == Path("-")
    if not to_terminal:
        forbid_overwriting({"--out": target}, {"--in": source})
    with plugin_output_to_stderr():
        perturber = make_perturber(name, rate=rate, seed=seed, options=_options(settings), base=Path())
    text = open_text(source, "input")
    changed = 0
    # With --out -, lines go to standard output. It is bound here, because plugin_output_to_stderr() replaces sys.stdout
    # so that what a perturbation prints does not get between the lines.
    output = nullcontext(sys.stdout) if to_terminal else atomic_write_compressed(target)
    with progress_bar(f"{name}: {source.name}") as advance, output as stream, plugin_output_to_stderr():
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

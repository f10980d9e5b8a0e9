"""Commands that list components: ``lmassay tasks``, ``lmassay models``, and those of evaluations, such as scorers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import click

from lmassay.cli.completion import offer
from lmassay.cli.console import print_json, print_table, warn
from lmassay.cli.options import json_option
from lmassay.errors import LmassayError, UserError, did_you_mean
from lmassay.plugins.evaluations import installed_evaluations, unloaded_packages_note
from lmassay.plugins.options import options_model
from lmassay.plugins.registry import current_registry

# Parameters of a perturbation function that lmassay passes itself.
_NOT_OPTIONS = ("text", "rng")


def listing(kind: str) -> click.Command:
    """Create a command that lists the components of a kind, such as ``task``."""

    @click.command(name=f"{kind}s", epilog=f"Example: lmassay {kind}s --json", short_help=f"List the {kind}s.")
    @click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=offer(lambda: _names(kind)))
    @json_option
    def command(as_json: bool, names: Sequence[str] = ()) -> None:
        known_names = _names(kind)
        for name in names:
            if name not in known_names:
                hint = did_you_mean(name, known_names)
                raise UserError(f"there is no {kind} '{name}'{hint}{unloaded_packages_note()}")
        for problem in installed_evaluations().problems:
            if problem.is_left_out:
                warn(f"{problem.message}; see lmassay doctor")
        entries = [entry for entry in current_registry().entries(kind) if not names or entry.name in names]
        if as_json:
            documents = []
            for entry in entries:
                documents.append(
                    {"name": entry.name, "summary": entry.summary, "from": entry.origin, "problem": entry.problem}
                )
            print_json({f"{kind}s": documents})
            return
        rows = []
        for entry in entries:
            rows.append((entry.name, entry.problem or entry.summary, _options(kind, entry.name), entry.origin))
        print_table("", ("name", "description", "options", "from"), rows)

    command.help = (
        f"List the {kind}s that are built in or come from installed packages.\n\n"
        f"Use your own as path/file.py:Name. With NAME, list only these."
    )
    return command


def _names(kind: str) -> list[str]:
    return [entry.name for entry in current_registry().entries(kind)]


def _options(kind: str, name: str) -> str:
    """Return the options of a component; empty if it cannot be imported."""
    try:
        factory: Any = current_registry().get(kind, name)
        fields = options_model(factory).model_fields
    except LmassayError:
        return ""
    hidden = _NOT_OPTIONS if inspect.isfunction(factory) else ()
    return ", ".join(field for field in fields if field not in hidden)


tasks = listing("task")
models = listing("model")

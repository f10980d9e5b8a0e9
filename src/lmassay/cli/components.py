"""``lmassay tasks``, ``lmassay models``, and the listings of other kinds of plug-ins"""

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

_NOT_OPTIONS = ("text", "rng")


def listing(kind: str) -> click.Command:
    """A command that lists the plug-ins of a kind."""

    @click.command(name=f"{kind}s", epilog=f"Example: lmassay {kind}s --json", short_help=f"List the {kind}s.")
    @click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=offer(lambda: _names(kind)))
    @json_option
    def command(as_json: bool, names: Sequence[str] = ()) -> None:
        entries = [entry for entry in current_registry().entries(kind) if not names or entry.name in names]
        for name in set(names) - {entry.name for entry in entries}:
            raise UserError(f"there is no {kind} '{name}'{did_you_mean(name, _names(kind))}{unloaded_packages_note()}")
        for problem in installed_evaluations().problems:
            if problem.is_left_out:
                warn(f"{problem.message}; see lmassay doctor")
        if as_json:
            rows = [{"name": e.name, "summary": e.summary, "from": e.origin, "problem": e.problem} for e in entries]
            print_json({f"{kind}s": rows})
            return
        print_table(
            "",
            ("name", "what it is", "options", "from"),
            [(e.name, e.problem or e.summary, _options(kind, e.name), e.origin) for e in entries],
        )

    what = f"List the {kind}s: built in, from installed packages; your own work as path/file.py:Name."
    command.help = f"{what}\n\nWith NAME, only this."
    return command


def _names(kind: str) -> list[str]:
    return [entry.name for entry in current_registry().entries(kind)]


def _options(kind: str, name: str) -> str:
    try:
        factory: Any = current_registry().get(kind, name)
        fields = options_model(factory).model_fields
    except LmassayError:
        return ""
    hidden = _NOT_OPTIONS if inspect.isfunction(factory) else ()
    return ", ".join(field for field in fields if field not in hidden)


tasks = listing("task")
models = listing("model")

"""Commands that list components: ``lmassay tasks``, and those that evaluations add, such as ``lmassay scorers``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lmassay.cli.completion import offer
from lmassay.cli.options import json_option
from lmassay.contracts import Hook


def listing(kind: str, explain: Hook | None = None, example: str = "") -> click.Command:
    """Create a command that lists the components of a kind, such as ``task``.

    ``explain`` is a function (name, component) → ComponentHelp. It is needed if parameters of a component are not
    options, such as the text that a perturbation changes, or if the kind is not a key of a configuration. ``example``
    is the component in the example of the help screen, which otherwise lists all of them.
    """

    def complete_names() -> Sequence[str]:
        from lmassay.cli.actions.components import component_names

        return component_names(kind)

    @click.command(
        name=f"{kind}s", epilog=f"Example: lmassay {kind}s {example}".rstrip(), short_help=f"List the {kind}s."
    )
    @click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=offer(complete_names))
    @json_option
    def command(as_json: bool, names: Sequence[str] = ()) -> None:
        # Imported here, so that the help screen does not load what the list needs.
        from lmassay.cli.actions.components import list_components

        list_components(kind, names, as_json, explain)

    command.help = (
        f"List the {kind}s that are built in or come from installed packages.\n\n"
        "To use your own, write path/file.py:Name in a configuration. With NAME, explain every option of "
        f"these {kind}s: type, default, meaning and an example."
    )
    return command


tasks = listing("task")

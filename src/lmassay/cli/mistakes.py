"""A mistake in what was typed, told in one line with what may have been meant."""

from __future__ import annotations

import re

import click

from lmassay.errors import closest

# Not every click has a class for each mistake; all have these words.
_NO_CHOICE = re.compile(r"^'(.*)' is not one of ")
_BREAK = re.compile(r"\s*\n\s*")
_NO_COMMAND = re.compile(r"^No such command '(.*)'")


def usage_mistake(error: click.UsageError) -> str:
    """What click has to say, with the nearest thing that there is, and the help that lists all."""
    meant = _meant(error)
    # Click's own guess goes: ours reads as everywhere else.
    text = error.format_message() if meant is None or isinstance(error, click.BadParameter) else error.message
    hint = f"; did you mean '{meant}'?" if meant else ""
    # Click lists the choices of an argument that was left out, one a line.
    return f"{_BREAK.sub(' ', text).rstrip('.')}{hint}{_help(error)}"


def _meant(error: click.UsageError) -> str | None:
    kind = getattr(getattr(error, "param", None), "type", None)
    choice = _NO_CHOICE.match(error.message)
    if choice and isinstance(kind, click.Choice):
        return closest(choice[1], map(str, kind.choices))
    if error.ctx is None:
        return None
    command, ctx = error.ctx.command, error.ctx
    if isinstance(error, click.NoSuchOption):
        return closest(error.option_name, [name for option in command.get_params(ctx) for name in option.opts])
    verb = _NO_COMMAND.match(error.message)
    if verb and isinstance(command, click.Group):
        return closest(verb[1], command.list_commands(ctx))
    return None


def _help(error: click.UsageError) -> str:
    if error.ctx is None or error.ctx.command.get_help_option(error.ctx) is None:
        return ""
    return f" (help: {error.ctx.command_path} -h)"

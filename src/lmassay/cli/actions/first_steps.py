"""Find out which commands, such as an installation or a download, must precede the first run of a configuration."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from lmassay.cli.console import say
from lmassay.errors import ConfigError, PluginError, UserError
from lmassay.storage.files import atomic_write

if TYPE_CHECKING:
    from lmassay.plugins.options import Spec


@dataclass(frozen=True, slots=True)
class Missing:
    """What this machine lacks to run a configuration."""

    commands: tuple[str, ...] = ()
    """The commands that install or download what is missing, in order."""
    message: str = ""
    """A message about what else is missing and cannot be installed, such as an API key."""


def find_missing(texts: Mapping[Path, str], target: Path, model: Spec | None) -> Missing:
    """Plan the runs of a configuration in a temporary folder, and return what this machine lacks to run them.

    ``texts`` maps the relative paths of all files that the configuration needs to their texts, and ``target`` is the
    path of the configuration among them. A mistake in the model that the user named raises an error.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for path, text in texts.items():
            with atomic_write(folder / path) as stream:
                stream.write(text)
        document = yaml.safe_load(texts[target])
        if model is not None:
            # The model with its original paths, so that messages name files as the user knows them.
            document["model"] = model
        return _plan_all(document, (folder / target).parent)


def _plan_all(document: dict[str, Any], folder: Path) -> Missing:
    """Plan all runs of a configuration, and return what is missing for any of them."""
    from lmassay.cli.actions.run import plugin_output_to_stderr
    from lmassay.running.config import expand
    from lmassay.running.runner import plan

    commands: list[str] = []
    message = ""
    with plugin_output_to_stderr():
        try:
            configs = expand(document, folder)
        except UserError as error:
            return Missing(message=_one_line(error))
        # All runs are planned, because a mistake in the model may only be found in the last one.
        for config in configs:
            try:
                plan(config)
            except UserError as error:
                if error.commands:
                    commands += [command for command in error.commands if command not in commands]
                else:
                    # `_one_line` raises an error about the model, so it is called even if there is a message already.
                    text = _one_line(error)
                    message = message or text
    return Missing(tuple(commands), message)


def _one_line(error: UserError) -> str:
    """Return the message of an error in one line, or raise a UserError if it is about the model that the user named."""
    message = "; ".join(str(error).splitlines())
    # A message about the configuration begins with the key that it is about.
    if isinstance(error, ConfigError | PluginError) and message.startswith("model"):
        raise UserError(f"--model: {message}") from error
    return message


def show_commands(title: str, commands: Sequence[str]) -> None:
    """Print commands below each other, with a title before the first."""
    for number, command in enumerate(commands):
        label = f"{title}:" if number == 0 else ""
        say(f"{label:<7}{command}")


def are_wanted(commands: Sequence[str]) -> bool:
    """Ask whether to run commands, and return the answer; without a terminal, return False."""
    if not commands or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    question = "Run this command now?" if len(commands) == 1 else "Run these commands now?"
    return click.confirm(question, default=False, err=True)


def run_commands(commands: Sequence[str]) -> None:
    """Run commands of pip and lmassay one after the other, each in a new process with the Python that runs this one."""
    for number, command in enumerate(commands):
        say(f"running {command}")
        program, *arguments = shlex.split(command)
        # With -P, Python does not take a file named pip.py in the user's folder for pip.
        done = subprocess.run([sys.executable, "-P", "-m", program, *arguments], stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            remaining = " && ".join(commands[number:])
            if remaining == command:
                remaining = "it again"
            raise UserError(f"{command} failed with exit code {done.returncode}; fix this and run {remaining}")

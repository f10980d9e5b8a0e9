"""Command lines: options and arguments in wrong places, with values that they were not made for."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import click

from tests.fuzzing import configurations
from tests.fuzzing.mutations import NUMBERS_AS_TEXT, TEXTS

# Commands that download, need minutes, serve until they are stopped, or run an original program's own options.
LEFT_OUT = frozenset({"card", "view", "reproduce", "fewnlu", "tse", "search", "doctor"})
# Options that would make a valid command do something that takes long, or that reads the terminal.
LEFT_OUT_OPTIONS = frozenset({"--workers", "--cluster", "--scheduler"})
_GOOD_VALUES = ("robustness.yaml", "bias.yaml", "latest", "1", "results", "out.html", "data/few.txt", "echo")
_OPTIONS = ("--help", "-", "--", "--json", "--set", "task.name=1", "--set=x", "--only", "--results", "-o", "--no-such")
_LINE_FILE = ".arguments"


def prepare(folder: Path) -> None:
    """Write configurations and an intact command."""
    configurations.prepare(folder)


def damage(path: Path, rng: random.Random) -> str:
    """Put together a command line; a second change adds to it. A file stores it, so that a case can be repeated."""
    file = path / _LINE_FILE if path.is_dir() else path
    arguments = _stored(file)
    if not arguments:
        arguments = _command(rng)
    for _ in range(rng.randrange(1, 4)):
        arguments.insert(rng.randrange(1, len(arguments) + 1), _junk(rng))
    file.write_text("\0".join(arguments), encoding="utf-8", errors="surrogateescape")
    return f"lmassay {' '.join(arguments)!r:.150}"


def _stored(file: Path) -> list[str]:
    if not file.exists():
        return []
    return file.read_text(encoding="utf-8", errors="surrogateescape").split("\0")


def commands(folder: Path, rng: random.Random) -> list[list[str]]:
    """The damaged command line; without damage, some that work."""
    arguments = _stored(folder / _LINE_FILE)
    if arguments:
        return [arguments]
    return [["run", "robustness.yaml"], ["ls"], ["show", "latest"], ["report", "-o", "out.html"]]


def _command(rng: random.Random) -> list[str]:
    """A command with some of its options, with good or bad values."""
    from lmassay.cli import app

    context = click.Context(app)
    names = [name for name in app.list_commands(context) if name not in LEFT_OUT]
    name = rng.choice(names)
    arguments = [name]
    command = app.get_command(context, name)
    assert command is not None
    if isinstance(command, click.Group):
        name = rng.choice([name for name in command.list_commands(context) if name not in ("get", "rm")])
        arguments.append(name)
        command = command.get_command(context, name)
        assert command is not None
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            if rng.random() < 0.8:
                arguments.append(_value(parameter, rng))
        elif rng.random() < 0.3:
            option = rng.choice([*parameter.opts, *parameter.secondary_opts])
            if option in LEFT_OUT_OPTIONS:
                continue
            arguments.append(option)
            if not getattr(parameter, "is_flag", False):
                arguments.append(_value(parameter, rng))
    return arguments


def _value(parameter: click.Parameter, rng: random.Random) -> str:
    kind: Any = parameter.type
    if isinstance(kind, click.Choice) and rng.random() < 0.7:
        return str(rng.choice(list(kind.choices)))
    if rng.random() < 0.5:
        return rng.choice(_GOOD_VALUES)
    return _junk(rng)


def _junk(rng: random.Random) -> str:
    """An argument that was not expected. The operating system allows no NUL in one."""
    texts = [text for text in (*TEXTS, *NUMBERS_AS_TEXT) if "\0" not in text and not text.startswith("/nowhere")]
    # A lone surrogate is how Python shows a byte that is not in the locale's encoding; only these can be arguments.
    return rng.choice([*texts, *_OPTIONS]).replace("\ud800", "\udcff")

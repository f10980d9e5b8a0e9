"""Help screens are fast: they do not import what only the work of a command needs."""

from __future__ import annotations

import subprocess
import sys

_PRINT_EVERY_HELP = """
import sys

import click

from lmassay.cli import app

HEAVY = ("httpx2", "jinja2", "numpy", "pydantic", "rich", "scipy", "sqlite3", "torch", "transformers", "yaml")


def help_screens(command, words):
    yield [*words, "--help"]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from help_screens(command.get_command(context, name), [*words, name])


screens = list(help_screens(app, []))
for arguments in screens:
    app.main(args=arguments, standalone_mode=False)
    imported = [name for name in HEAVY if name in sys.modules]
    if imported:
        sys.exit(f"lmassay {' '.join(arguments)} imports {', '.join(imported)}")
sys.exit(0 if len(screens) > 30 else "too few help screens")
"""


def test_no_help_screen_imports_a_heavy_package() -> None:
    process = subprocess.run([sys.executable, "-c", _PRINT_EVERY_HELP], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr

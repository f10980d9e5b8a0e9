"""``lmassay completion``, and the completion of run ids."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from lmassay.cli.console import say
from lmassay.contracts import Hook, resolve

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_LMASSAY_COMPLETE"
_MAX_RUNS = 200
_INSTALL = {
    "bash": "lmassay completion bash > ~/.lmassay-completion.bash && echo '. ~/.lmassay-completion.bash' >> ~/.bashrc",
    "zsh": "lmassay completion zsh > ~/.lmassay-completion.zsh && echo '. ~/.lmassay-completion.zsh' >> ~/.zshrc",
    "fish": "mkdir -p ~/.config/fish/completions && lmassay completion fish > ~/.config/fish/completions/lmassay.fish",
}


@click.command(epilog="Example: lmassay completion bash", short_help="Print a shell completion script.")
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that completes commands, options, runs and names; its first lines say how to install it.

    SHELL is bash, zsh or fish.

    \b
    To try it in the current bash: eval "$(lmassay completion bash)"
    """
    from lmassay.cli import app

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    script = completion_class(app, {}, "lmassay", _VARIABLE)
    text = script.source_template % script.source_vars()
    # Click's script for fish splits at every comma and would cut a description at its first one.
    text = text.replace('string split "," $completion', 'string split --max 1 "," $completion')
    if shell == "zsh":
        text = f"(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}\n{text}"
    click.echo(
        f"# lmassay's completion for {shell}. To install it, then open a new shell:\n#   {_INSTALL[shell]}\n{text}"
    )
    if sys.stdout.isatty():
        say(f"to install it: {_INSTALL[shell]}")


class RunName(click.ParamType):  # type: ignore[type-arg]  # generic in recent versions of click only
    """The id of a run. The shell offers the ids in the results folder, the latest first."""

    name = "run"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        ids = _run_ids(_results_of(ctx))
        matches = _starting_with(incomplete, ["latest", *ids])
        if not matches and incomplete:
            # The end of an id is enough to name a run.
            endings = [run_id.rpartition("-")[2] for run_id in ids]
            matches = _starting_with(incomplete, endings)
        return [CompletionItem(name) for name in matches]


def offer_runs(command: click.Command) -> None:
    """Let the shell complete the arguments ``run`` and ``runs`` of a command and its subcommands."""
    for parameter in command.params:
        if parameter.name in ("run", "runs") and isinstance(parameter, click.Argument):
            parameter.type = RunName()
    for inner in getattr(command, "commands", {}).values():
        offer_runs(inner)


def offer(names: Hook) -> Any:
    """Return a function for a parameter's ``shell_complete=`` that offers the names with the typed beginning.

    ``names`` is a function that returns them, or its import path: ``lmassay.cli.actions.init:names``.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return _starting_with(incomplete, resolve(names)())

    return complete


def _starting_with(beginning: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(beginning)]


def _results_of(ctx: click.Context) -> Path:
    """Return the results folder that the command line names so far, or the default one."""
    from lmassay.storage.commands import default_results

    folder = ctx.params.get("results")
    if folder:
        return Path(folder)
    return default_results()


def _run_ids(folder: Path) -> list[str]:
    """Return the ids in a results folder, the latest first; an empty list if the folder cannot be read.

    They are read directly from the database: opening a store takes longer, and the user has pressed a key and is
    waiting.
    """
    import sqlite3

    from lmassay.storage.database import STORE_FILE, connect

    file = folder / STORE_FILE
    if not file.is_file():
        return []
    try:
        with closing(connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=0.2)) as reader:
            rows = reader.execute("SELECT id FROM runs ORDER BY rowid DESC LIMIT ?", (_MAX_RUNS,))
            return [str(run) for (run,) in rows]
    except (sqlite3.Error, UnicodeDecodeError):
        return []

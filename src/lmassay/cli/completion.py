"""``lmassay completion``, and what the shell offers where a run is to be named."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from lmassay.cli.console import say

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_LMASSAY_COMPLETE"
_MOST_RUNS = 200
_INSTALL = {
    "bash": "lmassay completion bash > ~/.lmassay-completion.bash && echo '. ~/.lmassay-completion.bash' >> ~/.bashrc",
    "zsh": "lmassay completion zsh > ~/.lmassay-completion.zsh && echo '. ~/.lmassay-completion.zsh' >> ~/.zshrc",
    "fish": "mkdir -p ~/.config/fish/completions && lmassay completion fish > ~/.config/fish/completions/lmassay.fish",
}


@click.command(epilog="Example: lmassay completion bash", short_help="Print the shell's completion script.")
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes verbs, options, runs and names; its first lines say how to install it.

    SHELL is bash, zsh or fish.

    \b
    To try it in this bash: eval "$(lmassay completion bash)"
    """
    from lmassay.cli import app

    found = get_completion_class(shell)
    assert found is not None
    script = found(app, {}, "lmassay", _VARIABLE)
    text = script.source_template % script.source_vars()
    # click's script for fish ends a description at its first comma.
    text = text.replace('string split "," $completion', 'string split --max 1 "," $completion')
    if shell == "zsh":
        text = f"(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}\n{text}"
    click.echo(
        f"# lmassay's completion for {shell}. To install it, then open a new shell:\n#   {_INSTALL[shell]}\n{text}"
    )
    if sys.stdout.isatty():
        say(f"to install it: {_INSTALL[shell]}")


class RunName(click.ParamType):  # type: ignore[type-arg]  # generic in recent versions of click only
    """The name of a run; the shell offers those of the results folder, the latest first."""

    name = "run"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        ids = _run_ids(_results_of(ctx))
        whole = [name for name in ("latest", *ids) if name.startswith(incomplete)]
        # The end of an id is enough to name a run.
        ends = [end for end in (name.rpartition("-")[2] for name in ids) if incomplete and end.startswith(incomplete)]
        return [CompletionItem(name) for name in (whole or ends)]


def offer_runs(command: click.Command) -> None:
    """Let the shell complete every argument called ``run`` or ``runs`` of a verb and of its sub-verbs."""
    for parameter in command.params:
        if parameter.name in ("run", "runs") and isinstance(parameter, click.Argument):
            parameter.type = RunName()
    for inner in getattr(command, "commands", {}).values():
        offer_runs(inner)


def offer(names: Callable[[], Iterable[str]]) -> Any:
    """For ``shell_complete=`` of a parameter: those of the names that begin as was typed."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def _results_of(ctx: click.Context) -> Path:
    from lmassay.cli.options import default_results

    given = ctx.params.get("results")
    return Path(given) if given else default_results()


def _run_ids(folder: Path) -> list[str]:
    """Straight from the file: a key was pressed and somebody waits. Whatever is wrong there, nothing is offered."""
    from lmassay.storage.store import STORE_FILE

    file = folder / STORE_FILE
    if not file.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=0.2)) as reader:
            found = reader.execute("SELECT id FROM runs ORDER BY rowid DESC LIMIT ?", (_MOST_RUNS,))
            return [str(name) for (name,) in found]
    except sqlite3.Error:
        return []

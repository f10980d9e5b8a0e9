"""The command line: one file a command, loaded when it is called. Evaluations bring commands of their own."""

from __future__ import annotations

import functools
import sys

import click
from click.shell_completion import CompletionItem

import lmassay
from lmassay.cli import ending
from lmassay.cli.completion import offer_runs
from lmassay.cli.console import complain
from lmassay.contracts import Command, resolve
from lmassay.errors import LmassayError, PluginError
from lmassay.plugins.evaluations import Installed, installed

_CLI = "lmassay.cli"
# The core's own commands in the order of the help page; evaluations add theirs to these sections or to their own.
_CORE = {
    "Start": (
        Command("card", "Ask all questions of a model and write one report.", f"{_CLI}.card:card"),
        Command("init", "Write a commented configuration to start from.", f"{_CLI}.init:init"),
        Command("doctor", "Tell what is installed, what is missing and how to get it.", f"{_CLI}.doctor:doctor"),
        Command("completion", "Print the shell's completion script.", f"{_CLI}.completion:completion"),
    ),
    "Evaluate": (
        Command("run", "Run a configuration: every combination of its lists.", f"{_CLI}.run:run"),
        Command("check", "Check a configuration without asking anything.", f"{_CLI}.check:check"),
        Command("resume", "Finish a run that was interrupted or left errors.", f"{_CLI}.resume:resume"),
    ),
    "Look at results": (
        Command("ls", "List the runs in a results folder.", f"{_CLI}.ls:ls"),
        Command("show", "Show a run's results.", f"{_CLI}.show:show"),
        Command("compare", "Compare runs on the examples they share.", f"{_CLI}.compare:compare"),
        Command("report", "Write a report: HTML, Markdown, LaTeX, CSV or figures.", f"{_CLI}.report:report"),
        Command("view", "Look at a results folder in Datasette.", f"{_CLI}.view:view"),
        Command("export", "Write a run as JSON lines, CSV, lm-eval or Every Eval Ever.", f"{_CLI}.export:export"),
    ),
    "Make data": (),
    "Evaluations": (),
    "As in the originals": (),
    "What there is": (
        Command("tasks", "List the evaluations.", f"{_CLI}.listings:tasks"),
        Command("models", "List the kinds of model, fetch one, list those fetched.", f"{_CLI}.models:models"),
    ),
}


def _sections() -> dict[str, list[Command]]:
    """All commands by section. Names and help lines come from declarations; no command is imported for them."""
    return _sections_with(installed())


@functools.cache
def _sections_with(known: Installed) -> dict[str, list[Command]]:
    sections = {title: list(commands) for title, commands in _CORE.items()}
    taken = {command.name for commands in sections.values() for command in commands}
    for evaluation in known.evaluations:
        for command in evaluation.commands:
            # A command of another package does not replace one that is there.
            if command.name not in taken:
                sections.setdefault(command.section, []).append(command)
                taken.add(command.name)
    return {title: commands for title, commands in sections.items() if commands}


def _commands() -> dict[str, Command]:
    return {command.name: command for commands in _sections().values() for command in commands}


class _Commands(click.Group):
    """Commands that are imported only when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        declared = _commands().get(cmd_name)
        if declared is None:
            return None
        command = resolve(declared.path)
        if not isinstance(command, click.Command):
            raise PluginError(f"the command '{cmd_name}' ({declared.path}) is not a click command")
        offer_runs(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _commands()))
        for title, commands in _sections().items():
            with formatter.section(title):
                formatter.write_dl([(f"{command.name:<{width}}", command.help) for command in commands])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        known = _commands().values()
        items = [CompletionItem(c.name, help=c.help) for c in known if c.name.startswith(incomplete)]
        # The group's own options. What click makes of its commands would import them all.
        return items or click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"\b\nExit codes:\n{ending.TABLE}",
)
@click.version_option(lmassay.__version__, prog_name="lmassay")
def app() -> None:
    """Put language models and NLP systems to the test.

    \b
    lmassay card                      ask a small model all questions
    lmassay init TASK                 write a configuration to start from
    lmassay run TASK.yaml             run it
    lmassay report -o report.html     look at its results
    lmassay COMMAND -h                help with an example
    """


def main(argv: list[str] | None = None) -> None:
    """Entry point: a user's mistake is one line and exit code 2, Ctrl-C is 130, a bug is a traceback."""
    ending.prepare_streams()
    ending.heed_termination()
    try:
        status = app.main(args=argv, prog_name="lmassay", standalone_mode=False)
        ending.flush()
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            complain(ending.usage_mistake(error))
        ending.leave(ending.USER_MISTAKE)
    except click.ClickException as error:
        complain(error.format_message())
        ending.leave(ending.USER_MISTAKE)
    except LmassayError as error:
        complain(str(error), _notes(error))
        ending.leave(ending.USER_MISTAKE)
    except (click.Abort, KeyboardInterrupt) as stop:
        # click wraps Ctrl-C; what the runner had to say hangs on the original.
        cause = stop.__cause__ or stop.__context__ or stop
        complain("stopped", _notes(cause))
        ending.leave(ending.TERMINATED if isinstance(cause, ending.Terminated) else ending.INTERRUPTED)
    except OSError as error:
        ending.leave(_not_written_or_read(error))
    except UnicodeEncodeError as error:
        if error.encoding != sys.getfilesystemencoding():
            raise
        complain(f"a file name cannot be written in this environment's encoding ({error.encoding}); set PYTHONUTF8=1")
        ending.leave(ending.USER_MISTAKE)
    ending.leave(status if isinstance(status, int) else 0)


def _not_written_or_read(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        return ending.NOT_ALL
    if error.errno not in ending.MENDABLE:
        raise error
    where = error.filename or "standard output"
    complain(f"{where}: {error.strerror}", _notes(error))
    return ending.USER_MISTAKE


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))

"""The command line: one file a command, loaded when it is called. Evaluations bring commands of their own."""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem

import lmassay
from lmassay.cli import ending
from lmassay.cli.commands import command_table
from lmassay.cli.completion import offer_runs
from lmassay.cli.console import complain, show_warnings
from lmassay.contracts import resolve
from lmassay.errors import LmassayError, PluginError
from lmassay.plugins.evaluations import unloaded_packages


class _Commands(click.Group):
    """Commands that are imported only when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(command_table().by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        declared = command_table().by_name.get(cmd_name)
        if declared is None:
            return None
        try:
            command = resolve(declared.path)
        except PluginError as error:
            raise PluginError(f"the command '{cmd_name}' is not usable: {error}; see lmassay doctor") from error
        if not isinstance(command, click.Command):
            raise PluginError(f"the command '{cmd_name}' ({declared.path}) is not a click command")
        offer_runs(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        table = command_table()
        width = max(map(len, table.by_name))
        for title, commands in table.sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{command.name:<{width}}", command.help) for command in commands])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        known = command_table().by_name.values()
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
    show_warnings()
    try:
        status = app.main(args=argv, prog_name="lmassay", standalone_mode=False)
        ending.flush()
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            # The command may be one of a package that could not be loaded.
            remark = unloaded_packages() if ending.is_unknown_command(error, app) else ""
            complain(f"{ending.usage_mistake(error)}{remark}")
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

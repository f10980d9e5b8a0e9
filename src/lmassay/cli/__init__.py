"""The command line: one file a command, loaded when it is called. Evaluations bring commands of their own."""

from __future__ import annotations

import sys

import click
from click.shell_completion import CompletionItem

import lmassay
from lmassay.cli import exit as process_exit
from lmassay.cli.commands import command_table
from lmassay.cli.completion import offer_runs
from lmassay.cli.console import print_error, show_warnings
from lmassay.contracts import resolve
from lmassay.errors import LmassayError, PluginError
from lmassay.plugins.evaluations import unloaded_packages_note


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
    epilog=f"\b\nExit codes:\n{process_exit.EXIT_CODES_HELP}",
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
    process_exit.prepare_streams()
    process_exit.handle_sigterm()
    show_warnings()
    try:
        status = app.main(args=argv, prog_name="lmassay", standalone_mode=False)
        process_exit.flush()
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            # The command may be one of a package that could not be loaded.
            remark = unloaded_packages_note() if process_exit.is_unknown_command(error, app) else ""
            print_error(f"{process_exit.usage_error_message(error)}{remark}")
        process_exit.exit_with(process_exit.USER_ERROR)
    except click.ClickException as error:
        print_error(error.format_message())
        process_exit.exit_with(process_exit.USER_ERROR)
    except LmassayError as error:
        print_error(str(error), _notes(error))
        process_exit.exit_with(process_exit.USER_ERROR)
    except (click.Abort, KeyboardInterrupt) as stop:
        # click wraps Ctrl-C; what the runner had to say hangs on the original.
        cause = stop.__cause__ or stop.__context__ or stop
        print_error("stopped", _notes(cause))
        process_exit.exit_with(
            process_exit.TERMINATED if isinstance(cause, process_exit.Terminated) else process_exit.INTERRUPTED
        )
    except OSError as error:
        process_exit.exit_with(_not_written_or_read(error))
    except UnicodeEncodeError as error:
        if error.encoding != sys.getfilesystemencoding():
            raise
        print_error(
            f"a file name cannot be written in this environment's encoding ({error.encoding}); set PYTHONUTF8=1"
        )
        process_exit.exit_with(process_exit.USER_ERROR)
    process_exit.exit_with(status if isinstance(status, int) else 0)


def _not_written_or_read(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        return process_exit.INCOMPLETE
    if error.errno not in process_exit.USER_FIXABLE_ERRNOS:
        raise error
    where = error.filename or "standard output"
    print_error(f"{where}: {error.strerror}", _notes(error))
    return process_exit.USER_ERROR


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))

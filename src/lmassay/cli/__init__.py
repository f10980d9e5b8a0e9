"""The command line. Each command has its own module, which is imported when the command is called."""

from __future__ import annotations

import sys
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

import lmassay
from lmassay.cli import exit as process_exit
from lmassay.cli.commands import command_table
from lmassay.cli.completion import offer_runs
from lmassay.cli.console import print_error, print_traceback, redact_logs, show_warnings
from lmassay.cli.utf8_mode import refuse_undecodable_names, restart_in_utf8_mode
from lmassay.contracts import resolve
from lmassay.errors import LmassayError, PluginError
from lmassay.plugins.evaluations import unloaded_packages_note


class _LazyGroup(click.Group):
    """A group whose commands are imported only when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(command_table().by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it; None if there is no command with this name."""
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
        """Write the sections of the help screen with the commands and their one-line descriptions."""
        table = command_table()
        # All sections have their descriptions in the same column.
        width = max(map(len, table.by_name))
        for title, commands in table.sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{command.name:<{width}}", command.help) for command in commands])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands, or options of ``lmassay`` itself, that begin with what the user has typed."""
        items = []
        for command in command_table().by_name.values():
            if command.name.startswith(incomplete):
                items.append(CompletionItem(command.name, help=command.help))
        # click.Command completes the group's own options. click.Group.shell_complete would import all commands.
        return items or click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"\b\nExit codes:\n{process_exit.EXIT_CODES_HELP}",
)
@click.version_option(lmassay.__version__, prog_name="lmassay")
def app() -> None:
    """Evaluate language models and NLP systems.

    \b
    lmassay card                      run all evaluations on a small model
    lmassay init TASK                 write a sample configuration
    lmassay run TASK.yaml             run it
    lmassay report -o report.html     write a report about the results
    lmassay COMMAND -h                show the help of a command, with an example
    """


def main(argv: list[str] | None = None) -> None:
    """Run the command line.

    An error that the user can fix is printed in one line and exits with code 2. Ctrl-C exits with 130 and SIGTERM with
    143. A bug prints a traceback and exits with 1. The codes of the commands are in :mod:`lmassay.cli.exit`.
    """
    if argv is None:
        restart_in_utf8_mode()
    process_exit.prepare_streams()
    process_exit.handle_sigterm()
    show_warnings()
    redact_logs()
    try:
        refuse_undecodable_names(sys.argv[1:] if argv is None else argv)
        status = app.main(args=argv, prog_name="lmassay", standalone_mode=False)
        process_exit.flush()
    except click.UsageError as error:
        # Compared by name, because versions of click before 8.2 do not have this class.
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            message = process_exit.usage_error_message(error)
            if process_exit.is_unknown_command(error, app):
                # The command may belong to a package that could not be loaded.
                message += unloaded_packages_note()
            print_error(message)
        process_exit.exit_with(process_exit.USER_ERROR)
    except click.ClickException as error:
        print_error(error.format_message())
        process_exit.exit_with(process_exit.USER_ERROR)
    except LmassayError as error:
        print_error(str(error), _notes(error))
        process_exit.exit_with(process_exit.USER_ERROR)
    except (click.Abort, KeyboardInterrupt) as stop:
        # Click wraps Ctrl-C in its own exception; the notes about how to continue are on the original.
        cause = stop.__cause__ or stop.__context__ or stop
        print_error("stopped", _notes(cause))
        was_terminated = isinstance(cause, process_exit.Terminated)
        process_exit.exit_with(process_exit.TERMINATED if was_terminated else process_exit.INTERRUPTED)
    except OSError as error:
        exit_code = _report_os_error(error)
        if exit_code is None:
            _end_with_traceback(error)
        process_exit.exit_with(exit_code)
    except UnicodeEncodeError as error:
        # File names are encoded in the encoding of the file system. A failure in another encoding is a bug.
        if error.encoding != sys.getfilesystemencoding():
            _end_with_traceback(error)
        encoding = error.encoding
        print_error(f"a file name has characters that cannot be written in {encoding}; rename the file")
        process_exit.exit_with(process_exit.USER_ERROR)
    except RuntimeError as error:
        # Before version 3.13, Python reports a link that points to itself in this way, not as an OSError.
        if not str(error).startswith("Symlink loop"):
            _end_with_traceback(error)
        print_error(f"{error}: it points to itself; remove it, or give another path")
        process_exit.exit_with(process_exit.USER_ERROR)
    except Exception as error:
        _end_with_traceback(error)
    # A command returns its exit code, or None for success.
    process_exit.exit_with(status if isinstance(status, int) else 0)


def _end_with_traceback(error: Exception) -> NoReturn:
    """Report a bug and exit. Python's own traceback would also print secrets that the exception may contain."""
    print_traceback(error)
    process_exit.exit_with(process_exit.INCOMPLETE)


def _report_os_error(error: OSError) -> int | None:
    """Print an error that the user can fix and return the exit code. Return None if the error is a bug.

    Nothing is printed for a closed pipe, as in ``lmassay ls | head``.
    """
    if isinstance(error, BrokenPipeError):
        return process_exit.INCOMPLETE
    if error.errno not in process_exit.USER_FIXABLE_ERRNOS:
        return None
    print_error(f"{error.filename or 'standard output'}: {error.strerror}", _notes(error))
    return process_exit.USER_ERROR


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))

"""How a command ends: exit codes, closed pipes, SIGTERM, and messages about mistakes on the command line."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn, TextIO

import click

from lmassay.errors import closest

# Every command uses these codes and no others, so that scripts can rely on them.
DONE = 0
INCOMPLETE = 1
USER_ERROR = 2
INTERRUPTED = 130
TERMINATED = 143

EXIT_CODES_HELP = f"""\
  {DONE:<4} success
  {INCOMPLETE:<4} finished, but not everything succeeded: examples with errors,
       a failed gate, a broken installation, numbers that do not agree,
       or a closed output pipe; also a bug, which prints a traceback
  {USER_ERROR:<4} an error in your input, reported in one line, or a gate that
       cannot be decided
  {INTERRUPTED:<4} stopped by Ctrl-C ({TERMINATED}: by SIGTERM); lmassay resume continues"""

# Errors that a user can fix: missing files and permissions, a full disk, a name that is too long.
USER_FIXABLE_ERRNOS = {
    errno.EACCES,
    errno.EBADF,
    errno.EEXIST,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.EMFILE,
    errno.ENAMETOOLONG,
    errno.ENODEV,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.ENXIO,
    errno.EPERM,
    errno.EROFS,
}


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, which is handled like Ctrl-C: answers so far are stored, and the run can be resumed."""


def handle_sigterm() -> None:
    """Let SIGTERM end the command as Ctrl-C does."""

    def stop(number: int, frame: Any) -> NoReturn:
        raise Terminated

    # Only the main thread may install a handler. A process whose parent made it ignore SIGTERM must go on ignoring it.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)


def prepare_streams() -> None:
    """Make standard streams safe to write to.

    A character that the console cannot show is escaped instead of raising an error, and a stream that was closed before
    the command started is replaced by the null device.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flush() -> None:
    """Write buffered output, while an error can still be reported."""
    sys.stdout.flush()
    sys.stderr.flush()


def exit_with(code: int) -> NoReturn:
    """Exit with this code, even if a stream cannot be written to any more."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _redirect_to_null(stream)
    sys.exit(code)


def _redirect_to_null(stream: TextIO) -> None:
    """Send the rest of a stream to the null device, because Python flushes it again at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


# --- mistakes on the command line -------------------------------------------------------------------------------------


# Some versions of click lack an exception class for some of these mistakes, but all versions use these messages.
_INVALID_CHOICE = re.compile(r"^'(.*)' is not one of ")
_NO_COMMAND = re.compile(r"^No such command '(.*)'")
_LINE_BREAK = re.compile(r"\s*\n\s*")


def usage_error_message(error: click.UsageError) -> str:
    """Return click's message in one line, with a suggestion and the command that prints the help."""
    suggestion = _suggestion(error)
    hint = ""
    text = error.format_message()
    if suggestion is not None:
        hint = f"; did you mean '{suggestion}'?"
        if not isinstance(error, click.BadParameter):
            # Without click's own suggestion, which is worded differently.
            text = error.message
    # For a missing argument, click lists the choices one per line.
    text = _LINE_BREAK.sub(" ", text).rstrip(".")
    return f"{text}{hint}{_help_hint(error)}"


def is_unknown_command(error: click.UsageError, group: click.Group) -> bool:
    """Return whether the user typed a command that the group does not have."""
    return error.ctx is not None and error.ctx.command is group and _NO_COMMAND.match(error.message) is not None


def _suggestion(error: click.UsageError) -> str | None:
    """Return the choice, option or command that was probably meant."""
    parameter_type = getattr(getattr(error, "param", None), "type", None)
    invalid_choice = _INVALID_CHOICE.match(error.message)
    if invalid_choice and isinstance(parameter_type, click.Choice):
        return closest(invalid_choice[1], map(str, parameter_type.choices))
    if error.ctx is None:
        return None
    command = error.ctx.command
    if isinstance(error, click.NoSuchOption):
        options: list[str] = []
        for parameter in command.get_params(error.ctx):
            options += parameter.opts
        return closest(error.option_name, options)
    unknown_command = _NO_COMMAND.match(error.message)
    if unknown_command and isinstance(command, click.Group):
        return closest(unknown_command[1], command.list_commands(error.ctx))
    return None


def _help_hint(error: click.UsageError) -> str:
    if error.ctx is None or error.ctx.command.get_help_option(error.ctx) is None:
        return ""
    return f" (help: {error.ctx.command_path} -h)"

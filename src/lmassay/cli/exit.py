"""How a command ends: exit codes, a stream that nobody reads any more, a polite request to stop, a usage mistake."""

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

DONE = 0
INCOMPLETE = 1
USER_ERROR = 2
INTERRUPTED = 130
TERMINATED = 143

EXIT_CODES_HELP = f"""\
  {DONE:<4} done
  {INCOMPLETE:<4} done, but not all is well: examples in error, a gate that failed,
       something broken or different, or output that nobody read
  {USER_ERROR:<4} a mistake in what was given, or a gate that cannot judge;
       told in one line
  {INTERRUPTED:<4} stopped by Ctrl-C, {TERMINATED} by SIGTERM: lmassay resume goes on"""

# What the owner of a machine can mend: files that are not there or not his, a disk that is full, a name too long.
USER_FIXABLE_ERRNOS = {
    errno.EACCES,
    errno.EBADF,
    errno.EEXIST,
    errno.EDQUOT if hasattr(errno, "EDQUOT") else errno.ENOSPC,
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
    """SIGTERM, heeded as Ctrl-C is: what was answered is kept and the run can be taken up again."""


def handle_sigterm() -> None:
    """Let SIGTERM end the command as Ctrl-C does, where the system has it."""

    def stop(number: int, frame: Any) -> NoReturn:
        raise Terminated

    # Only the main thread may set it, and whoever ignores SIGTERM on purpose is to go on ignoring it.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)


def prepare_streams() -> None:
    """A console that cannot show a character gets an escape, not a crash; a stream that is closed takes all in."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flush() -> None:
    """Write what is still held back, while an error can still be told."""
    sys.stdout.flush()
    sys.stderr.flush()


def exit_with(code: int) -> NoReturn:
    """End with this exit code; a stream that can take no more must not spoil it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _let_go(stream)
    sys.exit(code)


def _let_go(stream: TextIO) -> None:
    """Python flushes once more at its very end: let that go nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


# --- a mistake in what was typed, told in one line with what may have been meant --------------------------------------


# Not every click has a class for each mistake; all have these words.
_NO_CHOICE = re.compile(r"^'(.*)' is not one of ")
_BREAK = re.compile(r"\s*\n\s*")
_NO_COMMAND = re.compile(r"^No such command '(.*)'")


def usage_error_message(error: click.UsageError) -> str:
    """What click has to say, with the nearest thing that there is, and the help that lists all."""
    meant = _meant(error)
    # Click's own guess goes: ours reads as everywhere else.
    text = error.format_message() if meant is None or isinstance(error, click.BadParameter) else error.message
    hint = f"; did you mean '{meant}'?" if meant else ""
    # Click lists the choices of an argument that was left out, one a line.
    return f"{_BREAK.sub(' ', text).rstrip('.')}{hint}{_help(error)}"


def is_unknown_command(error: click.UsageError, group: click.Group) -> bool:
    """Whether a command was typed that the group does not have."""
    return error.ctx is not None and error.ctx.command is group and _NO_COMMAND.match(error.message) is not None


def _meant(error: click.UsageError) -> str | None:
    kind = getattr(getattr(error, "param", None), "type", None)
    choice = _NO_CHOICE.match(error.message)
    if choice and isinstance(kind, click.Choice):
        return closest(choice[1], map(str, kind.choices))
    if error.ctx is None:
        return None
    command, ctx = error.ctx.command, error.ctx
    if isinstance(error, click.NoSuchOption):
        return closest(error.option_name, [name for option in command.get_params(ctx) for name in option.opts])
    verb = _NO_COMMAND.match(error.message)
    if verb and isinstance(command, click.Group):
        return closest(verb[1], command.list_commands(ctx))
    return None


def _help(error: click.UsageError) -> str:
    if error.ctx is None or error.ctx.command.get_help_option(error.ctx) is None:
        return ""
    return f" (help: {error.ctx.command_path} -h)"

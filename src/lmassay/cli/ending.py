"""How a command ends: exit codes, a stream that nobody reads any more, a polite request to stop."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn, TextIO

DONE = 0
NOT_ALL = 1
USER_MISTAKE = 2
INTERRUPTED = 130
TERMINATED = 143

TABLE = f"""\
  {DONE:<4} done
  {NOT_ALL:<4} done, but not all is well: examples in error, a gate that failed,
       something broken or different, or output that nobody read
  {USER_MISTAKE:<4} a mistake in what was given, or a gate that cannot judge;
       told in one line
  {INTERRUPTED:<4} stopped by Ctrl-C, {TERMINATED} by SIGTERM: lmassay resume goes on"""

# What the owner of a machine can mend: files that are not there or not his, a disk that is full, a name too long.
MENDABLE = {
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


def heed_termination() -> None:
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


def leave(code: int) -> NoReturn:
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

"""Print messages for the user on standard error, and JSON on standard output.

Tables are printed by :mod:`lmassay.cli.table_output`.

Secrets are blanked out of everything that these functions print, and terminal control characters are replaced.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from lmassay.errors import HookWarning, OldPluginWarning
from lmassay.redaction import redact, value_without_keys, without_keys
from lmassay.types.controls import escape_controls_in_json, replace_controls

# Every command imports this module; rich is imported when something is printed, so that help screens are fast.
if TYPE_CHECKING:
    from rich.console import Console

_shared_console: Console | None = None


def stderr_console() -> Console:
    """Return a console for standard error: the shared one while there is one, else a new one."""
    from rich.console import Console

    return _shared_console or Console(stderr=True, highlight=False)


def use_shared_console(console: Console | None) -> None:
    """Print all messages through this console from now on; None ends that.

    :class:`~lmassay.cli.progress.BoardDisplay` passes its console, so that messages do not overwrite its bars.
    """
    global _shared_console
    _shared_console = console


def without_controls(text: object) -> str:
    """Return a text that is safe to print.

    Terminal control characters, which a model, a file or a server may have put into it, are replaced, and keys in use
    are blanked out.
    """
    return replace_controls(without_keys(str(text)))


# --- messages on standard error ---------------------------------------------------------------------------------------


def say(text: str) -> None:
    """Print a message for the user that is not a result."""
    _print_message("", "", text)


def warn(text: str) -> None:
    """Print a warning."""
    _print_message("warning: ", "yellow", text)


def print_error(text: str, notes: Sequence[str] = ()) -> None:
    """Print an error, followed by notes such as how to continue."""
    _print_message("error: ", "bold red", text)
    for note in notes:
        say(note)


def _print_message(label: str, label_style: str, text: str) -> None:
    from rich.text import Text

    message = Text.assemble((label, label_style), without_controls(redact(text)))
    # If standard error is a log file on a full disk, the work itself should still go on.
    with suppress(OSError):
        stderr_console().print(message, soft_wrap=True)


def show_warnings() -> None:
    """Show each of lmassay's own warnings once, as one line on standard error.

    Python would hide deprecation warnings, and print others with a file name and a line of code.
    """
    already_shown: set[str] = set()
    show_other_warning = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not isinstance(message, OldPluginWarning | HookWarning):
            # The text instead of the object, which Python would print without blanking out secrets.
            show_other_warning(replace_controls(redact(str(message))), category, filename, lineno, file, line)
            return
        # A hook that fails for each example may give a different reason each time. The key is the name of the hook, so
        # that only its first failure is shown.
        key = message.part if isinstance(message, HookWarning) else str(message)
        if key not in already_shown:
            already_shown.add(key)
            warn(str(message))

    warnings.showwarning = show
    # A filter that the user gave to Python itself (python -W … or PYTHONWARNINGS) takes precedence.
    if not sys.warnoptions:
        warnings.simplefilter("always", OldPluginWarning)
        warnings.simplefilter("always", HookWarning)


class _RedactingFormatter(logging.Formatter):
    """Formats a log record of any library without secrets and terminal control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return replace_controls(redact(super().format(record)))


def redact_logs() -> None:
    """Blank out secrets in the log records of libraries, which Python prints on standard error."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_RedactingFormatter())


def print_traceback(error: BaseException) -> None:
    """Print the traceback of a bug as Python does, without secrets."""
    with suppress(OSError):
        sys.stderr.write(replace_controls(redact("".join(traceback.format_exception(error)))))


# --- results on standard output ---------------------------------------------------------------------------------------


def print_json(document: Any) -> None:
    """Print one JSON document, in ASCII so that every console can show it."""
    text = json.dumps(value_without_keys(document), indent=2, allow_nan=False)
    # ASCII includes one control character that JSON does not escape: DEL.
    sys.stdout.write(escape_controls_in_json(text) + "\n")


def __getattr__(name: str) -> Any:
    """Find the functions for tables under their old import path, with a deprecation warning."""
    if name not in ("is_narrow", "print_sentence", "print_table", "print_wide_table", "stdout_console"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from lmassay.cli import table_output

    message = f"{name} has moved: import it from lmassay.cli.table_output instead of lmassay.cli.console"
    warnings.warn(message, OldPluginWarning, stacklevel=2)
    return getattr(table_output, name)

"""The errors that lmassay raises on purpose; each message says what to do next.

LmassayError
├── UserError            the user can fix it: one line on standard error, exit code 2
│   ├── ConfigError      a configuration key or value is wrong
│   │   └── UnsuitableModel  the model cannot read the data of the task, such as words that its vocabulary lacks
│   ├── DataError        an input file is missing or wrong; the message names file and line
│   │   └── NotFetched   a model or data set is not on this machine yet; the message names the command
│   ├── PluginError      a scorer, perturbation, task or model cannot be found or used
│   ├── MissingExtra     an optional dependency is not installed; the message names the pip command
│   ├── StoreError       the results folder cannot be used
│   │   └── DamageError  a stored run, or the whole file, is not what lmassay wrote
│   ├── ClusterError     the workers, or the cluster, cannot do the work
│   └── BudgetReached    the budget is used up: the run stops when the requests already sent are answered
└── ModelError           one request failed permanently: it is recorded with its example, and the run goes on
    └── FatalModelError  every further request would fail, too, such as with a wrong key: the run stops at once
        └── BudgetNotEnforceable  there is a budget, but the server does not report its use

The command line also shows two warnings, each once: OldPluginWarning and HookWarning.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable

from lmassay.redaction import redact

# A name with at least this many letters also matches the names that begin with it.
_MIN_PREFIX = 3
_MAX_LISTED_NAMES = 20


class LmassayError(Exception):
    """The base class of all errors that lmassay raises on purpose. Secrets are blanked out of their messages.

    A message often quotes a plug-in, a library or a server, and the quoted text may contain an API key.
    """

    def __str__(self) -> str:
        return redact(super().__str__())


class UserError(LmassayError):
    """Something that the user can fix; the command line prints it as one line and exits with code 2."""

    commands: tuple[str, ...] = ()
    """Commands that fix the problem, in order; empty if no command can. ``lmassay init`` offers to run them."""


class ConfigError(UserError):
    """A configuration key or value is wrong."""


class UnsuitableModel(ConfigError):  # noqa: N818 - the name reads better without "Error"
    """The model can answer the kinds of requests that the task sends, but cannot read the data of the task.

    For example, words of the data are not in its vocabulary. In a configuration, the user can choose other data or
    another model. The data of ``lmassay card`` are fixed, so there the evaluation is reported as not applicable.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        """``remedy`` says what to do about the problem."""
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        """What is wrong, without what to do about it."""


class DataError(UserError):
    """An input file is missing, unreadable or inconsistent."""


class NotFetched(DataError):  # noqa: N818 - the name reads better without "Error"
    """A model or data set is not on this machine yet."""

    def __init__(self, message: str, command: str) -> None:
        """``message`` names ``command``, which fetches the model or data set."""
        super().__init__(message)
        self.commands = (command,)


class PluginError(UserError):
    """A plug-in cannot be found, loaded or used."""


class MissingExtra(UserError):  # noqa: N818 - the name reads better without "Error"
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str, then: str = "") -> None:
        """``what`` needs the optional dependencies ``extra``; ``then`` is a command to run after their installation."""
        install = f"pip install 'lmassay[{extra}]'"
        message = f"{what} needs an optional dependency: {install}"
        if then:
            message += f"; then run {then}"
        super().__init__(message)
        self.commands = (install, then) if then else (install,)


class StoreError(UserError):
    """The results folder cannot be used."""


class DamageError(StoreError):
    """A stored run, or the whole file, is not what lmassay wrote."""

    def __init__(self, message: str, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem or message
        """What is damaged: the message without the name of the file and without advice."""


class ClusterError(UserError):
    """The worker processes, or the cluster, cannot do the work."""


class BudgetReached(UserError):  # noqa: N818 - the name reads better without "Error"
    """The budget is used up; answers that have arrived are stored."""


class ModelError(LmassayError):
    """One request failed permanently; the run records it and goes on.

    If a model yields its answers in order, only the request whose answer was due next counts as failed, and those after
    it are sent again. Otherwise, all requests of the call that have no answer yet count as failed.
    """


class FatalModelError(ModelError):
    """No request can succeed; the run stops before it sends, and pays for, any more requests."""


class BudgetNotEnforceable(FatalModelError):  # noqa: N818 - the name reads better without "Error"
    """There is a budget, but the server does not report what the requests use."""


class OldPluginWarning(DeprecationWarning):
    """A plug-in or an import uses a name of an earlier version. It works, but will be removed."""


class HookWarning(UserWarning):
    """A hook of an evaluation failed, and the command continued without it."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part
        """The name of the hook and of its evaluation. A hook is reported once, however often it fails."""


def error_with_location(error: BaseException) -> str:
    """Describe an error in somebody else's code in one line, with the file and line it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    # Frames of Python's import machinery would only hide the line that failed.
    code_frames = [frame for frame in frames if not frame.filename.startswith("<frozen")]
    if not code_frames:
        return repr(error)
    last = code_frames[-1]
    return f"{error!r} ({last.filename}, line {last.lineno})"


def error_message(error: BaseException) -> str:
    """Describe why code of a plug-in failed.

    The messages of lmassay's own errors are complete; to all other errors, the file and line are added.
    """
    if isinstance(error, LmassayError):
        return str(error)
    return error_with_location(error)


def closest(name: str, available: Iterable[str]) -> str | None:
    """Return the available name that was probably meant: a similar one, or one that begins with the name; or None.

    >>> closest("chfr", ["chrf", "bleu"]), closest("acc", ["accuracy_amb", "bleu"]), closest("x", ["chrf"])
    ('chrf', 'accuracy_amb', None)
    """
    by_lower = {text.lower(): text for text in sorted(available, reverse=True)}
    lower = name.lower()
    matches = difflib.get_close_matches(lower, sorted(by_lower), n=1, cutoff=0.6)
    if not matches and len(lower) >= _MIN_PREFIX:
        matches = [text for text in sorted(by_lower) if text.startswith(lower)]
    if matches:
        return by_lower[matches[0]]
    return None


def did_you_mean(name: str, available: Iterable[str]) -> str:
    """Return a hint such as ``; did you mean 'chrf'?``, or the available names; an empty text if there are none.

    >>> did_you_mean("chfr", ["chrf", "bleu"])
    "; did you mean 'chrf'?"
    >>> did_you_mean("x", ["chrf", "bleu"])
    '; available: bleu, chrf'
    """
    names = sorted(available)
    meant = closest(name, names)
    if meant is not None:
        return f"; did you mean '{meant}'?"
    if not names:
        return ""
    listed = ", ".join(names[:_MAX_LISTED_NAMES])
    not_listed = len(names) - _MAX_LISTED_NAMES
    if not_listed > 0:
        return f"; available: {listed} and {not_listed} more"
    return f"; available: {listed}"

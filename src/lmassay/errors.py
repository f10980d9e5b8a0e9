"""Every error that lmassay raises on purpose; each message says what to do next.

LmassayError
├── UserError            the user can mend it: one line on standard error, exit code 2
│   ├── ConfigError      a configuration key or value
│   ├── DataError        an input file: names file and line
│   ├── PluginError      a scorer, perturbation, task or model that cannot be found, loaded or trusted
│   ├── MissingExtra     an optional dependency: names the pip command
│   ├── StoreError       the results folder
│   └── BudgetReached    nothing more may be spent: the run stops after what is in flight
└── ModelError           one request failed for good: recorded with its example, the run goes on
    └── FatalModelError  every further request would fail too (wrong key): the run stops at once

Two warnings are shown by the command line, each once: OldPluginWarning and HookWarning.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable

_LEAST_BEGINNING = 3
_MOST_KNOWN = 20


class LmassayError(Exception):
    """Base of all errors raised on purpose."""


class UserError(LmassayError):
    """Something the user can mend; shown as one line, exit code 2."""


class ConfigError(UserError):
    """A configuration key or value is wrong."""


class DataError(UserError):
    """An input file is missing, unreadable or inconsistent."""


class PluginError(UserError):
    """A plug-in cannot be found, loaded or trusted."""


class MissingExtra(UserError):  # noqa: N818 - reads as what it is
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional part: pip install 'lmassay[{extra}]'")


class StoreError(UserError):
    """The results folder cannot be used."""


class BudgetReached(UserError):  # noqa: N818 - reads as what it is
    """The budget is used up; what was answered is kept."""


class ModelError(LmassayError):
    """One request failed for good."""


class FatalModelError(ModelError):
    """No request can succeed; stop before more is asked or paid for."""


class OldPluginWarning(DeprecationWarning):
    """A plug-in is written for an earlier version; it works, but not for ever."""


class HookWarning(UserWarning):
    """A part of an evaluation failed, and the command went on without it."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part
        """Which part of which evaluation: it is reported once, however often it fails."""


def error_with_location(error: BaseException) -> str:
    """An error of somebody else's code in one line: what it was, and the file and line it came from."""
    # Not the lines of Python's own import machinery.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{error!r}{place}"


def error_message(error: BaseException) -> str:
    """Why somebody else's code failed: our own errors say it themselves."""
    return str(error) if isinstance(error, LmassayError) else error_with_location(error)


def closest(name: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that was probably meant, if there is one.

    >>> closest("chfr", ["chrf", "bleu"]), closest("acc", ["accuracy_amb", "bleu"]), closest("x", ["chrf"])
    ('chrf', 'accuracy_amb', None)
    """
    by_lower = {text.lower(): text for text in sorted(known, reverse=True)}
    lower = name.lower()
    near = difflib.get_close_matches(lower, sorted(by_lower), n=1, cutoff=0.6)
    longer = [text for text in sorted(by_lower) if len(lower) >= _LEAST_BEGINNING and text.startswith(lower)]
    found = [*near, *longer]
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint such as ``; did you mean 'chrf'?``, or what there is.

    >>> did_you_mean("chfr", ["chrf", "bleu"])
    "; did you mean 'chrf'?"
    >>> did_you_mean("x", ["chrf", "bleu"])
    '; known: bleu, chrf'
    """
    known = sorted(known)
    meant = closest(name, known)
    if meant is not None:
        return f"; did you mean '{meant}'?"
    more = f" and {len(known) - _MOST_KNOWN} more" if len(known) > _MOST_KNOWN else ""
    return f"; known: {', '.join(known[:_MOST_KNOWN])}{more}" if known else ""

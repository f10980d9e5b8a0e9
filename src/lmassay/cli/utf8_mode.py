"""Make file names that are not ASCII usable in every locale, even if the encoding of the locale is ASCII."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lmassay.errors import UserError


def restart_in_utf8_mode() -> None:
    """Start Python again in its UTF-8 mode if it would encode file names as ASCII; otherwise, return.

    Python does this itself for the locale C, unless a variable such as PYTHONUTF8=0 prevents it.
    """
    if not is_restart_needed(os.name, sys.getfilesystemencoding()) or not sys.executable:
        return
    # Worker processes inherit the variable.
    environment = {**os.environ, "PYTHONUTF8": "1"}
    os.execve(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]], environment)  # noqa: S606 - no shell


def is_restart_needed(system: str, file_name_encoding: str) -> bool:
    """Return whether file names that are not ASCII would be unusable. On Windows, file names are always Unicode.

    >>> is_restart_needed("posix", "ascii"), is_restart_needed("posix", "utf-8"), is_restart_needed("nt", "utf-8")
    (True, False, False)
    """
    return system == "posix" and codecs.lookup(file_name_encoding).name == "ascii"


def refuse_undecodable_names(arguments: Sequence[str]) -> None:
    """Raise a UserError for a file name that cannot be decoded here, because it could not be stored or shown."""
    names = list(arguments)
    # The working folder may have been deleted.
    with suppress(OSError):
        names.append(str(Path.cwd()))
    for name in names:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            raise UserError(
                f"the name {name!a} has bytes that are not {sys.getfilesystemencoding()}; rename the file or folder"
            ) from None

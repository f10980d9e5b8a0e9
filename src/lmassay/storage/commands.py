"""Commands that messages tell the user to run, ready to be pasted into a shell."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

DEFAULT_RESULTS = "results"
"""The results folder in the working folder."""


def command_line(*words: object) -> str:
    """Return a command of lmassay that a user can paste into a shell, whatever characters it contains.

    >>> command_line("resume", "--results", "my results")
    "lmassay resume --results 'my results'"
    """
    return shlex.join(["lmassay", *map(str, words)])


def default_results() -> Path:
    """Return the results folder that commands use if ``--results`` is not given."""
    return Path(os.environ.get("LMASSAY_RESULTS", DEFAULT_RESULTS))


def command_on_results(folder: Path, *words: object) -> str:
    """Return a command with ``--results FOLDER``, which is left out if the folder is the default.

    >>> command_on_results(Path("my results"), "resume")
    "lmassay resume --results 'my results'"
    """
    if folder == default_results():
        return command_line(*words)
    return command_line(*words, "--results", folder)

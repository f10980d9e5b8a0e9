"""Determine the format of an output file by the ending of ``-o``; an unknown ending is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lmassay.errors import UserError

HTML = {".html": "html", ".htm": "html"}


def format_by_ending(
    output: Path, endings: Mapping[str, str], *, without_ending: str | None = None, advice: str = ""
) -> str:
    """Return the format that the ending of an output file stands for.

    ``without_ending`` is the format of a name without an ending, such as that of a pipe. ``advice`` is appended to
    the message that refuses a name; it begins with its own punctuation.
    """
    ending = output.suffix.lower()
    if not ending and without_ending is not None:
        return without_ending
    if ending in endings:
        return endings[ending]
    names = list(endings)
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    raise UserError(f"-o {output}: the name must end in {listed}{advice}")

"""Numbers with nouns, as they are written in sentences."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> counted(1, "run"), counted(2000, "run"), counted(0, "reply", "replies")
    ('1 run', '2,000 runs', '0 replies')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {plural or noun + 's'}"
